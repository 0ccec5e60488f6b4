package session

import (
	"fmt"
	"time"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/tune"
)

// Event is what a session reports while it works: a Step, Note, Fault, Dropped, Better or Progress. Its text is one
// line for a person.
type Event interface {
	fmt.Stringer
	event()
}

// Step says what begins now and may take seconds.
type Step string

// Note reports an error that does not end the work.
type Note struct {
	About Topic
	Err   error
}

// Topic is what a note is about.
type Topic int

// Topics of notes.
const (
	NoCeilings  Topic = iota // the machine's ceilings could not be measured, so shares of them are unknown
	NotLogged                // measurements are not, or not all, in the log
	LogUnread                // a part of the log could not be read
	NotLockable              // the lock cannot be changed, so that Save will fail
	NotUsed                  // the entry of the product in the lock, or its record, is not used
	Unconfirmed              // the best of a search could not be measured again
)

var topics = [...]string{
	NoCeilings:  "shares of ceilings are not known: %v",
	NotLogged:   "not logged: %v",
	LogUnread:   "%v",
	NotLockable: "%v: the schedules found will be printed, and not locked",
	NotUsed:     "%v",
	Unconfirmed: "the best could not be measured again: %v",
}

// Fault reports a schedule that broke a rule that no schedule may break, such as a wrong result: an error in tmacc.
type Fault string

// Dropped reports a candidate that could not be measured.
type Dropped struct{ Reason string }

// Better reports a candidate that is faster than all before it.
type Better struct {
	Ratio  tune.Ratio       // of its times to the default schedules' times, with an extra if one purpose is slower, and its noise
	Traces []schedule.Trace // of its kernels, the narrowest first
}

// Progress reports how far a search is, after each batch.
type Progress struct {
	Product  string // the format and the target
	Measured int    // candidates
	Trials   int    // the most that may be measured
	Dropped  int    // candidates
	Took     time.Duration
	Limit    time.Duration
	Best     tune.Ratio     // the least cost so far: see Better
	First    measure.Record // the best candidate's figures for the first purpose; Ns is 0 if they are unknown
}

func (e Step) String() string    { return string(e) }
func (e Note) String() string    { return fmt.Sprintf(topics[e.About], e.Err) }
func (e Fault) String() string   { return "BUG, please report: " + string(e) }
func (e Dropped) String() string { return "dropped: " + e.Reason }
func (e Better) String() string {
	return fmt.Sprintf("the best so far takes %v of the default's time, unconfirmed", e.Ratio)
}

func (e Progress) String() string {
	text := fmt.Sprintf("%s: %d of %d measured in %s of %s, %d dropped", e.Product, e.Measured, e.Trials, e.Took.Round(time.Second), e.Limit, e.Dropped)
	if e.Best.Median == 0 {
		return text
	}
	text += "; best "
	if r := e.First; r.Ns > 0 {
		text += fmt.Sprintf("%.1f us, %.1f weights/ns, %.2f of the ceiling, ", r.Ns/1e3, r.GWeightsS, r.Share)
	}
	return text + fmt.Sprintf("%v of the default's time", e.Best)
}

func (Step) event()     {}
func (Note) event()     {}
func (Fault) event()    {}
func (Dropped) event()  {}
func (Better) event()   {}
func (Progress) event() {}

// say reports an event.
func (s *Session) say(e Event) {
	if s.Events != nil {
		s.Events(e)
	}
}
