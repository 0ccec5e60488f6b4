package jit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// ObjectError reports that `go tool asm` wrote something this package does not
// read: most likely the Go tool chain has a new object format.
type ObjectError struct{ Problem string }

func (e *ObjectError) Error() string { return "jit: Go object file: " + e.Problem }

// The object file format, $GOROOT/src/cmd/internal/goobj/objfile.go, Go 1.20 to
// at least 1.26. Numbers are little-endian.
const (
	magic      = "\x00go120ld"
	headerSize = 8 + 8 + 4 // magic, fingerprint, flags; then one offset per block

	blkSymdef    = 3 // definitions: Symdef, Hashed64def, Hasheddef, Nonpkgdef
	blkNonpkgdef = 6
	blkNonpkgref = 7
	blkRelocIdx  = 11
	blkDataIdx   = 13
	blkReloc     = 14
	blkData      = 16
	numBlk       = 19

	symSize   = 8 + 2 + 1 + 1 + 1 + 4 + 4
	relocSize = 4 + 1 + 2 + 8 + 8

	pkgSelf = 1<<31 - 1 - 4
	pkgNone = 1<<31 - 1

	kindText = 1 // objabi.STEXT

	relocAddrARM64 = 3  // objabi.R_ADDRARM64
	relocCall      = 7  // objabi.R_CALL
	relocPCRel     = 14 // objabi.R_PCREL
)

// symbol is a definition of an object file.
type symbol struct {
	name   string
	kind   byte
	size   int
	data   []byte // shorter than size if the rest is zeros
	relocs []reloc
}

// reloc asks for where symbol sym + add lies, in the instruction at off.
type reloc struct {
	off, kind, sym int
	add            int64
	extern         string // if sym is -1: a symbol outside this file
}

// object reads fields of a file whose blocks were found to lie inside it.
type object struct {
	b   []byte
	off [numBlk]int
}

func (o *object) u32(at int) int { return int(binary.LittleEndian.Uint32(o.b[at:])) }

func (o *object) name(sym int) string {
	n, at := o.u32(sym), o.u32(sym+4)
	return string(o.b[at : at+n])
}

// readObject returns the definitions of an object file in its order.
func readObject(file []byte) (syms []symbol, err error) {
	// Fields are read without asking whether they lie inside the file.
	defer func() {
		if r := recover(); r != nil {
			syms, err = nil, &ObjectError{fmt.Sprintf("malformed: %v", r)}
		}
	}()
	_, body, ok := bytes.Cut(file, []byte("\n!\n"))
	if !ok {
		return nil, &ObjectError{"no header"}
	}
	if !bytes.HasPrefix(body, []byte(magic)) {
		return nil, &ObjectError{fmt.Sprintf("magic is %q, not %q", body[:min(len(body), len(magic))], magic)}
	}
	o := &object{b: body}
	last := headerSize
	for i := range o.off {
		o.off[i] = o.u32(headerSize + 4*i)
		if o.off[i] < last || o.off[i] > len(body) {
			return nil, &ObjectError{fmt.Sprintf("malformed: block %d is at %d of %d bytes", i, o.off[i], len(body))}
		}
		last = o.off[i]
	}
	for at := o.off[blkSymdef]; at+symSize <= o.off[blkNonpkgref]; at += symSize {
		syms = append(syms, symbol{name: o.name(at), kind: o.b[at+10], size: o.u32(at + 13)})
	}
	for i := range syms {
		from, to := o.u32(o.off[blkDataIdx]+4*i), o.u32(o.off[blkDataIdx]+4*i+4)
		syms[i].data = o.b[o.off[blkData]+from : o.off[blkData]+to]
		from, to = o.u32(o.off[blkRelocIdx]+4*i), o.u32(o.off[blkRelocIdx]+4*i+4)
		for r := from; r < to; r++ {
			syms[i].relocs = append(syms[i].relocs, o.reloc(o.off[blkReloc]+r*relocSize, len(syms)))
		}
	}
	return syms, nil
}

func (o *object) reloc(at, defs int) reloc {
	r := reloc{
		off:  o.u32(at),
		kind: int(binary.LittleEndian.Uint16(o.b[at+5:])),
		add:  int64(binary.LittleEndian.Uint64(o.b[at+7:])),
		sym:  -1,
	}
	pkg, sym := o.u32(at+15), o.u32(at+19)
	switch first := (o.off[blkNonpkgdef] - o.off[blkSymdef]) / symSize; {
	case pkg == pkgSelf:
		r.sym = sym
	case pkg == pkgNone && first+sym < defs:
		r.sym = first + sym
	case pkg == pkgNone:
		r.extern = o.name(o.off[blkNonpkgref] + (first+sym-defs)*symSize)
	default:
		r.extern = fmt.Sprintf("symbol %d of package %d", sym, pkg)
	}
	return r
}

// align is the alignment of every symbol: that of a cache line.
const align = 64

// linker knows the relocations of an architecture.
type linker struct {
	ret   []byte // the instruction of a return
	pad   byte   // between symbols: no instruction, or one that faults
	kinds []int
	// relocate writes in the instruction that code begins with, which is at p of an image and of one of kinds, where to lies. Images begin at the start of a page.
	relocate func(code []byte, p, to int)
}

// linkers are of the architectures whose functions can be mapped.
var linkers = map[string]linker{
	"amd64": {[]byte{0xc3} /* RET */, 0xcc /* INT3 */, []int{relocPCRel, relocCall}, relocateAMD64},
	"arm64": {[]byte{0xc0, 0x03, 0x5f, 0xd6} /* RET */, 0 /* UDF */, []int{relocAddrARM64}, relocateARM64},
}

// relocateAMD64 writes a distance from after its 4 bytes.
func relocateAMD64(code []byte, p, to int) {
	binary.LittleEndian.PutUint32(code, uint32(to-p-4))
}

// relocateARM64 writes a distance in pages in ADRP, and the rest in the ADD behind it
// (Arm Architecture Reference Manual, C6.2.11 and C6.2.5).
func relocateARM64(code []byte, p, to int) {
	const page = 1 << 12
	adrp, add := binary.LittleEndian.Uint32(code), binary.LittleEndian.Uint32(code[4:])
	pages := uint32(to/page - p/page)
	adrp |= pages&3<<29 | pages>>2&(1<<19-1)<<5
	add |= uint32(to%page) << 10
	binary.LittleEndian.PutUint32(code, adrp)
	binary.LittleEndian.PutUint32(code[4:], add)
}

// link appends the functions of syms, and the data they refer to, to an image
// and records where each function begins, by its name without the package.
func (l linker) link(img []byte, text map[string]Span, syms []symbol) ([]byte, error) {
	at := make([]int, len(syms))
	place := func(i int) {
		s := syms[i]
		for len(img)%align != 0 {
			img = append(img, l.pad)
		}
		at[i] = len(img)
		img = append(append(img, s.data...), make([]byte, s.size-len(s.data))...)
	}
	for i, s := range syms {
		if s.kind != kindText {
			continue
		}
		place(i)
		name := s.name[strings.IndexByte(s.name, '.')+1:]
		if _, ok := text[name]; ok {
			return nil, fmt.Errorf("jit: two functions are called %s", name)
		}
		text[name] = Span{at[i], s.size}
	}
	placed := map[int]bool{}
	for i, s := range syms {
		if s.kind != kindText {
			continue
		}
		for _, r := range s.relocs {
			if r.sym < 0 {
				return nil, fmt.Errorf("jit: %s refers to %s, which is not in the file", s.name, r.extern)
			}
			if !slices.Contains(l.kinds, r.kind) {
				return nil, &ObjectError{fmt.Sprintf("%s: relocation of kind %d", s.name, r.kind)}
			}
			if syms[r.sym].kind != kindText && !placed[r.sym] {
				placed[r.sym] = true
				place(r.sym)
			}
			p := at[i] + r.off
			l.relocate(img[p:], p, at[r.sym]+int(r.add))
		}
	}
	return img, nil
}
