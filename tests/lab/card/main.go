// Command card measures products on a GPU, in minutes, for one report:
//
//	bash tests/lab/card/run.sh                                   # builds it, and runs it with ggml's Vulkan back end
//	go run -tags peer ./tests/lab/card -o results.json
//	go run ./tests/lab/card -page results.json...                # docs/lab/card.md
//
// It needs a Vulkan device and nothing else: its binary alone may be taken to a machine with a card. In one run it measures the ceilings of
// the device, chooses default schedules by its speeds, checks the bits of each schedule's product against the definition, times the schedules,
// improves the best ones by their neighbours in the space of schedules, and times ggml's Vulkan back end. Each part, and each problem, has a process of
// its own: one that fails, hangs or loses the device is a line at the end of the summary, and the rest goes on.
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

	"github.com/tmacc/tmacc/lower/spirv"
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
	problems, known            string
	sheet                      float64
	child                      bool
}

func main() {
	var o options
	flag.StringVar(&o.traces, "traces", "", "more schedules than the default ones: a `file` or a folder of files .jsonl, {\"problem\": NAME, \"trace\": [...]} a line, or lines of docs/lab/card.jsonl")
	flag.StringVar(&o.peer, "peer", "", "`folder` of ggml's libraries with its Vulkan back end")
	flag.StringVar(&o.out, "o", "card.json", "`file` of the report")
	flag.StringVar(&o.summary, "summary", "", "`file` of the summary, besides standard output")
	flag.StringVar(&o.device, "device", "", "the `device`, as "+vulkan.EnvDevice)
	flag.StringVar(&o.commit, "commit", "", "what the program was built from")
	flag.DurationVar(&o.limit, "limit", 6*time.Minute, "`time` of all")
	flag.DurationVar(&o.improve, "improve", 4*time.Second, "`time` to look for better schedules of a problem and a shape")
	flag.BoolVar(&o.small, "small", false, "small shapes, for a software device")
	flag.StringVar(&o.parts, "parts", "ceilings,schedules,peer,preparations,products", "what to do")
	flag.StringVar(&o.problems, "problems", "w1,w1-g128,ternary,ternary-g256,w2,w2-g64,w4,w4-g32,w4-g128", "formats of the products, those of the goals first if the time is short")
	flag.Float64Var(&o.sheet, "nominal", 0, "products of bytes by matrices that the card's data sheet names, in `TOPS`, to be printed beside the measured peak")
	flag.BoolVar(&o.child, "child", false, "do the one part in this process")
	flag.StringVar(&o.known, "known", "", "`report` of the parts before, with -child")
	pages := flag.Bool("page", false, "print docs/lab/card.md from the reports that are the arguments")
	flag.Parse()
	if *pages {
		text, err := page(flag.Args())
		if fmt.Print(text); err != nil {
			fmt.Fprintf(os.Stderr, "card: %v\n", err)
			os.Exit(2)
		}
		return
	}
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
	Nominal  float64            `json:"nominal_tops,omitempty"` // of the data sheet
	Ceilings *device.Ceilings   `json:"ceilings,omitempty"`
	Speeds   *spirv.Speeds      `json:"speeds,omitempty"`   // by which default schedules are chosen
	Chosen   []entry            `json:"chosen,omitempty"`   // default schedules
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
	d        *vulkan.Device // nil in the process that only starts others
	ctx      context.Context
	deadline time.Time
	began    time.Time
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	d, err := vulkan.Open(vulkan.Options{Device: o.device, Timeout: 10 * time.Minute})
	if err != nil {
		return err
	}
	x := &lab{options: o, d: d, ctx: ctx, began: time.Now(), deadline: time.Now().Add(o.limit)}
	x.report = report{Date: time.Now().UTC().Format(time.DateTime), Commit: o.commit, Host: host(), Device: d.Info, Nominal: o.sheet, Seconds: map[string]float64{}}
	if o.child {
		name := o.parts
		if name == "products" {
			name += " of " + o.problems
		}
		x.part(name, x.here)
		return x.save() // the end of the process ends what the driver may still compile
	}
	x.log("%v", d.Info)
	if x.d = nil; d.Close() != nil {
		x.failed("device", errors.New("it was lost before the first part"))
	}
	for _, p := range strings.Split(o.parts, ",") {
		x.part(p, func() error { return x.apart(p) })
	}
	text := x.text()
	fmt.Print(text)
	if o.summary != "" {
		x.failed("summary", os.WriteFile(o.summary, []byte(text), 0o644))
	}
	return x.save()
}

// here does the part in this process.
func (x *lab) here() error {
	switch x.parts {
	case "ceilings":
		return x.ceilings()
	case "schedules":
		return x.choose()
	case "peer":
		return x.peerHere()
	case "preparations":
		return x.preparations()
	case "products":
		return x.products()
	}
	return fmt.Errorf("there is no such part")
}

// apart does a part in another process, or products in one for each problem. Each has a part of the time that is left.
func (x *lab) apart(part string) error {
	left := time.Until(x.deadline)
	if left < time.Second || x.ctx.Err() != nil {
		return errors.New("not begun: the time was up")
	}
	switch part {
	case "products":
		return x.allProducts()
	case "peer":
		if x.peer == "" {
			return errors.New("ggml is not measured: there is no -peer")
		}
		return x.process(part, left/3)
	}
	return x.process(part, left/4)
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
	speeds := spirv.SpeedsOf(x.d.Name)
	if len(speeds.Devices) == 0 && !x.small { // of a device that no speeds name
		measured, err := device.Calibrate(x.d, speeds, o)
		if x.failed("speeds: default schedules are chosen by general ones", err); err == nil {
			speeds = measured
		}
	}
	x.Speeds = &speeds
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
