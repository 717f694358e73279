package comparison

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Keys, columns, values and reasons of differences come from outside. With --show-values they must
// not control a terminal, and each finding takes one line.
func TestFindingsAreEscaped(t *testing.T) {
	const hostile = "a\n\x1b[2Jforged\u009b"
	f := Finding{Columns: []Column{{Column: columnName("d", hostile), WantValue: printed([]byte(hostile)), HaveValue: printed([]byte("\xff\n"))}}, Reason: terminal.Known(hostile)}
	if got := f.details(); diag.Printable(got) != got || !strings.Contains(got, `forged`) {
		t.Errorf("%q", got)
	}
	if got := columnName("d", ""); got != "d:" {
		t.Errorf("the empty qualifier is %q", got)
	}
}
