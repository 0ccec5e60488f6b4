package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var identity = []byte(`{"compiler": "a"}`)

// open opens a folder of a name in a new one.
func open(t *testing.T) *Folder {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "cache", "kernels"))
}

func reopen(t *testing.T, path string) *Folder {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// files lists what lies in f.
func files(t *testing.T, f *Folder) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func put(t *testing.T, f *Folder, identity, data []byte) {
	t.Helper()
	if err := f.Put(identity, data); err != nil {
		t.Fatal(err)
	}
}

// want checks that f has data for an identity, nil: none.
func want(t *testing.T, f *Folder, identity, data []byte, damaged bool) {
	t.Helper()
	got, bad, err := f.Get(identity)
	if err != nil || bad != damaged || !bytes.Equal(got, data) || (got == nil) != (data == nil) {
		t.Errorf("%d bytes, damaged %t, %v; want %d bytes, damaged %t", len(got), bad, err, len(data), damaged)
	}
}

// Beyond Most bytes together, what was not used for longest goes, and what was just put stays.
func TestMost(t *testing.T) {
	f := open(t)
	f.Most = 250
	for i := range 4 {
		put(t, f, []byte{byte(i)}, bytes.Repeat([]byte{byte(i)}, 100))
		for _, name := range files(t, f) { // each is an hour older than the one after it
			path := filepath.Join(f.Path(), name)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			old := info.ModTime().Add(-time.Hour)
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, stays := range []bool{false, false, true, true} {
		if data, _, err := f.Get([]byte{byte(i)}); err != nil || (data != nil) != stays {
			t.Errorf("file %d: %d bytes, %v", i, len(data), err)
		}
	}
}

// What was put is there, also for the next process, and for no other identity.
func TestGet(t *testing.T) {
	f := open(t)
	want(t, f, identity, nil, false)
	put(t, f, identity, []byte("some code"))
	put(t, f, []byte("empty"), []byte{})
	again := reopen(t, f.Path())
	want(t, again, identity, []byte("some code"), false)
	want(t, again, []byte("empty"), []byte{}, false)
	want(t, again, []byte(`{"compiler": "b"}`), nil, false)
	info, err := os.Stat(f.Path())
	if err != nil || checksModes && info.Mode().Perm() != 0o700 {
		t.Errorf("folder has mode %v, %v", info.Mode(), err)
	}
}

// A file that has changed in any byte is none, wherever that byte is, and goes.
func TestDamage(t *testing.T) {
	f := open(t)
	data := bytes.Repeat([]byte("0123456789"), 20)
	put(t, f, identity, data)
	name := files(t, f)[0]
	path := filepath.Join(f.Path(), name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string][]byte{"empty": {}, "cut": whole[:len(whole)-1], "longer": append(bytes.Clone(whole), 0)}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		changed[fmt.Sprint("byte ", i)] = b
	}
	for what, b := range changed {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, damaged, err := f.Get(identity)
		if got != nil || !damaged || err != nil || len(files(t, f)) != 0 {
			t.Errorf("%s: %q, %t, %v, left %v", what, got, damaged, err, files(t, f))
		}
	}
	put(t, f, identity, data)
	want(t, f, identity, data, false)
}

// A whole file under the name of another identity, or of another hash, is none.
func TestRenamed(t *testing.T) {
	f := open(t)
	put(t, f, identity, []byte("code"))
	name := files(t, f)[0]
	other := []byte("other")
	for _, to := range []string{keyOf(other) + name[32:], name[:33] + strings.Repeat("0", 64), name + "x"} {
		data, err := os.ReadFile(filepath.Join(f.Path(), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.Path(), to), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want(t, f, other, nil, true)
	got, _, err := f.Get(identity)
	if string(got) != "code" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Nothing but a file of the user alone counts: no link, no folder, no file that others can write.
func TestOthersFiles(t *testing.T) {
	if !checksModes {
		t.Skip("modes of files mean nothing here")
	}
	f := open(t)
	put(t, f, identity, []byte("code"))
	name := files(t, f)[0]
	path, away := filepath.Join(f.Path(), name), filepath.Join(t.TempDir(), "away")
	for what, change := range map[string]func() error{
		"a link":         func() error { return errors.Join(os.Rename(path, away), os.Symlink(away, path)) },
		"a folder":       func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"group-writable": func() error { return os.Chmod(path, 0o620) },
		"world-writable": func() error { return os.Chmod(path, 0o602) },
	} {
		if err := change(); err != nil {
			t.Fatal(what, err)
		}
		want(t, f, identity, nil, true)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		put(t, f, identity, []byte("code"))
	}
}

// A program that was put can be run.
func TestProgram(t *testing.T) {
	f := open(t)
	if path, damaged, err := f.Program(identity); path != "" || damaged || err != nil {
		t.Errorf("%q, %t, %v", path, damaged, err)
	}
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := f.PutProgram(identity, program); err != nil {
		t.Fatal(err)
	}
	path, damaged, err := f.Program(identity)
	if err != nil || damaged || filepath.Dir(path) != f.Path() {
		t.Fatalf("%q, %t, %v", path, damaged, err)
	}
	if out, err := exec.Command(path, "-test.list=TestProgram").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "TestProgram") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.WriteFile(path, program[1:], 0o700); err != nil {
		t.Fatal(err)
	}
	if path, damaged, err := f.Program(identity); path != "" || !damaged || err != nil {
		t.Errorf("damaged: %q, %t, %v", path, damaged, err)
	}
}

// A folder that others can write, or that is somebody else's, is refused.
func TestUnsafe(t *testing.T) {
	if !checksModes {
		t.Skip("modes of files mean nothing here")
	}
	path := filepath.Join(t.TempDir(), "shared")
	for _, mode := range []os.FileMode{0o770, 0o702, 0o777} {
		if err := errors.Join(os.MkdirAll(path, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		var unsafe *Unsafe
		_, err := Open(path)
		if text := fmt.Sprintf("cache folder %s: others can write it (mode 0%o): remove it, as they may have done so", path, mode); !errors.As(err, &unsafe) || err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Skip("only root gives a folder away")
	}
	_, err := Open(path)
	if text := fmt.Sprintf("cache folder %s: belongs to user 12345, and you are user %d: name a folder of your own in TMACC_CACHE", path, os.Geteuid()); err == nil || err.Error() != text {
		t.Errorf("%v, want %s", err, text)
	}
}

// A folder that cannot be made is an error that names it.
func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "a")} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// helper makes this test binary do something else: it puts data of its own, and is killed at a step if it is to be.
const helper = "TMACC_TEST_CACHE"

func TestMain(m *testing.M) {
	path, at, ok := strings.Cut(os.Getenv(helper), "\n")
	if !ok {
		os.Exit(m.Run())
	}
	number, parts := strings.CutPrefix(at, "parts ")
	left, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	step = func() {
		if left--; left == 0 {
			os.Exit(7)
		}
	}
	if parts {
		err = saveParts(path)
	} else {
		err = putLarge(path)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func putLarge(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	return f.Put(identity, large)
}

func saveParts(path string) error {
	p, err := OpenParts(path, MostParts)
	if err == nil {
		_, _, err = p.Save(identity, sizesOf(threeParts), giving(threeParts))
	}
	return err
}

// large is more than one write of the system takes at once.
var large = bytes.Repeat([]byte{1, 2, 3, 5, 7}, 1<<18)

// process puts large in a process of its own, or saves parts, which is killed at a step unless that is 0.
func process(path string, at any) (code int, out string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%v", helper, path, at))
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(text)
}

// A process that is killed at any step leaves nothing or all, and what it left goes when it is old.
func TestKilled(t *testing.T) {
	const steps = 4
	for at := 1; at <= steps; at++ {
		f := open(t)
		if code, out := process(f.Path(), at); code != 7 {
			t.Fatalf("step %d: exit code %d, %s", at, code, out)
		}
		got, damaged, err := f.Get(identity)
		if err != nil || damaged || (got != nil) != (at == steps) || got != nil && !bytes.Equal(got, large) {
			t.Errorf("step %d: %d bytes, damaged %t, %v", at, len(got), damaged, err)
		}
		old := time.Now().Add(-2 * abandoned)
		for _, name := range files(t, f) {
			if err := os.Chtimes(filepath.Join(f.Path(), name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		put(t, f, identity, large)
		if left := files(t, f); len(left) != 1 {
			t.Errorf("step %d: left %v", at, left)
		}
		want(t, f, identity, large, false)
	}
	if code, out := process(open(t).Path(), steps+1); code != 0 {
		t.Errorf("there are more steps than %d: exit code %d, %s", steps, code, out)
	}
}

// Processes that put the same at once all succeed, while others read either nothing or all.
func TestAtOnce(t *testing.T) {
	f := open(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if code, out := process(f.Path(), 0); code != 0 {
				t.Errorf("exit code %d, %s", code, out)
			}
		})
	}
	done := make(chan bool)
	go func() { all.Wait(); close(done) }()
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
		}
		if got, damaged, err := f.Get(identity); err != nil || damaged || got != nil && !bytes.Equal(got, large) {
			t.Fatalf("%d bytes, damaged %t, %v", len(got), damaged, err)
		}
	}
	want(t, f, identity, large, false)
	if left := files(t, f); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

// Files that nobody has used for long go when another is put; those that were used stay.
func TestTidy(t *testing.T) {
	f := open(t)
	for _, id := range []string{"used", "unused"} {
		put(t, f, []byte(id), []byte(id))
	}
	old := time.Now().Add(-unused - time.Hour)
	for _, name := range files(t, f) {
		if err := os.Chtimes(filepath.Join(f.Path(), name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	want(t, f, []byte("used"), []byte("used"), false)
	put(t, f, identity, []byte("code"))
	want(t, f, []byte("used"), []byte("used"), false)
	want(t, f, []byte("unused"), nil, false)
}

func TestPath(t *testing.T) {
	t.Setenv(EnvFolder, "here")
	if got, err := Path("kernels"); err != nil || got != filepath.Join("here", "kernels") {
		t.Errorf("%s, %v", got, err)
	}
	t.Setenv(EnvFolder, "")
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", "")
	if got, err := Path("kernels"); err == nil || !strings.Contains(err.Error(), EnvFolder) {
		t.Errorf("%s, %v", got, err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if got, err := Path("kernels"); err == nil && !strings.HasSuffix(got, filepath.Join("tmacc", "kernels")) {
		t.Error(got)
	}
}
