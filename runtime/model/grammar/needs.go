package grammar

import "container/heap"

// needs computes how many bytes the shortest text of each node has, the shortest first, as Knuth generalized Dijkstra's
// algorithm to grammars (1977): a node is done when its kids with shorter texts are.
func (g *Grammar) needs() {
	w := &waiting{parents: g.parents(), missing: make([]int, len(g.nodes)), sums: make([]int64, len(g.nodes))}
	for i := range g.nodes {
		n := &g.nodes[i]
		n.need = endless
		switch {
		case n.kind == oneByte:
			w.push(int32(i), 1, 0)
		case n.kind == repeat && n.least == 0, n.kind == sequence && len(n.kids) == 0:
			w.push(int32(i), 0, 0)
		case n.kind == sequence:
			w.missing[i] = len(n.kids)
		}
	}
	for w.Len() > 0 {
		x := heap.Pop(w).(waiter)
		if n := &g.nodes[x.node]; n.need == endless {
			n.need, n.best = int32(x.need), x.kid
			g.tell(w, x)
		}
	}
	for i := range g.nodes {
		g.suffixes(&g.nodes[i])
	}
}

// tell offers the parents of a node its need.
func (g *Grammar) tell(w *waiting, x waiter) {
	for _, parent := range w.parents[x.node] {
		switch p := &g.nodes[parent]; p.kind {
		case sequence:
			w.sums[parent] += x.need
			if w.missing[parent]--; w.missing[parent] == 0 {
				w.push(parent, w.sums[parent], 0)
			}
		case repeat:
			w.push(parent, x.need*int64(p.least), 0)
		default:
			w.push(parent, x.need, x.node)
		}
	}
}

// suffixes sets what the kids of a sequence need together, from each of them on.
func (g *Grammar) suffixes(n *node) {
	if n.kind != sequence {
		return
	}
	n.rest = make([]int32, len(n.kids)+1)
	for i := len(n.kids) - 1; i >= 0; i-- {
		n.rest[i] = min(endless, n.rest[i+1]+g.nodes[n.kids[i]].need)
	}
}

// parents lists where each node is a kid.
func (g *Grammar) parents() [][]int32 {
	out := make([][]int32, len(g.nodes))
	for i := range g.nodes {
		for _, kid := range g.nodes[i].kids {
			out[kid] = append(out[kid], int32(i))
		}
	}
	return out
}

// waiter is a node with a text of this length, by this kid.
type waiter struct {
	need      int64
	node, kid int32
}

// waiting is a heap of nodes, and what sequences know so far.
type waiting struct {
	list    []waiter
	parents [][]int32
	missing []int   // kids of a sequence without a need so far
	sums    []int64 // of the needs of the others
}

func (w *waiting) push(node int32, need int64, kid int32) {
	if need < endless {
		heap.Push(w, waiter{need, node, kid})
	}
}

func (w *waiting) Len() int { return len(w.list) }
func (w *waiting) Less(i, j int) bool {
	a, b := w.list[i], w.list[j]
	return a.need < b.need || a.need == b.need && a.node < b.node
}
func (w *waiting) Swap(i, j int) { w.list[i], w.list[j] = w.list[j], w.list[i] }
func (w *waiting) Push(x any)    { w.list = append(w.list, x.(waiter)) }
func (w *waiting) Pop() any {
	x := w.list[len(w.list)-1]
	w.list = w.list[:len(w.list)-1]
	return x
}
