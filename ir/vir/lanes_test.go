package vir

import (
	"strings"
	"testing"
)

// Every lane loads a word of its own and stores it for the next lane of its workgroup, which passes it on.
const passOn = `func rotate(in ptr, out ptr, tiles int, bytes int align 16, box shared 16)
	groups tiles in+bytes out+bytes
	loop l0 2 lane
		loop l1 2 lane
			v0:i32x1 = load in+0 l0*8 l1*4
			store box+0 l0*8 l1*4 v0
			barrier
			v1:i32x1 = load box+8 l0*-8 l1*4
			v2:i32x1 = add v1 v1
			store out+0 l0*8 l1*4 v2
		end
	end
`

func TestLanes(t *testing.T) {
	f := mustParse(t, passOn)
	if have := f.String(); have != passOn {
		t.Errorf("prints\n%s", have)
	}
	if f.Lanes() != 4 {
		t.Errorf("%d lanes", f.Lanes())
	}
	in, out := make([]byte, 48), make([]byte, 48)
	for i := range 12 {
		in[4*i] = byte(i)
	}
	if err := Eval(f, []Arg{{Buf: in}, {Buf: out}, {Int: 3}, {Int: 16}, {}}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if want := byte(2 * (i ^ 2)); out[4*i] != want {
			t.Errorf("word %d is %d, want %d", i, out[4*i], want)
		}
	}
}

// What depends on the order of lanes or of workgroups is an error, and says where.
func TestRaces(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"no barrier", "\t\t\tbarrier\n", "", "byte 8 of box is stored by lane 2 of group 0 and accessed by lane 0 of group 0"},
		{"one word for all lanes", "store out+0 l0*8 l1*4 v2", "store out+0 l0*8 v2", "byte 0 of out is stored by lane 0 of group 0 and accessed by lane 1 of group 0"},
		{"one tile for all groups", "out+bytes", "", "byte 0 of out is stored by lane 0 of group 0 and accessed by lane 0 of group 1"},
		{"stored where others load", "store out+0 l0*8 l1*4 v2", "store in+4 l0*8 l1*-4 v2", ""},
		{"stored where another lane has loaded", "\t\t\tstore out", "\t\t\tv3:i32x1 = load box+0 l0*8 l1*4\n\t\t\tstore box+8 l0*-8 l1*4 v3\n\t\t\tstore out", "byte 8 of box is loaded by several lanes and stored by lane 0 of group 0"},
		{"never stored", "\t\t\tstore box+0 l0*8 l1*4 v0\n", "", "byte 8 of box is loaded before it is stored"},
		{"odd step", "bytes int align 16", "bytes int align 32", "bytes is 16, no multiple of 32"},
	} {
		f := mustParse(t, strings.Replace(passOn, c.from, c.to, 1))
		err := Eval(f, []Arg{{Buf: make([]byte, 48)}, {Buf: make([]byte, 48)}, {Int: 3}, {Int: 16}, {}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// Loops of lanes are one nest of constants around all that has an order.
func TestLanesRefused(t *testing.T) {
	for from, to := range map[string]string{
		"loop l0 2 lane":                  "loop l0 2",
		"loop l1 2 lane":                  "loop l1 tiles lane",
		"\tloop l0 2 lane\n":              "\tstore out+0 v9\n\tloop l0 2 lane\n",
		"\t\tloop l1 2 lane\n":            "\t\tloop l2 2 lane\n\t\tend\n\t\tloop l1 2 lane\n",
		"\t\tloop l1 2":                   "\t\tbarrier\n\t\tloop l1 2",
		"l1 2 lane":                       "l1 1024 lane",
		"box shared 16":                   "box shared 65537",
		"groups tiles in+bytes out+bytes": "groups bytes in+bytes",
		"align 16":                        "align 24",
	} {
		text := strings.Replace(strings.Replace(passOn, from, to, 1), "\tgroups", "\tgroups", 1)
		if strings.Contains(to, "v9") {
			text = strings.Replace(text, "\tloop l0", "\tv9:i32x1 = splat 0\n\tloop l0", 1)
			text = strings.Replace(text, "\tstore out+0 v9\n\tv9:i32x1 = splat 0\n", "\tv9:i32x1 = splat 0\n\tstore out+0 v9\n", 1)
		}
		f, err := Parse(text)
		if err == nil {
			err = Verify(f)
		}
		if err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
}
