package tests

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// registries are the first and the second half of hosts that packages come from. No host is spelled here.
var registries = [][2]string{
	{"registry.", "npmjs"}, {"registry.", "yarnpkg"}, {"registry.", "npmmirror"}, {"proxy.", "golang"}, {"sum.", "golang"}, {"goproxy.", "io"}, {"goproxy.", "cn"},
	{"deb.", "debian"}, {"security.", "debian"}, {"ftp.", "debian"}, {"snapshot.", "debian"}, {"archive.", "ubuntu"}, {"ports.", "ubuntu"}, {"security.", "ubuntu"},
	{"pypi.", "org"}, {"files.", "pythonhosted"}, {"static.", "crates"}, {"index.", "crates"}, {"crates.", "io"}, {"rubygems.", "org"}, {"apt.", "llvm"},
}

// TestNoRegistryHosts: packages are installed by name with their registry's own client, so no file names the host of one.
func TestNoRegistryHosts(t *testing.T) {
	git := exec.Command("git", "ls-files", "-z")
	git.Dir = ".."
	list, err := git.Output()
	if err != nil {
		t.Skipf("needs git and a checkout: %v", err)
	}
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	if len(names) < 500 {
		t.Errorf("git lists %d files", len(names))
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a file may be deleted and not committed yet
			t.Error(err)
		}
		for _, host := range hostsIn(string(text)) {
			t.Errorf("%s names %s: install by name with the registry's client", name, host)
		}
	}
	for _, parts := range registries {
		host := strings.Join(parts[:], "")
		if found := hostsIn("curl https://" + strings.ToUpper(host) + ".example/x"); len(found) != 1 || found[0] != host {
			t.Errorf("%s: found %v", host, found)
		}
	}
}

// hostsIn are the hosts of registries that a text names.
func hostsIn(text string) (found []string) {
	text = strings.ToLower(text)
	for _, parts := range registries {
		if host := parts[0] + parts[1]; strings.Contains(text, host) {
			found = append(found, host)
		}
	}
	return found
}
