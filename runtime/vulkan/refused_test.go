package vulkan

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

// refused wants an error with a text.
func refused(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %q", err, text)
	}
}

func TestModuleRefused(t *testing.T) {
	code := func(words ...uint32) []byte { return bytesOf(append([]uint32{magic, 0x10500, 0, 9, 0}, words...)...) }
	for text, module := range map[string][]byte{
		"0 bytes are no SPIR-V module":                        nil,
		"22 bytes are no SPIR-V module":                       make([]byte, 22),
		"it begins with 0x03022307":                           bytesOf(0x03022307, 0, 0, 0, 0),
		"a module of SPIR-V 1.7: Vulkan 1.3 reads 1.0 to 1.6": bytesOf(magic, 0x10700, 0, 0, 0),
		"a module of SPIR-V 2.0":                              bytesOf(magic, 0x20000, 0, 0, 0),
		"an instruction of 0 words at word 5 of 6":            code(opFunction),
		"an instruction of 9 words at word 7 of 8":            code(2<<16|opCapability, 1, 9<<16|opFunction),
		"without a function":                                  code(2<<16|opCapability, 1),
		"a module with binding 65536":                         code(4<<16|opDecorate, 1, decorBinding, 65536),
	} {
		_, err := inspect(module)
		refused(t, err, "vulkan: ")
		refused(t, err, text)
	}
}

// TestShared counts what a workgroup shares: 3 vectors of 4 words, and 5 halves.
func TestShared(t *testing.T) {
	m := newModule()
	for _, words := range [][]uint32{{opInt, 1, 32, 0}, {opFloat, 2, 16}, {opConstant, 1, 3, 3}, {opConstant, 1, 4, 5}, {opVector, 5, 1, 4}, {opArray, 6, 5, 3}, {opArray, 7, 2, 4},
		{opPointer, 8, classWorkgroup, 6}, {opPointer, 9, classWorkgroup, 7}, {opPointer, 10, 1, 6}, {opVariable, 8, 11, classWorkgroup}, {opVariable, 9, 12, classWorkgroup}, {opVariable, 10, 13, 1},
		{opPointer, 8}, {opVariable}, {opArray, 6, 6, 0}} {
		m.measure(words)
	}
	if want := int64(3*16 + 5*2); m.shared != want {
		t.Errorf("%d bytes, want %d", m.shared, want)
	}
}

func TestLayoutRefused(t *testing.T) {
	device := Info{Name: "card", Subgroup: Subgroup{Size: 32, Min: 8, Max: 32, Control: true, MostPerGroup: 16}, Features: Features{FullSubgroups: true},
		Limits: Limits{Push: 128, Buffers: 8, Local: [3]int{512, 512, 64}, Invocations: 512}}
	for _, c := range []struct {
		change func(i *Info, m *module, l *Layout)
		want   string // "" if it is accepted
	}{
		{func(i *Info, m *module, l *Layout) {}, ""},
		{func(i *Info, m *module, l *Layout) { l.Entry = "first" }, `no compute shader "first": it has ["main"]`},
		{func(i *Info, m *module, l *Layout) { m.capabilities = []uint32{1, 39} }, "needs capability Int8, which the device lacks"},
		{func(i *Info, m *module, l *Layout) { m.capabilities, i.Features.Int8 = []uint32{1, 39}, true }, ""},
		{func(i *Info, m *module, l *Layout) { m.capabilities = []uint32{6022} }, "needs capability CooperativeMatrixKHR"},
		{func(i *Info, m *module, l *Layout) { m.capabilities = []uint32{4449} }, "needs capability 4449"},
		{func(i *Info, m *module, l *Layout) { m.controls = []control{{4462, 32}} }, "needs execution mode RoundingModeRTE of 32 bits"},
		{func(i *Info, m *module, l *Layout) { m.controls = []control{{4463, 7}} }, "needs execution mode RoundingModeRTZ of 7 bits"},
		{func(i *Info, m *module, l *Layout) {
			m.controls, i.FloatControls = []control{{4459, 16}}, map[int]FloatControls{16: {PreserveDenormals: true}}
		}, ""},
		{func(i *Info, m *module, l *Layout) { m.bindings = 3 }, "has binding 2, its layout 2 buffers"},
		{func(i *Info, m *module, l *Layout) { l.Buffers = 9 }, "9 buffers, the device has 0 to 8"},
		{func(i *Info, m *module, l *Layout) { l.PushBytes = 132 }, "132 bytes of push constants, the device has 0 to 128"},
		{func(i *Info, m *module, l *Layout) { l.PushBytes = 6 }, "by fours"},
		{func(i *Info, m *module, l *Layout) { l.PushBytes = -4 }, "-4 bytes of push constants"},
		{func(i *Info, m *module, l *Layout) { m.local = [3]int{1, 1, 65} }, "65 invocations of a workgroup in dimension 2, the device has at most 64"},
		{func(i *Info, m *module, l *Layout) { m.local = [3]int{64, 64, 1} }, "4096 invocations of a workgroup, the device has at most 512"},
		{func(i *Info, m *module, l *Layout) { m.shared, i.Limits.Shared = 49152, 49152 }, ""},
		{func(i *Info, m *module, l *Layout) { m.shared, i.Limits.Shared = 49153, 49152 }, "a workgroup shares 49153 bytes, the device has 49152"},
		{func(i *Info, m *module, l *Layout) { l.Subgroup = 8 }, ""},
		{func(i *Info, m *module, l *Layout) { l.Subgroup = 64 }, "subgroups of 64, the device has powers of two from 8 to 32"},
		{func(i *Info, m *module, l *Layout) { l.Subgroup = 24 }, "subgroups of 24"},
		{func(i *Info, m *module, l *Layout) { l.Subgroup = -8 }, "subgroups of -8"},
		{func(i *Info, m *module, l *Layout) { l.Subgroup, i.Subgroup.Control = 8, false }, "a subgroup size cannot be chosen: the device has 32"},
		{func(i *Info, m *module, l *Layout) { l.Subgroup, m.local[0] = 8, 256 }, "256 invocations of a workgroup in subgroups of 8, the device has at most 16 subgroups"},
		{func(i *Info, m *module, l *Layout) { l.FullSubgroups = true }, ""},
		{func(i *Info, m *module, l *Layout) { l.FullSubgroups, m.local[0] = true, 48 }, "full subgroups of 32 need a multiple"},
		{func(i *Info, m *module, l *Layout) { l.FullSubgroups, l.Subgroup, m.local[0] = true, 16, 48 }, ""},
		{func(i *Info, m *module, l *Layout) { l.FullSubgroups, i.Features.FullSubgroups = true, false }, "no full subgroups"},
	} {
		i, m, l := device, &module{capabilities: []uint32{1}, entries: []string{"main"}, local: [3]int{64, 1, 1}, bindings: 2}, Layout{Entry: "main", Buffers: 2}
		c.change(&i, m, &l)
		err := i.accepts(m, l)
		if c.want == "" && err != nil {
			t.Errorf("%+v: %v", l, err)
		} else if c.want != "" {
			refused(t, err, "vulkan: a pipeline on card: ")
			refused(t, err, c.want)
		}
	}
}

// TestMatrices: a module may have the matrices that the device multiplies, and no others.
func TestMatrices(t *testing.T) {
	device := &Info{Cooperative: []Cooperative{{M: 16, N: 8, K: 32, A: "s8", B: "s8", C: "s32", Scope: 3}, {M: 8, N: 8, K: 16, A: "f16", B: "f16", C: "f32", Scope: 3}}}
	const byte8, word32, half, subgroup, eight, sixteen, thirtyTwo, zero, one, two = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
	for _, c := range []struct {
		of, scope, rows, columns, use uint32
		lacks                         string
	}{
		{byte8, subgroup, sixteen, thirtyTwo, zero, ""}, {byte8, subgroup, thirtyTwo, eight, one, ""}, {word32, subgroup, sixteen, eight, two, ""},
		{half, subgroup, eight, sixteen, zero, ""},
		{byte8, subgroup, sixteen, sixteen, zero, "cooperative matrices of 16 x 16 i8 as left factors"},
		{half, subgroup, sixteen, thirtyTwo, zero, "cooperative matrices of 16 x 32 f16 as left factors"},
		{byte8, subgroup, eight, thirtyTwo, one, "cooperative matrices of 8 x 32 i8 as right factors"},
		{byte8, two, sixteen, thirtyTwo, zero, "cooperative matrices of 16 x 32 i8 as left factors"},
		{byte8, subgroup, sixteen, eight, two, "cooperative matrices of 16 x 8 i8 as sums"},
	} {
		m := newModule()
		for _, words := range [][]uint32{{opInt, byte8, 8, 0}, {opInt, word32, 32, 1}, {opFloat, half, 16}, {opConstant, 20, subgroup, 3}, {opConstant, 20, eight, 8},
			{opConstant, 20, sixteen, 16}, {opConstant, 20, thirtyTwo, 32}, {opConstant, 20, zero, 0}, {opConstant, 20, one, 1}, {opConstant, 20, two, 2},
			{opMatrix, 21, c.of, c.scope, c.rows, c.columns, c.use}} {
			m.measure(words)
		}
		if have := device.lacks(m); have != c.lacks {
			t.Errorf("lacks %q, want %q", have, c.lacks)
		}
	}
}

// TestCapabilities: each has a name, and no device without features has it.
func TestCapabilities(t *testing.T) {
	all := &Info{Subgroup: Subgroup{Operations: 0xff}}
	for _, r := range all.Features.rows(newChain(false)) {
		if *r.has = true; r.capability != 0 && capabilityNames[r.capability] == "" {
			t.Errorf("capability %d has no name", r.capability)
		}
	}
	for c, name := range capabilityNames {
		if !all.capable(c) || (&Info{}).capable(c) {
			t.Errorf("capability %s: %v with all features, %v without", name, all.capable(c), (&Info{}).capable(c))
		}
	}
	if one := (&Info{Subgroup: Subgroup{Operations: 1 << 2}}); !one.capable(63) || one.capable(61) || one.capable(64) {
		t.Error("subgroups have other operations than their bits say")
	}
}

func TestDispatchRefused(t *testing.T) {
	d := open(t, Options{})
	p, x := adder(t, d), filled(t, d, make([]uint32, 256)...)
	freed := adder(t, d)
	freed.Free()
	for _, c := range []struct {
		change func(c *Dispatch)
		want   string
	}{
		{func(c *Dispatch) { c.Pipeline = nil }, "command 1: it has no pipeline of this device"},
		{func(c *Dispatch) { c.Pipeline = freed }, "its pipeline was freed"},
		{func(c *Dispatch) { c.Buffers = c.Buffers[:1] }, "1 buffers, its pipeline takes 2"},
		{func(c *Dispatch) { c.Push = nil }, "0 bytes of push constants, its pipeline takes 8"},
		{func(c *Dispatch) { c.Groups[1] = -1 }, "-1 workgroups in dimension 1"},
		{func(c *Dispatch) { c.Groups[2] = math.MaxInt32 }, "2147483647 workgroups in dimension 2"},
		{func(c *Dispatch) { c.Buffers[1] = Range{} }, "buffer 1: no buffer of this device"},
		{func(c *Dispatch) { c.Buffers[1].Size++ }, "buffer 1: 1025 bytes at 0 of a buffer of 1024"},
		{func(c *Dispatch) { c.Buffers[1].Size = 0 }, "buffer 1: 0 bytes at 0"},
		{func(c *Dispatch) { c.Buffers[1].Offset = -4 }, "buffer 1: 1024 bytes at -4"},
		{func(c *Dispatch) { c.Buffers[0] = Range{x, 1, 4} }, "that begin at a multiple of"},
		{func(c *Dispatch) { c.Indirect = Range{x, 0, 8} }, "numbers of workgroups in 8 bytes at 0"},
		{func(c *Dispatch) { c.Indirect = Range{x, 1020, 12} }, "12 bytes at 1020 of a buffer of 1024"},
	} {
		bad := add(p, x.All(), x.All(), 10, 1)
		c.change(bad)
		_, err := d.Record([]Command{&Copy{To: Range{x, 0, 4}, From: Range{x, 4, 4}}, bad}, RecordOptions{})
		refused(t, err, c.want)
	}
	for want, c := range map[string]*Copy{
		"a copy of 4 bytes to 8":             {To: Range{x, 0, 8}, From: Range{x, 8, 4}},
		"a copy between ranges that overlap": {To: Range{x, 0, 8}, From: Range{x, 4, 8}},
		"8 bytes at 1020 of a buffer":        {To: Range{x, 0, 8}, From: Range{x, 1020, 8}},
	} {
		_, err := d.Record([]Command{c}, RecordOptions{})
		refused(t, err, want)
	}
	broken := slices.Clone(shader(t, "add"))
	binary.LittleEndian.PutUint32(broken[20:], 0)
	_, err := d.Pipeline(broken, Layout{Buffers: 2, PushBytes: 8})
	refused(t, err, "an instruction of 0 words at word 5")
}

// TestFreed: a sequence does not start when something that it uses was freed.
func TestFreed(t *testing.T) {
	d := open(t, Options{})
	for i, free := range []func(p *Pipeline, x *Buffer, s *Sequence){
		func(p *Pipeline, x *Buffer, s *Sequence) { p.Free() },
		func(p *Pipeline, x *Buffer, s *Sequence) { x.Free() },
		func(p *Pipeline, x *Buffer, s *Sequence) { s.Free() },
	} {
		p, x := adder(t, d), filled(t, d, 1, 2)
		s := must[*Sequence](t)(d.Record([]Command{add(p, x.All(), x.All(), 2, 1)}, RecordOptions{}))
		ok(t, s.Start())
		free(p, x, s) // waits for s
		refused(t, s.Start(), []string{"a pipeline of the sequence was freed", "a buffer of 8 bytes of the sequence was freed", "the sequence was freed"}[i])
	}
	x := filled(t, d, 1, 2)
	x.Free()
	for want, c := range map[string]*Copy{"no buffer of this device": {}, "the buffer was freed": {To: x.All(), From: x.All()}} {
		_, err := d.Record([]Command{c}, RecordOptions{})
		refused(t, err, want)
	}
	if d.Limits.Timestamp > 0 {
		s := must[*Sequence](t)(d.Record(nil, RecordOptions{Timed: true}))
		ok(t, s.Run())
		s.Free()
		_, err := s.Times()
		refused(t, err, "has no times")
	}
}
