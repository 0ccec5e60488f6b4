package timing

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestHostFiles reads what Linux says of a board whose processor says nothing: of its two kinds of cores the larger caches.
func TestHostFiles(t *testing.T) {
	root := fstest.MapFS{"sys/firmware/devicetree/base/model": {Data: []byte("Raspberry Pi 5  Model B Rev 1.0\x00")}}
	for path, text := range map[string]string{
		"cpu0/cache/index0/": "1 Data 32K", "cpu0/cache/index1/": "1 Instruction 128K", "cpu0/cache/index2/": "2 Unified 256K",
		"cpu4/cache/index0/": "1 Data 64K", "cpu4/cache/index2/": "2 Unified 512K", "cpu4/cache/index3/": "3 Unified 2048K",
		"cpu5/cache/index0/": "1 Data unknown", "cpufreq/cache/index0/": "1 Data 999K",
	} {
		for i, value := range strings.Fields(text) {
			root["sys/devices/system/cpu/"+path+[]string{"level", "type", "size"}[i]] = &fstest.MapFile{Data: []byte(value + "\n")}
		}
	}
	if name := boardName(root); name != "Raspberry Pi 5 Model B Rev 1.0" {
		t.Errorf("the board is %q", name)
	}
	if l1d, l2, l3 := cacheSizes(root); l1d != 64<<10 || l2 != 512<<10 || l3 != 2<<20 {
		t.Errorf("caches of %d, %d and %d bytes", l1d, l2, l3)
	}
	if l1d, l2, l3 := cacheSizes(fstest.MapFS{}); l1d+l2+l3 != 0 || boardName(fstest.MapFS{}) != "" {
		t.Errorf("without files: caches of %d, %d and %d bytes", l1d, l2, l3)
	}
}

func TestPartName(t *testing.T) {
	for _, c := range []struct {
		h    Host
		want string
	}{
		{Host{Arch: "arm64", Vendor: "Arm Limited", Model: 0xd0c1}, "Arm Limited Neoverse N1"},
		{Host{Arch: "arm64", Vendor: "Arm Limited", Model: 0xd991}, "Arm Limited part 0xd99"},
		{Host{Arch: "arm64", Vendor: "Ampere Computing", Model: 0xd0c1}, "Ampere Computing part 0xd0c"},
		{Host{Arch: "arm64"}, ""},
		{Host{Arch: "amd64", Vendor: "GenuineIntel", Model: 207}, ""},
	} {
		if got := partName(c.h); got != c.want {
			t.Errorf("%+v is %q, want %q", c.h, got, c.want)
		}
	}
}
