package model

import (
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// systemMemory is how many bytes of memory this process may still take, 0 if that is not known: what the kernel says is available, or
// what the process's control groups have left.
func systemMemory() int64 {
	return available(os.ReadFile)
}

// available is systemMemory as files say.
func available(read func(path string) ([]byte, error)) (limit int64) {
	least := func(n int64) {
		if n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	text, _ := read("/proc/meminfo")
	least(number(after(text, "MemAvailable:")) << 10)
	groups, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		switch {
		case len(fields) < 3:
		case fields[1] == "":
			eachGroup("/sys/fs/cgroup", fields[2], func(dir string) {
				least(left(read, dir, "memory.max", "memory.current", "inactive_file ", "active_file "))
			})
		case strings.Contains(","+fields[1]+",", ",memory,"):
			eachGroup("/sys/fs/cgroup/memory", fields[2], func(dir string) {
				least(left(read, dir, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "))
			})
		}
	}
	return limit
}

// eachGroup calls do for the folder of a control group and for those around it. A container sees its own group at the root, by whatever path.
func eachGroup(root, group string, do func(dir string)) {
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		if do(path.Join(root, group)); group == "/" {
			return
		}
	}
}

// left is what a control group has left, at least 1, and 0 if it has no limit. Pages of files that it keeps are free when they are needed.
func left(read func(path string) ([]byte, error), dir, most, used, inactive, active string) int64 {
	limit, err := read(path.Join(dir, most))
	if err != nil || number(limit) == 0 {
		return 0
	}
	now, _ := read(path.Join(dir, used))
	stat, _ := read(path.Join(dir, "memory.stat"))
	return max(number(limit)-number(now)+number(after(stat, "\n"+inactive))+number(after(stat, "\n"+active)), 1)
}

// after is what follows a word in a text.
func after(text []byte, word string) []byte {
	_, rest, _ := bytes.Cut(text, []byte(word))
	return rest
}

// number is the number that a text begins with, 0 if there is none.
func number(text []byte) int64 {
	fields := bytes.Fields(text)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil || n > math.MaxInt64>>10 {
		return 0
	}
	return n
}
