package model

import (
	"os"
	"testing"
)

// The memory of the machine counts, and the rest of each control group around the process, whichever is least. Pages of files count as free.
func TestAvailable(t *testing.T) {
	const machine = "MemTotal: 999 kB\nMemAvailable:    4000 kB\n"
	for what, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing is known": {nil, 0},
		"no group":         {map[string]string{"/proc/meminfo": machine}, 4000 << 10},
		"no limit": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/b/memory.current": "100\n"}, 4000 << 10},
		"a group": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "1000\n", "/sys/fs/cgroup/a/b/memory.current": "900\n"}, 100},
		"a group around it": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/memory.max": "1000\n", "/sys/fs/cgroup/a/memory.current": "900\n"}, 100},
		"a container's root": {map[string]string{"/proc/self/cgroup": "0::/../x\n", "/sys/fs/cgroup/memory.max": "1000\n", "/sys/fs/cgroup/memory.current": "300\n"}, 700},
		"pages of files": {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1000\n", "/sys/fs/cgroup/memory.current": "900\n",
			"/sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 400\nactive_file 200\n"}, 700},
		"nothing left": {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1000\n", "/sys/fs/cgroup/memory.current": "1000\n"}, 1},
		"version 1": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "5:freezer:/y\n4:cpu,memory:/x\n0::/\n", "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1000",
			"/sys/fs/cgroup/memory/x/memory.usage_in_bytes": "990", "/sys/fs/cgroup/memory/x/memory.stat": "cache 7\ntotal_inactive_file 30\ntotal_active_file 4\n"}, 44},
		"version 1 without a limit": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 4000 << 10},
	} {
		got := available(func(path string) ([]byte, error) {
			if text, ok := c.files[path]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}
