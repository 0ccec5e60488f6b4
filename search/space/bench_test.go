package space

import (
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
)

// BenchmarkMoves says how long one neighbour of a point takes, a parsed trace and a sample.
func BenchmarkMoves(b *testing.B) {
	for _, name := range []string{"w4", "q4_k", "ternary"} {
		p, err := ir.Named(name)
		if err != nil {
			b.Fatal(err)
		}
		sp, err := For(p, targets.ByName("avx512vbmi"))
		if err != nil {
			b.Fatal(err)
		}
		first, err := sp.First()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/neighbour", func(b *testing.B) {
			for n := 0; n < b.N; {
				if err := sp.Neighbours(first, func(string, Point) bool { n++; return n < b.N }); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parse", func(b *testing.B) {
			for b.Loop() {
				if _, err := sp.Parse(first.Trace()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/sample", func(b *testing.B) {
			rng := rand.New(rand.NewSource(1))
			for b.Loop() {
				if _, err := sp.Sample(rng); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
