package config

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A mistake in a text has its place in the file, in every YAML style of text. If that place cannot
// be computed, it is the start of the text.
func TestPlacesInTexts(t *testing.T) {
	for when, place := range map[string]string{
		"a == 1":       "8:17",
		"'a == 1'":     "8:18",
		`"a == 1"`:     "8:18",
		`'''ä'' == a'`: "8:16", // escaped
		"'`ä` == 1'":   "8:20",
		"|\n          b = 1 OR\n          a == 1":        "10:13",
		"|-\n            b = 1\n              OR a == 1": "10:20",
		"|\n\n          a == 1\n":                        "10:13",
		">\n          b = 1 OR\n          a == 1":        "8:15", // folded
		"b = 1 OR\n          a == 1":                     "8:15", // folded, too
		"${EMPTY:-a} == 1":                               "8:15",
	} {
		_, err := Parse("f", []byte("version: 1\ntarget: {project: p, instance: i}\ntables:\n  - from: Orders\n    families:\n      d: never\n    rules:\n      - when: "+
			when+"\n        ignore: true\n"), testEnv)
		var list diag.List
		if !errors.As(err, &list) || list[0].Code != diag.ConditionInvalid || fmt.Sprintf("%d:%d", list[0].Pos.Line, list[0].Pos.Column) != place {
			t.Errorf("%s: %v, want %s", when, err, place)
		}
	}
}
