package shaders

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
)

// scopesText has the lanes of a workgroup exchange words, then the lanes of each subgroup, which does not wait for the others then. S stands for the lanes of a subgroup.
const scopesText = `func scopes(a ptr, out ptr)
	v0:f32x1 = splat 0
	loop l0 4 lane carry v0
		loop l1 S lane
		end
		v1:f32x1 = load a+0 l0*4
		v0:f32x1 = add v0 v1
	end
	loop l2 4 lane
		v2:f32x1 = splat 0
		v3:f32x1 = splat 0
		loop l3 S lane carry v2 v3
			v4:f32x1 = load a+0 l2*ROW l3*4
			v2:f32x1 = add v2 v4
			v3:f32x1 = sub v3 v4
		end
		store out+64 l2*8 v2
		store out+68 l2*8 v3
		v5:f32x1 = splat 0
		loop l4 S lane carry v5
			v6:f32x1 = load a+4 l2*ROW l4*4
			v5:f32x1 = add v5 v6
		end
		store out+128 l2*4 v5
	end
	store out+0 v0
`

// TestScopes: subgroups that are ahead of others do not overwrite what these still read. Devices that run a subgroup after the other may not show it, so that the
// shader is looked at, too.
func TestScopes(t *testing.T) {
	d := Device(t)
	c := Controls(d)
	if c.Subgroup == 0 {
		t.Skip("the device has no subgroups that exchange words")
	}
	text := strings.NewReplacer("ROW", fmt.Sprint(4*c.Subgroup), "S", fmt.Sprint(c.Subgroup)).Replace(scopesText)
	f, err := vir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	args := []vir.Arg{{}, {Buf: make([]byte, 256)}}
	for i := range 4*c.Subgroup + 1 {
		args[0].Buf = binary.LittleEndian.AppendUint32(args[0].Buf, math.Float32bits(float32(i*i)))
	}
	for _, target := range Targets(false) {
		s, err := lower.Select(context.Background(), target, f)
		if err != nil {
			t.Fatal(err)
		}
		onDevice(t, target, f, s, args)
		apart(t, Compiled(t, target, f, c).Text())
	}
}

// apart says that no shared variable is used behind barriers of subgroups and behind barriers of the workgroup, too.
func apart(t *testing.T, text string) {
	t.Helper()
	numbers, scopes, scope := map[string]string{}, map[string]string{}, ""
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 5 && words[2] == "OpConstant":
			numbers[words[0]] = words[4]
		case len(words) == 5 && words[2] == "OpVariable" && words[4] == "Workgroup":
			scopes[words[0]] = ""
		case len(words) == 4 && words[0] == "OpControlBarrier":
			scope = numbers[words[1]]
		case len(words) > 4 && words[2] == "OpAccessChain":
			if was, shared := scopes[words[4]]; shared && was != "" && was != scope {
				t.Errorf("%s is exchanged in scopes %s and %s", words[4], was, scope)
			} else if shared {
				scopes[words[4]] = scope
			}
		}
	}
	if len(scopes) != 2 {
		t.Errorf("%d shared variables: %v", len(scopes), scopes)
	}
}

// TestSharedBytes: bytes of a word that several lanes store would be lost.
func TestSharedBytes(t *testing.T) {
	f, err := vir.Parse("func bytes(a ptr, near shared 64)\n\tloop l0 8 lane\n\t\tv0:u8x1 = load a+0 l0*1\n\t\tstore near+0 l0*1 v0\n\tend\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range Targets(false) {
		s, err := lower.Select(context.Background(), target, f)
		if err != nil {
			t.Fatal(err)
		}
		no := (*nest.Refused)(nil)
		if _, err := target.Print(s, spirv.Controls{}); !errors.As(err, &no) || !strings.Contains(err.Error(), "lanes store whole words to a buffer that they share") {
			t.Errorf("%s: %v", target.Machine().Name, err)
		}
	}
}
