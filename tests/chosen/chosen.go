// Package chosen lets the tests of all packages share one folder of default schedules, since choosing a product's takes seconds. An entry belongs to
// the sources of all packages that decide, to the settings of the build, and to what else package defaults says. The first test that
// needs a product chooses it, and a change of the sources begins a new folder's worth of entries.
//
//	TMACC_TEST_SCHEDULES   the folder; unset: tmacc-tests/schedules in the user's cache directory; "off": each test chooses for itself
//
// Tests that are about choosing call search/beam, and choose.
package chosen

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/defaults"
)

// The environment that processes of tests hand on to the ones that they start.
const (
	envFolder  = "TMACC_TEST_SCHEDULES"
	envSources = "TMACC_TEST_SOURCES" // identifies the sources, as tests elsewhere cannot read them
)

// deciding are the folders of the packages that decide which schedules are chosen, and of others.
var deciding = []string{"gen", "ir", "lower", "runtime", "schedule", "search"}

// Share makes the tests of this process, and of ones that it starts, share default schedules. TestMain calls it. Where the sources cannot be read, nothing is shared.
func Share() {
	folder := os.Getenv(envFolder)
	if folder == "off" {
		return
	}
	if folder == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return
		}
		folder = filepath.Join(dir, "tmacc-tests", "schedules")
	}
	os.MkdirAll(folder, 0o700) // if that fails, opening the folder does
	sources := os.Getenv(envSources)
	if sources == "" {
		root, err := module()
		if err == nil {
			sources, err = hash(root)
		}
		if err != nil {
			return
		}
	}
	os.Setenv(envFolder, folder)
	os.Setenv(envSources, sources)
	defaults.Lend(folder, version)
}

// version identifies what chooses here: the sources, and how they were compiled.
func version() string {
	sum := sha256.Sum256([]byte(os.Getenv(envSources) + " " + build()))
	return hex.EncodeToString(sum[:])
}

// Program makes the programs that an environment's go commands link share schedules too: home is their TMACC_CACHE, and flags go into GOFLAGS, empty
// where nothing is shared.
func Program(home string) (flags string) {
	folder := os.Getenv(envFolder)
	if folder == "off" || os.Getenv(envSources) == "" || os.Symlink(folder, filepath.Join(home, "schedules")) != nil {
		return ""
	}
	return "-ldflags=-X=github.com/tmacc/tmacc/runtime/cache.version=" + version()
}

// Alone makes a test choose for itself.
func Alone(t testing.TB) {
	defaults.Lend("", nil)
	t.Cleanup(Share)
}

// Layouts returns the schedules that beam.Layouts finds, without their kernels if another test has chosen them.
func Layouts(ctx context.Context, p ir.Problem, t lower.Target) ([][]search.Use, error) {
	var c *defaults.Chooser
	return c.Layouts(ctx, p, t)
}

// Product returns the schedules that beam.Product finds, without their kernels if another test has chosen them.
func Product(ctx context.Context, p ir.Problem, t lower.Target) ([]search.Use, error) {
	all, err := Layouts(ctx, p, t)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// module is the folder of the module that the working directory is in.
func module() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("chosen: no go.mod above the working directory")
		}
	}
	return "", err
}

// hash identifies the files of the folders that decide, without tests and their data, and the modules that they use.
func hash(root string) (string, error) {
	h := sha256.New()
	add := func(path string) error {
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		fmt.Fprintf(h, "%q %d\n", filepath.ToSlash(name), len(data))
		h.Write(data)
		return err
	}
	for _, dir := range deciding {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			return add(path)
		})
		if err != nil {
			return "", err
		}
	}
	err := add(filepath.Join(root, "go.sum"))
	return hex.EncodeToString(h.Sum(nil)), err
}

// build is how this program was compiled, as far as it could decide: products of floats may be fused.
func build() string {
	out := runtime.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if strings.HasPrefix(s.Key, "GO") || s.Key == "-tags" {
				out += " " + s.Key + "=" + s.Value
			}
		}
	}
	return out
}
