package space

import "fmt"

// Widths are the first point for one column, and the nearest points for other numbers of columns with the same packed matrices and
// prepared activations. The error is that of the first one. It leaves out other numbers for which there is none.
func (sp *Space) Widths(cols ...int) (points []Point, err error) {
	first, err := sp.Columns(1).First()
	if err != nil {
		return nil, fmt.Errorf("for one column: %w", err)
	}
	k, err := sp.Kernel(first)
	if err != nil {
		return nil, err
	}
	points = []Point{first}
	for _, n := range cols {
		if x, err := sp.Columns(n).Sharing(k).Near(first); err == nil {
			points = append(points, x)
		}
	}
	return points, nil
}
