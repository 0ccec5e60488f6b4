package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/tune"
)

// plan prints what would be compiled, and for what.
func (x *compilation) plan(ctx context.Context) (err error) {
	p := x.Plan(x.made.Name, x.dir)
	for i, w := range x.Products {
		x.bar.step("compiling locked and recorded schedules, product %d of %d", i+1, len(x.Products))
		if p.Products[i].Schedules, err = x.made.Origins(ctx, w); err != nil {
			return err
		}
	}
	x.bar.done()
	if x.json {
		if err := printJSON(x.out, p); err != nil {
			return err
		}
		return x.leftStatus()
	}
	if len(p.Products) == 0 {
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
	x.printOrigins(p)
	x.printOthers()
	x.printLeft()
	return x.leftStatus()
}

// printOrigins says where schedules come from that are not the default ones.
func (x *compilation) printOrigins(p order.Plan) {
	for _, w := range p.Products {
		for _, of := range []struct {
			origin defaults.Origin
			name   string
		}{{defaults.Trace, "traces"}, {defaults.Lock, "schedules of " + tune.LockName}, {defaults.Record, "recorded schedules"}} {
			var on []string
			for _, t := range p.Targets {
				if w.Schedules[t] == string(of.origin) {
					on = append(on, t)
				}
			}
			if on != nil {
				fmt.Fprintf(x.out, "\n%s: %s for %s\n", w.Name, of.name, strings.Join(on, ", "))
			}
		}
	}
}

// printOthers lists the tensors of files that need no product.
func (x *compilation) printOthers() {
	if len(x.Floats) > 0 {
		fmt.Fprintf(x.out, "\nfloats, multiplied by package runtime/ops: %s\n", rolesOf(x.Floats))
	}
	if len(x.Others) > 0 {
		fmt.Fprintf(x.out, "\nnot matrices: %s\n", rolesOf(x.Others))
	}
}

// mostRoles is the number of roles of tensors that one cell of a table names.
const mostRoles = 40

// rolesOf lists the roles of tensors, each once, in the order of the first tensor. It leaves out all after the first 40.
// It quotes a role that cannot be printed.
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
