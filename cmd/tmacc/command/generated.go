package command

import (
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/search/kernels"
)

// generated is what tmacc run -json prints.
type generated struct {
	Model        string         `json:"model"`
	Architecture string         `json:"architecture"`
	Prompt       string         `json:"prompt"`
	Text         string         `json:"text"` // that was added
	End          generation.End `json:"end"`
	Temperature  float64        `json:"temperature"`
	Seed         int64          `json:"seed"`
	Threads      int            `json:"threads"`
	Kept         int            `json:"kept"`      // tokens of the prompt that the session had
	Forgotten    int            `json:"forgotten"` // tokens, by -context-shift
	Head         string         `json:"head"`      // the type of its weights
	Prefill      spent          `json:"prefill"`
	Decode       spent          `json:"decode"`
	Kernels      []ranKernels   `json:"kernels"`
	Steps        string         `json:"steps,omitempty"` // with a device: "device", or why the CPU computes everything between products
}

// spent is the time of some tokens.
type spent struct {
	Tokens  int     `json:"tokens"`
	Seconds float64 `json:"seconds"`
	Speed   float64 `json:"tokens_per_second"` // 0: too few tokens
}

// ranKernels are the kernels of a product.
type ranKernels struct {
	Format   string         `json:"format"`
	ActGroup int            `json:"act_group"`
	Target   string         `json:"target"`
	Origin   kernels.Origin `json:"origin"`
	Device   string         `json:"device,omitempty"` // that they run on
}

// report is r for -json.
func (w *writing) report(r *generation.Report) generated {
	c := w.model.Config()
	g := generated{
		Model: w.flags.name(), Architecture: c.Architecture, Prompt: w.prompt, Text: w.added.String(), End: r.End,
		Temperature: w.flags.options.Temperature, Seed: w.flags.seed, Threads: w.flags.threadCount(), Head: w.headType(),
		Kept: r.Kept, Forgotten: r.Forgotten,
		Prefill: spent{r.Prompt, r.Prefill.Seconds(), r.PrefillSpeed()},
		Decode:  spent{r.Tokens, r.Decode.Seconds(), r.DecodeSpeed()},
		Kernels: w.ranKernels(), Steps: w.steps(),
	}
	return g
}

// ranKernels are the kernels that ran. A model of floats has none.
func (o *opened) ranKernels() []ranKernels {
	out := []ranKernels{}
	for _, x := range o.provider.Made() {
		out = append(out, ranKernels{x.Problem.Name(), x.Problem.Act.Group, x.Product.Target(), x.Origin, x.Product.Device()})
	}
	return out
}

// steps says where steps are computed, if a device was asked for: "device", or why not there.
func (o *opened) steps() string {
	if o.device == nil {
		return ""
	}
	err := o.model.Resident()
	if bad := (*model.Error)(nil); errors.As(err, &bad) && bad.Thing == "device" {
		return bad.Problem
	}
	if err != nil {
		return oneLine(asFlag(err))
	}
	return "device"
}

// speed says how fast the tokens came.
func (w *writing) speed(r *generation.Report) string {
	text := fmt.Sprintf("prefill of %s at %.1f tokens/s", message.Count(r.Prompt, "token"), r.PrefillSpeed())
	if r.Kept > 0 {
		text += fmt.Sprintf(" (%d more were kept)", r.Kept)
	}
	if r.Tokens > 0 {
		text += fmt.Sprintf(", %d added", r.Tokens)
	}
	if s := r.DecodeSpeed(); s > 0 {
		text += fmt.Sprintf(" at %.1f tokens/s", s)
	}
	if r.Forgotten > 0 {
		text += fmt.Sprintf(" (%d were forgotten)", r.Forgotten)
	}
	return text + ", " + message.Count(w.flags.threadCount(), "thread")
}
