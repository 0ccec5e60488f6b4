// Command card measures products on a GPU, in minutes, for one report:
//
//	bash tests/lab/card/run.sh                                   # builds it, and runs it with ggml's Vulkan back end
//	go run -tags peer ./tests/lab/card -traces DIR -o results.json
//
// It needs a Vulkan device and nothing else: its binary alone may be taken to a machine with a card. In one run it measures the ceilings of
// the device, checks the bits of each schedule's product against the definition, times the schedules, improves the best ones by their
// neighbours in the space of schedules, and times ggml's Vulkan back end. What fails is in the report, and the rest goes on.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/search/device"
)

// options are the flags.
type options struct {
	traces, peer, out, summary string
	device                     string
	commit                     string
	limit                      time.Duration // of all, and of the search for better schedules of each problem and shape
	improve                    time.Duration
	small                      bool
	parts                      string
	child                      bool
}

func main() {
	var o options
	flag.StringVar(&o.traces, "traces", "", "`folder` with files of schedules, .jsonl: {\"problem\": NAME, \"cols\": 1, \"trace\": [...]} a line")
	flag.StringVar(&o.peer, "peer", "", "`folder` of ggml's libraries with its Vulkan back end")
	flag.StringVar(&o.out, "o", "card.json", "`file` of the report")
	flag.StringVar(&o.summary, "summary", "", "`file` of the summary, besides standard output")
	flag.StringVar(&o.device, "device", "", "the `device`, as "+vulkan.EnvDevice)
	flag.StringVar(&o.commit, "commit", "", "what the program was built from")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "`time` of all")
	flag.DurationVar(&o.improve, "improve", 4*time.Second, "`time` to look for better schedules of a problem and a shape")
	flag.BoolVar(&o.small, "small", false, "small shapes, for a software device")
	flag.StringVar(&o.parts, "parts", "ceilings,peer,preparations,products", "what to do")
	flag.BoolVar(&o.child, "child", false, "time ggml in this process, which it may end")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintf(os.Stderr, "card: %v\n", err)
		os.Exit(2)
	}
}

// report is what one run found.
type report struct {
	Date     string             `json:"date"`
	Commit   string             `json:"commit"`
	Host     string             `json:"host"`
	Device   vulkan.Info        `json:"device"`
	Ceilings *device.Ceilings   `json:"ceilings,omitempty"`
	Best     []*timed           `json:"best,omitempty"`     // of each problem and shape
	Products []*timed           `json:"products,omitempty"` // all that were timed
	Refused  []refused          `json:"refused,omitempty"`
	Prepared []prepared         `json:"prepared,omitempty"`
	Peer     []peerTime         `json:"peer,omitempty"`
	Errors   []string           `json:"errors,omitempty"`
	Seconds  map[string]float64 `json:"seconds"` // of each part
}

// lab is one run.
type lab struct {
	options
	report
	d        *vulkan.Device
	ctx      context.Context
	deadline time.Time
	began    time.Time
	stuck    bool // the driver still compiles something that nobody waits for
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	d, err := vulkan.Open(vulkan.Options{Device: o.device, Timeout: 10 * time.Minute})
	if err != nil {
		return err
	}
	x := &lab{options: o, d: d, ctx: ctx, began: time.Now(), deadline: time.Now().Add(o.limit)}
	x.report = report{Date: time.Now().UTC().Format(time.DateTime), Commit: o.commit, Host: host(), Device: d.Info, Seconds: map[string]float64{}}
	x.log("%v", d.Info)
	for _, p := range []struct {
		name string
		run  func() error
	}{{"ceilings", x.ceilings}, {"peer", x.peers}, {"preparations", x.preparations}, {"products", x.products}} {
		if strings.Contains(o.parts, p.name) {
			x.part(p.name, p.run)
		}
	}
	text := x.text()
	fmt.Print(text)
	if o.summary != "" {
		x.failed("summary", os.WriteFile(o.summary, []byte(text), 0o644))
	}
	if x.stuck {
		return x.save() // the end of the process ends the driver's work, too
	}
	return errors.Join(x.save(), d.Close())
}

// part does one part. Its panic is an error of the part alone.
func (x *lab) part(name string, do func() error) {
	began := time.Now()
	x.log("%s ...", name)
	x.failed(name, caught(do))
	x.Seconds[name] = time.Since(began).Seconds()
	x.failed(name, x.save())
	x.log("%s: %.1f s", name, x.Seconds[name])
}

// caught is do with panics as errors.
func caught(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			stack := make([]byte, 4096)
			err = fmt.Errorf("panic: %v\n%s", r, stack[:runtime.Stack(stack, false)])
		}
	}()
	return do()
}

// failed notes an error, if it is one.
func (x *lab) failed(what string, err error) {
	if err != nil {
		x.log("%s: %v", what, err)
		x.Errors = append(x.Errors, fmt.Sprintf("%s: %v", what, err))
	}
}

func (x *lab) log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1f "+format+"\n", append([]any{time.Since(x.began).Seconds()}, args...)...)
}

// save writes the report as it is now.
func (x *lab) save() error {
	data, err := json.MarshalIndent(x.report, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(x.out, data, 0o644)
}

// over says whether the time is up.
func (x *lab) over() bool { return time.Now().After(x.deadline) || x.ctx.Err() != nil }

// ceilings measures what the device can do at most.
func (x *lab) ceilings() error {
	o := device.Options{}
	if x.small {
		o = device.Options{Bytes: 16 << 20, Groups: 8, Steps: 4, Rounds: 1}
	}
	c, err := device.Measure(x.d, o)
	x.Ceilings = &c
	return err
}

// host names the processor.
func host() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(data), "\n") {
		if name, ok := strings.CutPrefix(line, "model name\t: "); ok {
			return name + ", " + strconv.Itoa(runtime.NumCPU()) + " CPUs"
		}
	}
	return runtime.GOARCH
}
