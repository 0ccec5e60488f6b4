module example.com/chat

go 1.26.0

require github.com/tmacc/tmacc v0.0.0

replace github.com/tmacc/tmacc => ../..

tool github.com/tmacc/tmacc/cmd/tmacc
