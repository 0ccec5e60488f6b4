package measure

import (
	"context"
	"testing"

	"github.com/tmacc/tmacc/lower/core"
)

func TestCal(t *testing.T) {
	l, err := NewLab()
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	h, err := l.Calibrate(context.Background(), core.Hierarchy{}, func(w string, a, b int) { t.Log(w, a, b) })
	t.Logf("%+v %v", h, err)
	t.Logf("%+v", l.Host)
}
