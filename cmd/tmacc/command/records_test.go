package command

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/records"
	"github.com/tmacc/tmacc/search/tune"
)

// someRecord is a record of this program, with usual activations.
func someRecord(t *testing.T) tune.Entry {
	t.Helper()
	all, err := records.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, core := range slices.Sorted(maps.Keys(all)) {
		for _, e := range all[core].Entries {
			return e
		}
	}
	t.Fatal("there are no records")
	return tune.Entry{}
}

// A plan says where schedules come from: a record, but before that a lock, and neither with no-records, also in tmacc.yaml.
func TestPlannedOrigins(t *testing.T) {
	e := someRecord(t)
	config(t, "format: "+e.Product+"\ntarget: ["+e.Target+", neon]\nmodule: none\nno-check: true\nno-records: true\n")
	origins := func(args ...string) map[string]string {
		t.Helper()
		var p order.Plan
		if err := json.Unmarshal([]byte(ok(t, append([]string{"compile", "-dry-run", "-json"}, args...)...)), &p); err != nil {
			t.Fatal(err)
		}
		return p.Products[0].Schedules
	}
	check := func(have map[string]string, want string) {
		t.Helper()
		if have[e.Target] != want || have["arm64/neon"] != "default" || len(have) != 2 {
			t.Errorf("%v, want %s on %s", have, want, e.Target)
		}
	}
	flags := []string{"-format", e.Product, "-target", e.Target + ",neon", "-no-check", "-o", "."}
	check(origins(), "default")
	check(origins(flags...), "record")
	check(origins(append(flags, "-no-records")...), "default")
	l, err := records.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range l { // a record that does not compile is not used
		for i, x := range all.Entries {
			if x.Product == e.Product && x.ActGroup == e.ActGroup && x.Target == e.Target {
				broken := slices.Clone(x.Kernels)
				broken[0].Trace = broken[0].Trace[:1]
				all.Entries[i].Kernels = broken
				code, out, stderr := tmacc(append([]string{"compile", "-dry-run"}, flags...)...)
				all.Entries[i].Kernels = x.Kernels
				if code != 0 || strings.Contains(out, "recorded schedules for") || !strings.Contains(stderr, "tmacc: a record is not used: "+e.Product+" on "+e.Target) {
					t.Errorf("a broken record: exit code %d, %s%s", code, out, stderr)
				}
			}
		}
	}
	const line = ": recorded schedules for "
	if out := ok(t, append([]string{"compile", "-dry-run"}, flags...)...); strings.Count(out, line) != 1 || !strings.Contains(out, line+e.Target+"\n") {
		t.Error(out)
	}
	if err := tune.ChangeLock(tune.LockName, func(l *tune.Lock) error { l.Put(e); return nil }); err != nil {
		t.Fatal(err)
	}
	check(origins(flags...), "lock")
	for target, on := range map[string][]string{e.Target: flags, "spirv/plain": {"-format", e.Product, "-target", "spirv/plain", "-no-check", "-o", "."}} {
		broken := e
		broken.Target, broken.Kernels = target, slices.Clone(e.Kernels)
		broken.Kernels[0].Trace = e.Kernels[0].Trace[:1]
		if err := tune.ChangeLock(tune.LockName, func(l *tune.Lock) error { l.Put(broken); return nil }); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := tmacc(append([]string{"compile", "-q"}, on...)...)
		planCode, out, planned := tmacc(append([]string{"compile", "-q", "-dry-run"}, on...)...)
		if code != exitUsage || planCode != code || planned != stderr || out != "" || !strings.Contains(planned, tune.LockName+": ") {
			t.Errorf("a broken entry of the lock: exit code %d, %s; a plan: exit code %d, %s%s", code, stderr, planCode, planned, out)
		}
	}
}

// A package is made by the record, or by the default schedules without records, and has the same bytes once these are kept.
func TestCompileRecords(t *testing.T) {
	e := someRecord(t)
	t.Setenv("TMACC_CACHE", t.TempDir())
	made := func(args ...string) (map[string]string, string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "kernels")
		out := ok(t, append([]string{"compile", "-q", "-no-check", "-format", e.Product, "-target", e.Target, "-o", dir, "-module", "none"}, args...)...)
		return read(t, dir), out
	}
	recorded, out := made()
	if !strings.Contains(out, "recorded schedules for "+e.Target) {
		t.Error(out)
	}
	first, out := made("-no-records")
	if strings.Contains(out, "recorded") {
		t.Error(out)
	}
	again, _ := made("-no-records")
	if !maps.Equal(first, again) {
		t.Error("kept schedules make other bytes")
	}
	if maps.Equal(first, recorded) {
		t.Error("the record makes the bytes of the default schedules")
	}
	if out := ok(t, "cache"); !strings.HasPrefix(out, "schedules: 1 file, ") {
		t.Error(out)
	}
}

// The stage origin says whose schedule is shown.
func TestShowOrigin(t *testing.T) {
	e := someRecord(t)
	lock := filepath.Join(t.TempDir(), tune.LockName)
	if err := tune.ChangeLock(lock, func(l *tune.Lock) error { l.Put(e); return nil }); err != nil {
		t.Fatal(err)
	}
	show := func(args ...string) string {
		t.Helper()
		return ok(t, append([]string{"show", "-format", e.Product, "-target", e.Target}, args...)...)
	}
	trace := file(t, "t.json", strings.SplitN(show("-stage", "trace"), "\n", 2)[1])
	for want, args := range map[string][]string{
		"record: ":               nil,
		"default: ":              {"-no-records"},
		"lock: " + lock + ", ":   {"-lock", lock},
		"trace: " + trace + "\n": {"-trace", trace},
	} {
		if out := show(append(args, "-stage", "origin")...); !strings.HasPrefix(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%v: %q, want %q", args, out, want)
		}
	}
	if out := show("-stage", "origin"); !strings.Contains(out, " times as fast as the default schedules on ") || !strings.Contains(out, e.Date) {
		t.Error(out)
	}
	if show("-stage", "trace") == show("-stage", "trace", "-no-records") {
		t.Error("the record has the default's trace")
	}
	refused(t, refusal{2, "show: -trace and -lock: want one of them", "show -format w2 -trace a.json -lock b.lock"})
}

// The stage origin says that the kernels of a record, or of a lock's entry, are not the measured ones, and how to measure again.
func TestShowOtherKernels(t *testing.T) {
	e := someRecord(t)
	args := []string{"show", "-format", e.Product, "-target", e.Target, "-stage", "origin"}
	const changed = "the traces were changed, or the compiler: measure again"
	tuned := ": tmacc tune -format " + e.Product + " -target " + e.Target
	recorded := changed + ", in a checkout of tmacc, on a CPU of " + targets.ByName(e.Target).Machine().Core.Name + tuned +
		" -record search/records; elsewhere: give -no-records, or tmacc tune -format " + e.Product + " -target " + e.Target + " -o DIR"
	if out := ok(t, append(args, "-no-records")...); strings.Contains(out, "measured") {
		t.Error(out)
	}
	measured := e.Kernels[0].Hash // of the program's own record
	e.Kernels[0].Hash = "0"
	defer func() { e.Kernels[0].Hash = measured }()
	dir := filepath.Join(t.TempDir(), "of a person")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	lock, other := filepath.Join(dir, tune.LockName), filepath.Join(dir, "other.lock")
	for _, path := range []string{lock, other} {
		if err := tune.ChangeLock(path, func(l *tune.Lock) error { l.Put(e); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	beside := changed + tuned + " -o '" + dir + "'"
	for remedy, more := range map[string][]string{recorded: nil, beside: {"-lock", lock}, beside + ", which writes '" + lock + "'": {"-lock", other}} {
		out := ok(t, append(args, more...)...)
		if !strings.Contains(out, "; it has other kernels (for 1 column") || !strings.HasSuffix(out, remedy+"\n") || strings.Count(out, "\n") != 1 {
			t.Errorf("no %q in %s", remedy, out)
		}
	}
	var r struct{ Origin string }
	text := ok(t, "show", "-format", e.Product, "-target", e.Target, "-why", "-most", "1", "-n", "1", "-mode", "l2", "-json")
	if err := json.Unmarshal([]byte(text), &r); err != nil || !strings.Contains(r.Origin, recorded) {
		t.Errorf("%v: %s", err, r.Origin)
	}
}

// Records are not written to nowhere, beside a lock, or for some purposes only.
func TestRecordRefused(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for args, want := range map[string]string{
		"-record . -only": "-record and -only: want one of them",
		"-record . -o .":  "-record and -output: want one of them",
		"-record " + none: "-record " + none + ": no such file or directory",
	} {
		refused(t, refusal{2, want, "tune -format w2 " + args})
	}
}
