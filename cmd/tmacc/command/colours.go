package command

import (
	"os"

	"golang.org/x/term"
)

// colours marks text for a terminal, or leaves it as it is.
type colours bool

// colours are for standard error: if it is a terminal, and the environment does not forbid them (no-color.org).
func (c *cli) colours() colours {
	f, ok := c.err.(*os.File)
	_, forbidden := os.LookupEnv("NO_COLOR")
	return colours(ok && !forbidden && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

func (on colours) with(code, text string) string {
	if !on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (on colours) dim(text string) string   { return on.with("2", text) }
func (on colours) red(text string) string   { return on.with("31", text) }
func (on colours) green(text string) string { return on.with("32", text) }
