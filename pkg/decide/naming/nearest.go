package naming

import "slices"

// Nearest returns the name that a mistyped one most likely stands for, or "" if none is near. At most a third of the
// letters, and at most three, may be wrong.
func Nearest(typed string, names []string) string {
	best, fewest := "", min(3, len(typed)/3)
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(typed, name); d <= fewest && (best == "" || d < fewest) {
			best, fewest = name, d
		}
	}
	return best
}

// distance returns the number of letters to insert, remove, swap or change to turn one text into the other (optimal
// string alignment). Names of keys are ASCII.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			changed := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
