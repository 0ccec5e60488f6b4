// Package traces has the schedules of float operators: for vectors of each number of bits a folder, and in it a file for each
// operator. go generate ./runtime/ops chooses them by package search/beam. Package gen/operators compiles them. An operator without a schedule runs in plain Go. Figures:
// docs/lab/choices.md, matmul.
package traces

import "embed"

// Files has the schedules: "256/rmsnorm.json" is for vectors of 256 bits.
//
//go:embed */*.json
var Files embed.FS
