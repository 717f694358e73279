package expression_test

import (
	"fmt"
	"testing"

	"github.com/dynamodb-bigtable/replicator/expression"
)

func TestImplied(t *testing.T) {
	for text, want := range map[string]string{
		`begins_with(PK, "VIDEO#") AND SK = "META"`:                           "PK: VIDEO# []; SK: =META META []",
		`SK = PK AND begins_with(PK, "I#")`:                                   "PK: I# [SK]; SK: [PK]",
		`PK = SK OR begins_with(PK, "I#")`:                                    "PK: []; SK: []",
		`NOT begins_with(PK, "I#")`:                                           "PK: []; SK: []",
		`(begins_with(PK, "I#") AND begins_with(PK, "I#2")) AND size(SK) = 3`: "PK: I#2 []; SK: []",
		`PK = SK.a AND begins_with(SK, "I#2") AND begins_with(SK, "I#")`:      "PK: []; SK: I#2 []", // a part of an attribute is not the attribute
		`"META" = SK AND PK.a = "x"`:                                          "PK: []; SK: =META META []",
		`SK <> "META" AND begins_with(PK, SK)`:                                "PK: []; SK: []",
	} {
		c, err := expression.ParseWhen(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i, name := range []string{"PK", "SK"} {
			if i > 0 {
				got += "; "
			}
			got += name + ": "
			if v, ok := c.Fixed(name); ok {
				got += "=" + v.Text() + " "
			}
			if prefix, ok := c.Prefix(name); ok {
				got += prefix + " "
			}
			got += fmt.Sprint(c.Equal(name))
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
