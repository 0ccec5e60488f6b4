package device

import (
	"errors"
	"testing"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// TestCalibrate: the device that tests have gets speeds that a file may have, all measured numbers of its own.
func TestCalibrate(t *testing.T) {
	d, err := vulkan.Open(vulkan.Options{})
	if none := (*vulkan.Unavailable)(nil); errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	like := spirv.AllSpeeds()[0]
	s, err := Calibrate(d, like, Options{Bytes: chunk, Groups: 16, Steps: 4, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Errorf("%+v: %v", s, err)
	}
	if s.Read == like.Read || s.Instructions == like.Instructions || s.Launch == like.Launch || s.Latency == like.Latency || s.Step == like.Step {
		t.Errorf("%+v has numbers of %+v", s, like)
	}
	if len(s.Devices) != 1 || s.Devices[0] != d.Name || (s.Matrices > 0) != (len(s.Shapes) > 0) {
		t.Errorf("%+v of %v", s, d.Info)
	}
	t.Logf("%+v", s)
}
