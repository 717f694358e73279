package diag

import "strings"

// Suggest returns the candidate that the user probably meant by word, or "" if none is near. It
// ignores case, '-' and '_', so appProfile finds app_profile. A candidate is near within two edits,
// if at least one letter stays in place. A swap of neighbours is one edit. It is also near if one
// of the two words is a prefix of the other and both have at least three letters. The fewest edits
// win; among equals, the earlier candidate wins.
func Suggest(word string, candidates []string) string {
	const maxEdits = 2
	folded := fold(word)
	best, bestEdits := "", maxEdits+1
	for _, candidate := range candidates {
		c := fold(candidate)
		if edits := distance(folded, c); edits < bestEdits && edits < min(len(folded), len(c)) {
			best, bestEdits = candidate, edits
		}
	}
	if best != "" {
		return best
	}
	for _, candidate := range candidates {
		c := fold(candidate)
		if min(len(folded), len(c)) >= 3 && (strings.HasPrefix(c, folded) || strings.HasPrefix(folded, c)) {
			return candidate
		}
	}
	return ""
}

func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance is the optimal string alignment distance in bytes. Insertions, deletions, substitutions
// and swaps of neighbours count one each. Words longer than any configuration key are not compared,
// so that a hostile file cannot cost quadratic time.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
