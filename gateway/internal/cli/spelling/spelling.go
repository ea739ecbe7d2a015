// Package spelling finds what was meant by a word that was typed wrongly.
package spelling

import (
	"slices"
	"strings"
)

// Nearest returns the names of which the typed words may be a misspelling. If a name has several words, each word must be near. Words may
// follow the name.
func Nearest(typed, names []string) []string {
	var near []string
	least := 0
	for _, name := range names {
		d, ok := misspelt(typed, strings.Fields(name))
		switch {
		case !ok || slices.Contains(near, name):
		case len(near) == 0 || d < least:
			near = []string{name}
			least = d
		case d == least:
			near = append(near, name)
		}
	}
	return near
}

// misspelt is how many changes lead from what was typed to a name. It is false where they are too many for a slip of the hand: a short word
// that differs in two letters is another word.
func misspelt(typed, name []string) (changes int, ok bool) {
	if len(typed) < len(name) {
		return 0, false
	}
	for i, word := range name {
		most := min(2, len(typed[i])/3)
		if max(len(word), len(typed[i]))-min(len(word), len(typed[i])) > most {
			return 0, false
		}
		d := Distance(typed[i], word)
		if d > most {
			return 0, false
		}
		changes += d
	}
	return changes, true
}

// Distance returns how many letters were changed, left out, put in, or swapped with the next one (optimal string alignment, over bytes).
func Distance(a, b string) int {
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
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
