module github.com/tmacc/tmacc

go 1.26
