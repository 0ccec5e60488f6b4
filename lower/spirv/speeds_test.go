package spirv

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestSpeedsJSON: each of the built-in speeds is what its file says, and every file that lacks a field, or has a wrong one, is refused by
// its name.
func TestSpeedsJSON(t *testing.T) {
	for _, s := range AllSpeeds() {
		data, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseSpeeds(data); err != nil || fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", s) {
			t.Errorf("%s is %+v, %v", data, back, err)
		}
		if got, ok := SpeedsCalled(s.Name); !ok || !reflect.DeepEqual(got, s) {
			t.Errorf("%s: %+v", s.Name, got)
		}
		for _, device := range s.Devices {
			if SpeedsOf(device).Name != s.Name {
				t.Errorf("%s has the speeds of %s", device, SpeedsOf(device).Name)
			}
		}
	}
	if s := SpeedsOf("another device"); s.Name != "general" || len(s.Devices) > 0 {
		t.Errorf("another device has the speeds of %+v", s)
	}
	data, _ := general.JSON()
	for _, x := range []struct{ old, new, want string }{
		{`"device_version": 1`, `"device_version": 2`, "want 1"},
		{`"read_gb_s": 450`, `"read_gb_s": 0`, "read_gb_s is 0: want"},
		{`"latency_ns": 600,`, ``, "latency_ns"},
		{`"groups": 16`, `"groups": 1e99`, "groups"},
		{`"name": "general"`, `"name": "My GPU"`, "want up to 40 small letters"},
		{`"shapes": []`, `"shapes": [[16,16,0]]`, "shapes[0] is 0"},
		{`"processors"`, `"processor"`, "processor"},
	} {
		text := strings.Replace(string(data), x.old, x.new, 1)
		if text == string(data) {
			t.Errorf("%s has no %s", data, x.old)
		}
		if _, err := ParseSpeeds([]byte(text)); err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", x.new, err)
		}
	}
}

// TestWith: a target has the speeds that it was made for, and general ones without.
func TestWith(t *testing.T) {
	target, _ := ByName("spirv")
	if s := target.With(h200).Speeds(); s.Name != "h200" {
		t.Error(s)
	}
	if s := target.Speeds(); s.Name != "general" {
		t.Error(s)
	}
}
