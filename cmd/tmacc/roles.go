package main

import (
	"regexp"
	"slices"
)

// layerNumber is the number of a layer in the name of a tensor.
var layerNumber = regexp.MustCompile(`\.\d+\.`)

// roleOf is the name of a tensor without the number of its layer: blk.N.attn_q.weight.
func roleOf(tensor string) string { return layerNumber.ReplaceAllString(tensor, ".N.") }

// rolesOf are the roles of tensors, each once, in the order of the first.
func rolesOf(tensors []string) []string {
	var roles []string
	for _, t := range tensors {
		if r := roleOf(t); !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	return roles
}
