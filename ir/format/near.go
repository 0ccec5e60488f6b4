package format

import (
	"slices"
	"strings"
)

// Meant asks whether an unknown name was to be one of the known names: "; did you mean w4?", for the end of an error. It is "" unless some of
// them are near: see Near.
func Meant(name string, known []string) string { return DidYouMean(Near(name, known)) }

// DidYouMean asks for one of names: "; did you mean tune or run?", "" without names.
func DidYouMean(names []string) string {
	switch last := len(names) - 1; last {
	case -1:
		return ""
	case 0:
		return "; did you mean " + names[0] + "?"
	default:
		return "; did you mean " + strings.Join(names[:last], ", ") + " or " + names[last] + "?"
	}
}

// Near are the known names that an unknown name is nearest to. More than three that are equally near are none. A near name of 3 to 5
// letters has one mistake, a longer one two at most. A mistake is a letter that is wrong, missing or too many, or two letters that are
// swapped. Capitals are small letters.
func Near(name string, known []string) (nearest []string) {
	const longest, most = 64, 3
	if len(name) > longest {
		return nil
	}
	name = strings.ToLower(name)
	best := min(len(name)/3, 2)
	for _, k := range known {
		n := mistakes(name, strings.ToLower(k))
		if n < best {
			nearest, best = nil, n
		}
		if n == best && !slices.Contains(nearest, k) {
			nearest = append(nearest, k)
		}
	}
	if len(nearest) > most {
		return nil
	}
	return nearest
}

// mistakes is how many letters are wrong, missing, too many or swapped in a for b.
func mistakes(a, b string) int {
	rows := make([][]int, len(a)+1) // the mistakes in each beginning of a for each beginning of b
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			n := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n = min(n, rows[i-2][j-2]+1)
			}
			rows[i][j] = n
		}
	}
	return rows[len(a)][len(b)]
}
