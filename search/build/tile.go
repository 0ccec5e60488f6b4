package build

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// How much of a tile is drawn.
const (
	mostDrawn = 512 // bytes
	wideDrawn = 8   // bytes in a line
)

// Tile draws the packed tile of a kernel by its stages: its head and its first record, each byte as the row and the element of K of the first
// value that it holds, and where the other fields of a byte are. The error says why there is no layout.
func Tile(stages []Stage) (string, error) {
	for _, s := range stages {
		if l, ok := s.Value.(*format.Layout); ok && l != nil {
			return drawn(l), nil
		}
		if s.Err != nil {
			return "", s.Err
		}
	}
	return "", errors.New("there is no layout")
}

func drawn(l *format.Layout) string {
	lines := []string{fmt.Sprintf("a tile of %d rows: %d bytes, then %d for each %d elements of K", l.TileM, l.HeaderBytes, l.RecordBytes, l.RecordK)}
	cells := map[int]string{}
	for i := range l.Parts {
		p := &l.Parts[i]
		lines = append(lines, partText(p))
		place(l, p, cells)
	}
	for at := 0; at < min(l.HeaderBytes+l.RecordBytes, mostDrawn); at += wideDrawn {
		if at == l.HeaderBytes {
			lines = append(lines, strings.Repeat("-", 6+9*wideDrawn))
		}
		line := fmt.Sprintf("%5d ", at)
		for b := at; b < at+wideDrawn; b++ {
			line += fmt.Sprintf(" %-8s", cells[b])
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	if l.HeaderBytes+l.RecordBytes > mostDrawn {
		lines = append(lines, "  ...")
	}
	return strings.Join(lines, "\n")
}

// partText says what a part holds, and which bits of its words each field has.
func partText(p *format.Part) string {
	text := fmt.Sprintf("%s from byte %d", p.Name, p.Base)
	if len(p.Map) == 0 {
		return text
	}
	var fields []string
	for i, bits := range p.Map {
		var at []string
		for _, b := range bits {
			at = append(at, fmt.Sprintf("%d.%d", b.Word, b.Bit))
		}
		fields = append(fields, fmt.Sprintf("field %d: %s", i, strings.Join(at, " ")))
	}
	return text + "; bits as word.bit; " + strings.Join(fields, ", ")
}

// place writes the first value of each byte of p: m3 k16 is row 3, element 16 of K.
func place(l *format.Layout, p *format.Part, cells map[int]string) {
	most := l.RecordK
	for row := range l.TileM {
		for k := range most {
			at := p.Offset(row, k)
			if _, ok := cells[at]; ok || at >= mostDrawn {
				continue
			}
			cells[at] = fmt.Sprintf("m%d", row)
			if at >= l.HeaderBytes {
				cells[at] += fmt.Sprintf(" k%d", k)
			} else {
				cells[at] = fmt.Sprintf("%.5s %s", p.Name, cells[at])
			}
		}
	}
}
