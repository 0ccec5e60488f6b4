package measure

import "testing"

// The class of a target is its instruction set, whatever core it is for.
func TestClass(t *testing.T) {
	for name, want := range map[string]string{
		"avx2": "avx2", "amd64/avx2": "avx2", "zen4": "avx512vbmi", "amd64/avx512vbmi+zen4": "avx512vbmi", "amd64/avx2+my-core": "avx2", "avx2+my-core": "avx2",
	} {
		if got := Class(name); got != want {
			t.Errorf("the class of %s is %s, want %s", name, got, want)
		}
	}
}
