package config

import (
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Entries with one target may spell a family's rule differently, but must mean the same. Entries
// with different targets are independent.
func TestFamiliesOfSharedTargets(t *testing.T) {
	parse := func(to, alpha, beta string) error {
		_, err := Parse("f", []byte("version: 1\ntarget: {project: p, instance: i}\ntables:\n"+
			"  - {from: Alpha, to: shared, families: {"+alpha+"}, rules: [{row_key: 'a#{id}', columns: {'*': d}}]}\n"+
			"  - {from: Beta, to: "+to+", families: {"+beta+"}, rules: [{row_key: 'b#{id}', columns: {'*': d}}]}\n"), testEnv)
		return err
	}
	for _, c := range []struct {
		to, alpha, beta string
		ok              bool
	}{
		{"shared", "d: maxage=48h", "d: ' maxage=2d '", true},
		{"shared", "d: maxversions=1", "d: maxversions=1, e: never", true},
		{"shared", "d: maxversions=1 || maxage=30d", "d: maxage=720h or maxversions=1", true},
		{"shared", "d: maxversions=1", "d: maxversions=2", false},
		{"shared", "d: maxversions=1", "d: maxversions=1 || maxage=30d", false},
		{"shared", "d: maxversions=1 || maxage=30d", "d: maxversions=1 && maxage=30d", false},
		{"shared", "d: never, unused: 'never:intsum'", "d: never, unused: never", false},
		{"other", "d: maxversions=1", "d: maxversions=2", true},
	} {
		err := parse(c.to, c.alpha, c.beta)
		var list diag.List
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &list) || len(list) != 1 || list[0].Code != diag.FamilyDiffers || list[0].Pos.Line != 5) {
			t.Errorf("%s and %s of %s: %v", c.alpha, c.beta, c.to, err)
		}
	}
}

// Without the key schema, a condition may concern only the key. With it, expire: keep is refused at
// its place in the file.
func TestExpireKeepAgainstTheKeySchema(t *testing.T) {
	c, err := Parse("f", []byte(`version: 1
target: { project: p, instance: i }
tables:
  - from: Orders
    families: { o: maxversions=1, c: maxversions=1 }
    ttl: { attribute: until, expire: keep }
    rules:
      - when: s = "open"
        columns: { "*": o }
      - columns: { "*": c }
`), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	id := transform.KeyAttribute{Name: "id", Type: attribute.KindS}
	if _, err := c.Tables[0].Mapping([]transform.KeyAttribute{id, {Name: "s", Type: attribute.KindS}}); err != nil {
		t.Error(err)
	}
	_, err = c.Tables[0].Mapping([]transform.KeyAttribute{id})
	var list diag.List
	if !errors.As(err, &list) || len(list) != 1 || list[0].Code != diag.ExpiredStay || list[0].Pos.Line != 6 {
		t.Error(err)
	}
}

// Rules without families write family d, like a table without rules, as the reference says. The
// lint knows this too.
func TestRulesWithoutFamilies(t *testing.T) {
	for rule, ok := range map[string]bool{
		"row_key: '{id}'":                      true,
		"columns: {'*': d}":                    true,
		"columns: {'*': d, n: 'd:other'}":      true,
		"columns: {'*': e}":                    false,
		"cell: {to: 'e:x', as: json}":          false,
		"cell: {to: 'd:x', as: json}":          true,
		"columns: {'*': d}, row_key: 'a#{id}'": true,
	} {
		c, err := Parse("f", []byte("version: 1\ntarget: {project: p, instance: i}\ntables:\n  - {from: Orders, rules: [{"+rule+"}]}\n"), testEnv)
		if (err == nil) != ok {
			t.Errorf("%s: %v", rule, err)
		}
		if err != nil {
			continue
		}
		if _, err := c.Tables[0].Mapping([]transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
		if targets := c.Tables[0].Targets(); len(targets) != 1 || len(targets[0].Families) != 1 || targets[0].Families[0].Name != "d" || targets[0].Families[0].Rule() != "maxversions=1" {
			t.Errorf("%s: %v", rule, targets)
		}
	}
}
