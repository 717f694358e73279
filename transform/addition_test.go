package transform

import "testing"

// The added text is YAML of a valid family. If the name cannot be a family, the fix says what was
// probably meant.
func TestUndeclaredFamilies(t *testing.T) {
	for _, c := range []struct {
		family string
		as     Encoding
		attr   string
		want   string
	}{
		{"v", AsText, "b", "add to families:\n  v: maxversions=1"},
		{"v", AsCounter, "b", "add to families:\n  v: never:intsum"},
		{"no", AsText, "b", "add to families:\n  \"no\": maxversions=1"},
		{"1.5", AsText, "b", "add to families:\n  \"1.5\": maxversions=1"},
		{"*", AsText, "b", `did you mean "*": b? Attributes go to a family, and "*" means all attributes`},
		{"*", AsJSON, "", "write the name of a family: at most 64 letters, digits, '-', '_' and '.'"},
		{"a b", AsText, "b", "write the name of a family: at most 64 letters, digits, '-', '_' and '.'"},
	} {
		if got := undeclared(c.family, c.as, c.attr); got != c.want {
			t.Errorf("%q: %s, want %s", c.family, got, c.want)
		}
	}
}
