package sample

import (
	"fmt"
	"math"
)

// Options say how a token is chosen. The zero value takes the likeliest one, the first of several. Meaning and order are
// llama.cpp's: the mask, Bias, penalties, TopK, Typical, TopP, MinP, Temperature.
type Options struct {
	Temperature float64           // that logits are divided by; 0: the likeliest token
	TopK        int               // the number of likeliest tokens that may come; 0: all
	TopP        float64           // only the likeliest tokens that have this probability together; 0 or 1: all
	MinP        float64           // only tokens with this share of the likeliest one's probability; 0: all
	Typical     float64           // only the most typical tokens that have this probability together; 0 or 1: all
	RepeatLast  int               // the number of last tokens that penalties are for; 0: 64, -1: all
	Repeat      float64           // divides positive logits of tokens that the text has, and multiplies negative ones; 0 or 1: off
	Presence    float64           // is subtracted from the logits of tokens that the text has
	Frequency   float64           // is subtracted from a logit for each time that the text has the token
	Bias        map[int32]float32 // is added to logits; -Inf forbids a token
	Mirostat    int               // 1 or 2: this version of Mirostat, with Mask, Bias and Temperature and without the others
	Tau         float64           // the surprise that Mirostat aims for, in bits; 0: 5
	Eta         float64           // how fast Mirostat learns; 0: 0.1
	Seed        uint64            // of the random numbers
	Mask        Mask              // allows some tokens only; nil: all
}

// Mask allows some tokens at each place of a text.
type Mask interface {
	// Apply makes the logits of all tokens that may not come next -Inf. left is how many tokens may still come, this one
	// included and a token that ends the text excluded; less than 0: any number.
	Apply(logits []float32, left int)
	// Accept takes the next token, which Apply allows.
	Accept(id int32)
	// MayEnd reports whether the text may end here.
	MayEnd() bool
	// Reset goes back to the beginning.
	Reset()
	// Err is why no token may come, if the mask is at fault.
	Err() error
}

// The bounds of options.
const (
	LeastTemperature = 0.01 // besides 0
	MostTemperature  = 100
	MostPenalty      = 1000
	MostTau          = 100
)

// lastTokens is how many tokens penalties are for unless RepeatLast says another number.
const lastTokens = 64

// Error is an option with a bad value.
type Error struct {
	Option string // its name in Options
	Value  any
	Want   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("sample: %s %v: want %s", e.Option, e.Value, e.Want)
}

// rule is what an option must hold.
type rule struct {
	option string
	value  any
	holds  bool
	want   string
}

// check finds the first option with a bad value.
func (o *Options) check() error {
	for _, x := range o.rules() {
		if !x.holds {
			return &Error{x.option, x.value, x.want}
		}
	}
	return nil
}

// rules are written so that a NaN holds none of them.
func (o *Options) rules() []rule {
	t, penalty := o.Temperature, fmt.Sprintf("%d to %d", -MostPenalty, MostPenalty)
	between := func(x, least, most float64) bool { return x >= least && x <= most }
	rules := []rule{
		{"Temperature", t, t == 0 || between(t, LeastTemperature, MostTemperature),
			fmt.Sprintf("0, the likeliest token, or %v to %v", LeastTemperature, MostTemperature)},
		{"TopK", o.TopK, between(float64(o.TopK), 0, math.MaxInt32), "1 or more, or 0: all"},
		{"TopP", o.TopP, between(o.TopP, 0, 1), "more than 0, up to 1: all"},
		{"MinP", o.MinP, between(o.MinP, 0, 1), "0, all, to 1"},
		{"Typical", o.Typical, between(o.Typical, 0, 1), "more than 0, up to 1: all"},
		{"RepeatLast", o.RepeatLast, between(float64(o.RepeatLast), -1, math.MaxInt32), "1 or more, or -1: all"},
		{"Repeat", o.Repeat, o.Repeat == 0 || between(o.Repeat, 1./MostPenalty, MostPenalty), fmt.Sprintf("%v to %d; 1: off", 1./MostPenalty, MostPenalty)},
		{"Presence", o.Presence, between(o.Presence, -MostPenalty, MostPenalty), penalty},
		{"Frequency", o.Frequency, between(o.Frequency, -MostPenalty, MostPenalty), penalty},
		{"Mirostat", o.Mirostat, o.Mirostat >= 0 && o.Mirostat <= 2, "1 or 2, or 0: off"},
		{"Tau", o.Tau, between(o.Tau, 0, MostTau), fmt.Sprintf("more than 0, up to %d", MostTau)},
		{"Eta", o.Eta, between(o.Eta, 0, 1), "more than 0, up to 1"},
	}
	if o.Mirostat != 0 {
		rules = append(rules, rule{"Temperature", t, t != 0, "more than 0, as Mirostat chooses at random"})
	}
	for id, x := range o.Bias {
		rules = append(rules, rule{"Bias", fmt.Sprintf("%v of token %d", x, id), x == x && id >= 0, "a number for a token"})
	}
	return rules
}
