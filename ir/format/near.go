package format

import "strings"

// Meant asks whether an unknown name was to be one of the known names: "; did you mean w4?", for the end of an error. It is "" unless exactly
// one of them is the nearest and near: a name of 3 to 5 letters has one mistake, a longer one two at most. A mistake is a letter that is
// wrong, missing or too many, or two letters that are swapped. Capitals are small letters.
func Meant(name string, known []string) string {
	const longest = 64
	if len(name) > longest {
		return ""
	}
	name = strings.ToLower(name)
	nearest, best, equal := "", min(len(name)/3, 2)+1, false
	for _, k := range known {
		switch n := mistakes(name, strings.ToLower(k)); {
		case n < best:
			nearest, best, equal = k, n, false
		case n == best && k != nearest:
			equal = true
		}
	}
	if nearest == "" || equal {
		return ""
	}
	return "; did you mean " + nearest + "?"
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
