package vulkan

import (
	"testing"
	"time"
)

// BenchmarkRun is a small pipeline that is recorded, run and freed each time.
func BenchmarkRun(b *testing.B) {
	d := unwatched(b, Options{})
	p, x, y := adder(b, d), filled(b, d, 1), filled(b, d, 2)
	push := bytesOf(1, 1)
	for b.Loop() {
		ok(b, d.Run(p, [3]int{1}, []*Buffer{x, y}, push))
	}
}

// BenchmarkSequence is the time of each command of a sequence that is recorded once.
func BenchmarkSequence(b *testing.B) {
	for name, n := range map[string]int{"1": 1, "100": 100} {
		b.Run(name, func(b *testing.B) {
			d := unwatched(b, Options{})
			p, x, y := adder(b, d), filled(b, d, 1), filled(b, d, 2)
			var commands []Command
			for range n {
				commands = append(commands, add(p, x.All(), y.All(), 1, 1))
			}
			began := time.Now()
			s := must[*Sequence](b)(d.Record(commands, RecordOptions{}))
			recorded := time.Since(began)
			for b.Loop() {
				ok(b, s.Run())
			}
			b.ReportMetric(float64(recorded.Nanoseconds())/float64(n), "ns/recorded")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/command")
		})
	}
}

func BenchmarkCopies(b *testing.B) {
	for name, slot := range map[string]int64{"mapped": 0, "staged": slotBytes} {
		b.Run(name, func(b *testing.B) {
			d := unwatched(b, Options{slotBytes: slot})
			data := make([]byte, 64<<20)
			x := must[*Buffer](b)(d.Buffer(int64(len(data))))
			b.SetBytes(2 * int64(len(data)))
			for b.Loop() {
				ok(b, x.Upload(0, data))
				ok(b, x.Download(0, data))
			}
		})
	}
}
