package expression_test

import (
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// A condition in DynamoDB's language is parsed once and applied to many items.
func ExampleParseWhen() {
	video := attribute.NewItem([]attribute.Attribute{
		{Name: "PK", Value: attribute.String("VIDEO#42")}, {Name: "SK", Value: attribute.String("META")}, {Name: "tags", Value: attribute.StringSet([]string{"new", "short"})},
	})
	condition, err := expression.ParseWhen(`begins_with(PK, "VIDEO#") and SK = 'META' and (contains(tags, "new") or size(tags) > 5)`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(condition.Match(video), condition.Attributes())
	fmt.Println(condition.Text())

	_, err = expression.ParseWhen(`SK == "META"`)
	var mistake *expression.SyntaxError
	if errors.As(err, &mistake) {
		fmt.Printf("%d: %s (%s)\n", mistake.Offset, mistake.Problem, mistake.Suggestion)
	}
	// Output:
	// true [PK SK tags]
	// begins_with(PK, "VIDEO#") AND SK = "META" AND (contains(tags, "new") OR size(tags) > 5)
	// 3: unknown operator "==" (equality is =)
}
