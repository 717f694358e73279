package config

import (
	"os"
	"strings"
	"testing"
)

// The lint names each table's method of dual writes, what readers may see and for how long, and
// what is refused.
func TestDualWays(t *testing.T) {
	for name, want := range map[string][]string{
		"dual_writes.yaml":       {"Orders settle", "until 45s after the change was applied", "refused: keep_versions", "Kept off: nothing else may write the target of this table"},
		"version_attribute.yaml": {"Orders version_attribute: rev orders", "A write whose condition failed", "refused: settle together with it", "Sessions off"},
		"minimal.yaml":           nil,
	} {
		c, err := Load("testdata/accepted/"+name, os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, w := range c.DualWays() {
			text += w.Table + " " + strings.Join(w.Lines(), "\n") + "\n"
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s does not say %q:\n%s", name, part, text)
			}
		}
		if want == nil && text != "" {
			t.Errorf("%s says %s", name, text)
		}
	}
}
