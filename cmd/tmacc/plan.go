package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/search/delivery"
)

// jsonPlan is what -dry-run -json prints.
type jsonPlan struct {
	Package  string             `json:"package"`
	Dir      string             `json:"dir"`
	Targets  []string           `json:"targets"`
	Products []delivery.Product `json:"products"`
	LeftOut  []order.Left       `json:"left_out"`
	Others   []string           `json:"others"`
}

// plan prints what would be compiled, and for what.
func (x *compilation) plan() error {
	r := x.made.Report()
	p := jsonPlan{Package: r.Package, Dir: r.Dir, Products: r.Products, LeftOut: append([]order.Left{}, x.Left...), Others: append([]string{}, x.Others...)}
	for _, t := range x.targets {
		p.Targets = append(p.Targets, t.Machine().Name)
	}
	if x.json {
		if err := printJSON(x.out, p); err != nil {
			return err
		}
		return x.leftStatus()
	}
	if x.made.Empty() {
		x.printOthers()
		x.printLeft()
		return x.leftStatus()
	}
	fmt.Fprintf(x.out, "would write package %s in %s for %s\n\n", p.Package, p.Dir, strings.Join(p.Targets, ", "))
	t := table{head: []string{"product", "format", "act group", "max K", "matrices", "rows", "columns", "tensors"}, wide: 7}
	for _, w := range x.Products {
		name, act := w.Name(), "row"
		if g := w.Problem.Act.Group; g > 0 {
			act = fmt.Sprint(g)
		}
		if len(w.Shapes) == 0 {
			t.add(name, w.Problem.Weight, act, w.Problem.LimitK(), "any", "any", "any", "")
		}
		for _, s := range w.Shapes {
			t.add(name, w.Problem.Weight, act, w.Problem.LimitK(), s.Count, s.M, s.K, rolesOf(s.Tensors))
		}
	}
	t.print(x.out, widthOf(x.out))
	for _, w := range p.Products {
		if w.Traced != nil {
			fmt.Fprintf(x.out, "\n%s: traces for %s\n", w.Name, strings.Join(w.Traced, ", "))
		}
	}
	x.printOthers()
	x.printLeft()
	return x.leftStatus()
}

// printOthers says which tensors of files are no matrices.
func (x *compilation) printOthers() {
	if len(x.Others) > 0 {
		fmt.Fprintf(x.out, "\nnot matrices: %s\n", rolesOf(x.Others))
	}
}

// mostRoles is how many roles of tensors are named in one place.
const mostRoles = 40

// rolesOf are the roles of tensors, each once, in the order of the first; of many only some. What cannot be printed is quoted.
func rolesOf(tensors []string) string {
	var roles []string
	seen := map[string]bool{}
	for _, t := range tensors {
		r := gen.Role(t)
		if seen[r] {
			continue
		}
		if len(roles) == mostRoles {
			roles = append(roles, "and others")
			break
		}
		seen[r] = true
		if !format.OneLine(r) || r == "" {
			r = strconv.Quote(r)
		}
		roles = append(roles, shorten(r, 80))
	}
	return strings.Join(roles, " ")
}
