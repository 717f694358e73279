package diag

import "strings"

// Suggest returns the candidate that the user probably meant by word, or "" if no candidate is
// near. It ignores case, '-' and '_', so appProfile finds app_profile. A candidate is near if two
// edits or fewer turn it into word, and at least one letter stays in place. A swap of neighbours is
// one edit. A candidate is also near if it is a prefix of word, or word of it, and both have at
// least three letters. Suggest returns the candidate with the fewest edits; among equal ones, the
// first.
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

// distance is the optimal string alignment distance in bytes. An insertion, a deletion, a
// substitution and a swap of neighbours count as one each. The comparison takes quadratic time. So
// it skips words that are longer than any configuration key, which a hostile file may contain.
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
