package space

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
)

func TestDevMembers(t *testing.T) {
	f, err := os.Open(os.Getenv("CORPUS"))
	if err != nil { t.Skip() }
	sc := bufio.NewScanner(f); sc.Buffer(nil, 1<<20)
	fails := map[string][]string{}
	n, bad := 0, 0
	seen := map[string]bool{}
	start := time.Now()
	for sc.Scan() {
		var r struct { Product, Target string; ActGroup, Cols int; Trace schedule.Trace }
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil { continue }
		tg := targets.ByName(r.Target)
		key := fmt.Sprint(r.Product, tg.Machine().Class(), r.ActGroup, r.Trace)
		if seen[key] { continue }
		seen[key] = true
		p, _ := ir.Named(r.Product)
		if !p.Act.Floats() { p.Act.Group = r.ActGroup }
		sp, err := For(p, tg)
		if err != nil { t.Fatal(err) }
		n++
		if _, err := sp.Parse(r.Trace); err != nil {
			bad++
			k, _, _ := strings.Cut(err.Error(), ":")
			fails[k] = append(fails[k], fmt.Sprintf("%s g%d %s %d cols: %v", r.Product, r.ActGroup, r.Target, r.Cols, err))
		}
	}
	t.Logf("%d traces, %d do not parse, %v each", n, bad, time.Since(start)/time.Duration(max(n,1)))
	var ks []string
	for k := range fails { ks = append(ks, k) }
	sort.Strings(ks)
	for _, k := range ks {
		t.Logf("%s: %d", k, len(fails[k]))
		for i := range min(5, len(fails[k])) { t.Log("   ", fails[k][i*len(fails[k])/min(5, len(fails[k]))]) }
	}
}
