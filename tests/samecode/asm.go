package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
)

// key is a kernel of a format: the target, and "n4" or "prepare".
type key struct{ target, what string }

func (a key) compare(b key) int {
	return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(len(a.what), len(b.what)), cmp.Compare(a.what, b.what))
}

// code is the machine code of a kernel.
type code struct {
	hash         [32]byte
	instructions int
}

// targetOf is the target of a file of assembly: "zen2" of kern_zen2_amd64.s.
func targetOf(file string) string {
	parts := strings.Split(strings.TrimSuffix(file, ".s"), "_")
	return strings.Join(parts[1:len(parts)-1], "_")
}

var (
	text    = regexp.MustCompile(`^TEXT ·(\w+)\(SB\)(.*)$`)
	datum   = regexp.MustCompile(`^DATA (\w+)<>\+(\d+)\(SB\)/(\d+), (.*)$`)
	address = regexp.MustCompile(`(\w+)<>`)
	label   = regexp.MustCompile(`^\w+:$`)
	space   = regexp.MustCompile(`\s+`)
)

// kernelsIn are the functions of a file of assembly.
func kernelsIn(target, source string) map[key]code {
	constants := map[string]string{} // the values of each symbol
	bodies := map[string][]string{}
	var name string
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(line, "//")
		line = space.ReplaceAllString(strings.TrimSpace(line), " ")
		if m := datum.FindStringSubmatch(line); m != nil {
			constants[m[1]] += fmt.Sprintf("%s/%s=%s;", m[2], m[3], m[4])
			continue
		}
		switch m := text.FindStringSubmatch(line); {
		case m != nil:
			name = m[1]
			bodies[name] = []string{m[2]}
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "GLOBL"):
		case name != "":
			bodies[name] = append(bodies[name], line)
		}
	}
	kernels := map[key]code{}
	for name, lines := range bodies {
		what := name[strings.LastIndexByte(name, '_')+1:]
		kernels[key{target, what}] = codeOf(lines, constants)
	}
	return kernels
}

// codeOf hashes lines with the values of constants in place of their names.
func codeOf(lines []string, constants map[string]string) code {
	var c code
	h := sha256.New()
	for i, line := range lines {
		if i > 0 && !label.MatchString(line) {
			c.instructions++
		}
		line = address.ReplaceAllStringFunc(line, func(s string) string {
			return "{" + constants[strings.TrimSuffix(s, "<>")] + "}"
		})
		fmt.Fprintln(h, line)
	}
	h.Sum(c.hash[:0])
	return c
}
