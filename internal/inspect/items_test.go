package inspect

import (
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A folder in place of a file is reported as a folder.
func TestAFolderIsNoItemFile(t *testing.T) {
	_, err := readItems(t.TempDir(), 1)
	var told *diag.Error
	if !errors.As(err, &told) || told.Cause != "it is a folder" || !strings.Contains(told.Fix, "name a file") {
		t.Errorf("%v", err)
	}
}
