package cli

// nearest is the word that is fewest changes away from what was typed, "" when none is near.
func nearest(typed string, words []string) string {
	best := ""
	least := len(typed)/3 + 2
	for _, word := range words {
		if d := distance(typed, word); d < least {
			best = word
			least = d
		}
	}
	return best
}

// distance is Levenshtein's, over bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			above := row[j+1]
			row[j+1] = min(above+1, row[j]+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(b)]
}
