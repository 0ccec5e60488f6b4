// The compiler and its search as a library: how a kernel is made, how long it takes, and a package of the best one found.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/session"
)

func main() {
	session.Main() // first: kernels that nothing has verified run in a copy of this process
	limit := flag.Duration("time", 10*time.Second, "how long to search")
	flag.Parse()
	ctx, p := context.Background(), must(ir.Named("w4-g32"))
	s := must(session.Open(ctx, session.Options{Problem: p, Purposes: []session.Purpose{{Mode: "l2", M: 512, N: 1, K: 2048}},
		Limit: *limit, Events: func(e session.Event) { fmt.Println(e) }}))
	trace := s.Default()[0].Trace // of the narrowest kernel
	for _, stage := range build.Stages(p, trace, s.Target) {
		fmt.Printf("%s: %d bytes of text, error %v\n", stage.Name, len(stage.Text), stage.Err)
	}
	fmt.Println(must(s.Try(ctx, trace)))
	found := must(s.Search(ctx)) // s.Confirm and s.Decide tell whether its best is faster than the default
	files := must(gen.Package(gen.Spec{Package: "kernels", Products: []gen.Product{must(s.Product(ctx, found))}}))
	must(len(files), gen.Write("kernels", files))
}

// must returns v if there is no error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
