package model

import (
	"encoding/binary"
	"slices"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
)

// kept is what stays in a memory of its own: weights of norms, biases, and numbers that operators read.
type kept struct {
	memory  abi.Memory
	bytes   int64
	vectors map[*float32]region
	numbers map[float32]region
	experts keptExperts
	whole   [2]region // i32, of 64 rows as kindLayout has them: all positions of a block count
	uploads []upload
}

// upload is what a region holds.
type upload struct {
	region
	data []byte
}

func (k *kept) keep(data any) region {
	u := upload{}
	u.data, _ = binary.Append(nil, binary.LittleEndian, data) // numbers have a size
	u.region = taken(&k.bytes, len(u.data))
	u.kept = true
	k.uploads = append(k.uploads, u)
	return u.region
}

func (k *kept) vector(v []float32) {
	if len(v) > 0 {
		k.vectors[&v[0]] = k.keep(v)
	}
}

func (k *kept) number(v float32) {
	if _, known := k.numbers[v]; !known && v == v {
		k.numbers[v] = k.keep([]float32{v})
	}
}

// newKept lays out what stays.
func (r *resident) newKept() *kept {
	k, c := &kept{vectors: map[*float32]region{}, numbers: map[float32]region{}}, &r.m.config
	for i := range r.m.layers {
		x := &r.m.layers[i]
		for _, v := range x.vectors {
			k.vector(v)
		}
		for _, w := range x.matrices {
			if w != nil && w.packed != nil {
				k.number(w.packed.Scale())
			}
		}
		a := x.mixer.(*attention)
		k.number(a.scale)
		k.number(2 * a.scale / a.cap)
	}
	k.vector(r.m.outputNorm)
	if r.onDevice(r.m.head) {
		k.number(r.m.head.packed.Scale())
	}
	k.number(1)
	k.number(c.Epsilon)
	k.number(c.ScoreCap)
	for _, n := range []int{c.Embedding, c.HeadSize, c.width(), c.extent(sizeQueries)} {
		k.number(share(n))
	}
	if c.Experts.Count > 0 {
		r.keepExperts(k)
	}
	for i, n := range []int32{0, ops.Block} {
		k.whole[i] = k.keep(slices.Repeat([]int32{n}, ops.Block*c.Heads/c.KVHeads))
	}
	return k
}

// fill makes the memory of what stays.
func (k *kept) fill(on abi.Computer) (err error) {
	if k.memory, err = on.Memory(k.bytes); err != nil {
		return err
	}
	for _, u := range k.uploads {
		if err := k.memory.Write(u.at, u.data); err != nil {
			return err
		}
	}
	k.uploads = nil
	return nil
}

// share is what a norm multiplies a sum of n squares by.
func share(n int) float32 { return 1 / float32(n) }
