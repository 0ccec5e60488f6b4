package grammar

// pick is a byte of a set: if possible a token, and a letter, a digit or at least visible.
func (v *Vocabulary) pick(s byteSet) byte {
	best, most := byte(0), -1
	for b := 255; b >= 0; b-- {
		c, rank := byte(b), 0
		switch {
		case !s.has(c):
			continue
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			rank = 2
		case ' ' < c && c < 0x7f:
			rank = 1
		}
		if v.single[b] != absent {
			rank += 3
		}
		if rank >= most {
			best, most = c, rank
		}
	}
	return best
}

// inTime reports whether the text can end within left tokens. It makes the plan.
func (k *Mask) inTime(left int) bool {
	if !k.planned {
		k.plan, k.planned = k.planAt(k.at), true
	}
	return k.plan.exists && len(k.plan.tokens) <= left
}

// endsWithin reports whether a text can end within left tokens after a state.
func (k *Mask) endsWithin(at int32, left int) bool {
	switch need := int(k.m.states[at].need); {
	case k.single && need <= left:
		return true
	case need > left*k.v.longest:
		return false
	}
	p := k.planAt(at)
	return p.exists && len(p.tokens) <= left
}

// planAt is the plan from a state on.
func (k *Mask) planAt(at int32) plan {
	p, ok := k.plans[at]
	if !ok {
		if len(k.plans) >= mostPlans {
			clear(k.plans)
		}
		if need := k.m.states[at].need; need <= mostPlan {
			p.tokens, p.exists = k.v.fewest(k.shortest(at))
		}
		k.plans[at] = p
	}
	return p
}

// shortest is the shortest text from a state on.
func (k *Mask) shortest(at int32) (text []byte) {
	s := &k.m.states[at]
	if s.ends {
		return nil
	}
	for _, id := range s.bytes {
		if k.m.needs[id] != s.need {
			continue
		}
		for ; id != bottom; id = k.m.cells[id].below {
			text = k.rest(text, k.m.cells[id])
		}
		return text
	}
	return text
}

// rest appends the shortest rest of a cell's node.
func (k *Mask) rest(text []byte, c cell) []byte {
	switch n := &k.g.nodes[c.node]; n.kind {
	case oneByte:
		return append(text, k.picks[n.set])
	case sequence:
		for _, kid := range n.kids[c.n:] {
			text = k.whole(text, kid)
		}
	case repeat:
		for i := c.n; i < n.least && !k.g.nullable(n.kids[0]); i++ {
			text = k.whole(text, n.kids[0])
		}
	}
	return text
}

// whole appends the shortest text of a node.
func (k *Mask) whole(text []byte, at int32) []byte {
	switch n := &k.g.nodes[at]; {
	case n.need == 0:
		return text
	case n.kind == choice:
		return k.whole(text, n.best)
	case n.kind == rule:
		return k.whole(text, n.kids[0])
	}
	return k.rest(text, cell{node: at})
}
