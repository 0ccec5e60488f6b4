package model

import (
	"bytes"
	"math"
	"os"
	"strconv"
)

// systemMemory is how many bytes of memory this process may still take, 0 if that is not known: what the kernel says is available, or
// what the process's control group has left.
func systemMemory() int64 {
	limit := int64(0)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		limit = number(after(text, "MemAvailable:")) << 10
	}
	most, used := groupFile("memory.max"), groupFile("memory.current")
	if most > 0 && (limit == 0 || most-used < limit) {
		limit = max(most-used, 1)
	}
	return limit
}

// groupFile is the number in a file of the control group, 0 if there is none.
func groupFile(name string) int64 {
	text, err := os.ReadFile("/sys/fs/cgroup/" + name)
	if err != nil {
		return 0
	}
	return number(text)
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
