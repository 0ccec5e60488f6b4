package session_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/search/session"
)

// A search of ten seconds, whose result goes to a lock if it is faster than the default schedules.
func Example() {
	session.Main()
	p, err := ir.Named("w4-g32")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	s, err := session.Open(ctx, session.Options{Problem: p, Limit: 10 * time.Second,
		Lock: "tmacc.lock", Events: func(e session.Event) { fmt.Println(e) }})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	d, err := s.Tune(ctx)
	fmt.Println(d, err)
}

// Schedules of one's own are verified and measured beside the default ones.
func ExampleSession_Try() {
	session.Main()
	p, err := ir.Named("w2")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	s, err := session.Open(ctx, session.Options{Problem: p})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	x, err := s.Try(ctx, s.Default()[0].Trace)
	fmt.Println(x, err)
}
