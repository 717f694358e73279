package expression_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

func mustWhen(t interface{ Fatal(...any) }, text string) *expression.Condition {
	c, err := expression.ParseWhen(text)
	if err != nil {
		t.Fatal(text, err)
	}
	return c
}

func TestImplies(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{`PK = "A#1"`, `begins_with(PK, "A#")`, true},
		{`"A#1" = PK AND SK = "x"`, `begins_with(PK, "A#")`, true},
		{`begins_with(PK, "A#B")`, `begins_with(PK, "A#")`, true},
		{`begins_with(PK, "A#")`, `begins_with(PK, "A#B")`, false},
		{`begins_with(PK, b64"QUI=")`, `begins_with(PK, "A")`, false},
		{`begins_with(PK, "A")`, `attribute_type(PK, "S")`, true},
		{`begins_with(PK, "A")`, `attribute_exists(PK)`, true},
		{`a > 5`, `attribute_exists(a)`, true},
		{`a <> 5`, `attribute_exists(a)`, false},
		{`NOT a = 5`, `attribute_exists(a)`, false},
		{`a IN (b, 5)`, `attribute_exists(b)`, false},
		{`size(a) > 5`, `attribute_exists(a)`, true},
		{`size(a) = 5`, `a > 4`, false},
		{`size(a) IN (5, 6)`, `a <> "x"`, false}, // usually true, but not for that reason
		{`a = 5`, `a BETWEEN 1 AND 10`, true},
		{`a = 5`, `NOT a = 6`, true},
		{`a = 5`, `a = 5.0 OR b = 1`, true},
		{`a IN (5, 6)`, `a > 4`, true},
		{`a IN (5, 3)`, `a > 4`, false},
		{`a = 5 OR a = 6`, `a > 4`, true},
		{`a = 5 OR b = 6`, `a > 4`, false},
		{`b = 1 AND (a = 5 OR a = 6)`, `a IN (6, 5) AND b < 2`, true},
		{`a = 5`, `a <> b`, false},
		{`a = b`, `b = a`, false}, // Implies does not recognise everything
		{`x.y = 1 AND c = 2`, `x.y = 1`, true},
		{`x = "s"`, `attribute_not_exists(x.y)`, true},
		{`x = {"y": 1}`, `attribute_exists(x.y)`, false},
	} {
		if got := mustWhen(t, c.from).Implies(mustWhen(t, c.to)); got != c.want {
			t.Errorf("%s implies %s: %t", c.from, c.to, got)
		}
	}
}

// smallCondition draws conditions over a few attributes and values, so that many imply others.
func smallCondition(t *rapid.T, depth int) string {
	if depth > 0 && rapid.Bool().Draw(t, "joined") {
		form := rapid.SampledFrom([]string{"($l) AND ($r)", "($l) OR ($r)", "NOT ($l)"}).Draw(t, "form")
		return strings.NewReplacer("$l", smallCondition(t, depth-1), "$r", smallCondition(t, depth-1)).Replace(form)
	}
	value := func() string {
		return rapid.SampledFrom([]string{`"a"`, `"ab"`, "1", "2", `b64"YQ=="`, "true"}).Draw(t, "value")
	}
	name := rapid.SampledFrom([]string{"x", "y", "x.m"}).Draw(t, "name")
	switch rapid.IntRange(0, 6).Draw(t, "leaf") {
	case 0:
		return "begins_with(" + name + `, ` + rapid.SampledFrom([]string{`"a"`, `"ab"`, `b64"YQ=="`}).Draw(t, "prefix") + ")"
	case 1:
		return "attribute_exists(" + name + ")"
	case 2:
		return "attribute_not_exists(" + name + ")"
	case 3:
		return "attribute_type(" + name + `, ` + rapid.SampledFrom([]string{`"S"`, `"N"`}).Draw(t, "type") + ")"
	case 4:
		return name + " IN (" + value() + ", " + value() + ")"
	case 5:
		return "size(" + name + ") " + rapid.SampledFrom([]string{"=", ">", "<>"}).Draw(t, "operator") + " " + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "size")
	}
	return name + " " + rapid.SampledFrom([]string{"=", "<>"}).Draw(t, "operator") + " " + value()
}

// An implication that Implies reports holds for every item.
func TestWhatIsImpliedFollows(t *testing.T) {
	values := []attribute.Value{{}, attribute.String("a"), attribute.String("ab"), attribute.String(""), attribute.Binary([]byte("a")), attribute.Bool(true), attribute.Map([]attribute.Attribute{{Name: "m", Value: attribute.String("a")}})}
	for _, text := range []string{"1", "2", "3"} {
		n, err := attribute.Number(text)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, n)
	}
	follows := 0
	rapid.Check(t, func(t *rapid.T) {
		from, to := mustWhen(t, smallCondition(t, 2)), mustWhen(t, smallCondition(t, 2))
		if !from.Implies(from) {
			t.Fatalf("%s does not imply itself", from.Text())
		}
		if !from.Implies(to) {
			return
		}
		follows++
		for _, x := range values {
			for _, y := range values {
				var attributes []attribute.Attribute
				if x.Kind() != attribute.KindNone {
					attributes = append(attributes, attribute.Attribute{Name: "x", Value: x})
				}
				if y.Kind() != attribute.KindNone {
					attributes = append(attributes, attribute.Attribute{Name: "y", Value: y})
				}
				if item := attribute.NewItem(attributes); from.Match(item) && !to.Match(item) {
					t.Fatalf("%s does not imply %s: %v", from.Text(), to.Text(), attributes)
				}
			}
		}
	})
	if follows == 0 && !testing.Short() { // -short draws a fifth
		t.Error("nothing followed from anything")
	}
}

// Large conditions are compared quickly.
func TestImpliesOfLargeConditions(t *testing.T) {
	from := mustWhen(t, strings.Repeat(`(a = 1 OR b = 2) AND `, 40)+`c = 3`)
	to := mustWhen(t, strings.Repeat(`(a = 2 AND b = 3) OR `, 40)+`d = 3`)
	if from.Implies(to) || !from.Implies(from) {
		t.Error("wrong")
	}
}
