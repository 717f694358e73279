package expression

import (
	_ "embed"
	"strings"
)

// reservedWords are the words that an expression may not use as attribute names ("Reserved words in
// DynamoDB"), one per line.
//
//go:embed reserved.txt
var reservedWords string

var reservedSet = func() map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(reservedWords) {
		set[word] = true
	}
	return set
}()

// reserved reports whether a word is reserved, in any case.
func reserved(word string) bool { return reservedSet[strings.ToUpper(word)] }
