package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
)

// A table of the same name in another account is as little the one that is followed as one in
// another region or partition.
func TestTheTableOfThatNameElsewhere(t *testing.T) {
	const followed = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders/stream/2026-11-01T00:00:00.000"
	for _, c := range []struct {
		from, to string
		fails    bool
	}{
		{"2026-11-01", "2026-11-02", false}, {"111122223333", "444455556666", true}, {"eu-west-1", "eu-west-2", true}, {"arn:aws:", "arn:aws-cn:", true},
	} {
		var elsewhere *SourceError
		found := strings.Replace(followed, c.from, c.to, 1)
		if err := CheckSource(backfill.Description{Name: "Orders", StreamARN: found}, followed); errors.As(err, &elsewhere) != c.fails {
			t.Errorf("%s: %v", found, err)
		}
	}
}

// TestH62_ViewTypes: only streams are followed that tell every row of an item and its removal.
func TestH62_ViewTypes(t *testing.T) {
	for _, c := range []struct {
		enabled bool
		view    string
		keyOnly bool
		refused bool
	}{
		{true, "NEW_AND_OLD_IMAGES", true, false},
		{true, "NEW_AND_OLD_IMAGES", false, false},
		{true, "NEW_IMAGE", true, false},
		{true, "NEW_IMAGE", false, true}, // nothing tells which row a moved item left
		{true, "OLD_IMAGE", true, true},
		{true, "KEYS_ONLY", true, true},
		{true, "", true, true},
		{false, "NEW_AND_OLD_IMAGES", true, true},
	} {
		err := CheckStream(backfill.Description{Name: "Orders", StreamEnabled: c.enabled, ViewType: c.view}, c.keyOnly)
		var refusal *StreamError
		switch {
		case !c.refused && err != nil:
			t.Errorf("%+v is refused: %v", c, err)
		case c.refused && (!errors.As(err, &refusal) || refusal.Table != "Orders"):
			t.Errorf("%+v is not refused: %v", c, err)
		case c.refused && c.enabled && refusal.View != c.view:
			t.Errorf("%+v is refused for %q", c, refusal.View)
		}
		if err != nil && !Fatal(err) {
			t.Errorf("%+v: a refusal would be repeated", c)
		}
	}
}
