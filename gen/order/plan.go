package order

// Plan is what an order would compile, as tmacc compile -dry-run -json prints it.
type Plan struct {
	Package  string    `json:"package"`
	Dir      string    `json:"dir"`
	Targets  []string  `json:"targets"`
	Products []Planned `json:"products"`
	LeftOut  []Left    `json:"left_out"`
	Floats   []string  `json:"floats"` // matrices of floats, which package runtime/ops multiplies
	Others   []string  `json:"others"` // tensors that are no matrices
}

// Planned is a product of a Plan.
type Planned struct {
	Name     string   `json:"name"`             // in Go
	Format   string   `json:"format"`           // ir.Problem.Name
	Traced   []string `json:"traced,omitempty"` // targets that a schedule was given for
	ActGroup int      `json:"act_group"`        // activations that share a scale; 0: a whole row
	// Schedules says where the schedules for each target come from: "trace", "lock", "record" or "default". Plan does not know.
	Schedules map[string]string `json:"schedules,omitempty"`
	Shapes    []Shape           `json:"shapes,omitempty"` // none: the product is for matrices of any size
}

// Plan lists what o would compile into package pkg in the folder dir.
func (o *Order) Plan(pkg, dir string) Plan {
	p := Plan{Package: pkg, Dir: dir, Products: []Planned{}, LeftOut: append([]Left{}, o.Left...), Floats: append([]string{}, o.Floats...), Others: append([]string{}, o.Others...)}
	for _, t := range o.options.targets() {
		p.Targets = append(p.Targets, t.Machine().Name)
	}
	for _, w := range o.Products {
		x := w.Problem
		p.Products = append(p.Products, Planned{Name: w.Name(), Format: x.Name(), Traced: w.Traced(o.options.targets()), ActGroup: x.Act.Group, Shapes: w.Shapes})
	}
	return p
}
