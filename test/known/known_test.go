package known_test

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/test/known"
)

// A mark passes only for the defect as described. Once the value is right, it fails and asks to be
// removed.
func TestAMarkOfADefectThatIsCuredFails(t *testing.T) {
	for _, c := range []struct {
		right error
		want  string
	}{
		{known.Expect(false, "%d rows lost", 3), ""},
		{known.Expect(false, "%d rows lost", 4), "another way"},
		{known.Expect(true, "%d rows lost", 0), "cured: remove the mark of issue 45 and state the right value"},
	} {
		err := known.Judge(45, "3 rows lost", c.right)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, wanted %q", c.right, err, c.want)
		}
	}
}
