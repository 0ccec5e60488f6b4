package tune

import (
	"cmp"
	"math"
	"slices"
)

// Wilcoxon is the signed-rank test of paired differences: the probability, if differences were as
// often above zero as below it, whatever their sizes, that those below weigh as much as here or more. Zeros are
// left out, equal sizes share their ranks, and the distribution is exact: of all signs that
// the ranks could have.
func Wilcoxon(differences []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(differences), func(x float64) bool { return x == 0 })
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	ways := []float64{1} // of each sum of twice the ranks above zero
	above := 0
	for i := 0; i < len(d); {
		j := i + 1
		for j < len(d) && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		rank := i + 1 + j // twice the mean of i+1 to j
		for ; i < j; i++ {
			if d[i] > 0 {
				above += rank
			}
			next := append(slices.Clone(ways), make([]float64, rank)...)
			for sum, n := range ways {
				next[sum+rank] += n
			}
			ways = next
		}
	}
	less, all := 0.0, 0.0
	for sum, n := range ways {
		if all += n; sum <= above {
			less += n
		}
	}
	return less / all
}
