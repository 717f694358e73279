package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A table of the same name in another account, region or partition is not the followed one.
func TestTheTableOfThatNameElsewhere(t *testing.T) {
	const followed = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders/stream/2026-11-01T00:00:00.000"
	for _, c := range []struct {
		from, to string
		fails    bool
	}{
		{"2026-11-01", "2026-11-02", false}, {"111122223333", "444455556666", true}, {"eu-west-1", "eu-west-2", true}, {"arn:aws:", "arn:aws-cn:", true},
	} {
		var elsewhere *checkpoint.SourceError
		found := strings.Replace(followed, c.from, c.to, 1)
		if err := CheckSource(backfill.Description{Name: "Orders", StreamARN: found}, followed); errors.As(err, &elsewhere) != c.fails {
			t.Errorf("%s: %v", found, err)
		}
	}
}

// TestTheTableOfThatName: a recreated table, or one whose stream was enabled again, differs from
// the followed one until a worker has recorded it. Unknown values are skipped.
func TestTheTableOfThatName(t *testing.T) {
	const stream = "arn:aws:dynamodb:eu-west-1:1:table/Orders/stream/L"
	s := checkpoint.TableState{StreamARN: stream, Generation: 7, Load: checkpoint.Load{Generation: 7, TableID: "first"}}
	for name, c := range map[string]struct {
		found  backfill.Description
		change func(s *checkpoint.TableState)
		fails  bool
	}{
		"it":                   {backfill.Description{StreamARN: stream, ID: "first"}, nil, false},
		"another stream":       {backfill.Description{StreamARN: stream + "2", ID: "first"}, nil, true},
		"another table":        {backfill.Description{StreamARN: stream, ID: "second"}, nil, true},
		"without a stream":     {backfill.Description{ID: "first"}, nil, false},
		"an older load's":      {backfill.Description{StreamARN: stream, ID: "second"}, func(s *checkpoint.TableState) { s.Load.Generation = 6 }, false},
		"nothing was followed": {backfill.Description{StreamARN: stream, ID: "first"}, func(s *checkpoint.TableState) { *s = checkpoint.TableState{} }, false},
	} {
		of := s
		if c.change != nil {
			c.change(&of)
		}
		var renewed *RenewedError
		if err := CheckFollowed(c.found, of); errors.As(err, &renewed) != c.fails || (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestH62_ViewTypes: a stream is followed only if it shows every row of an item, and each removal.
func TestH62_ViewTypes(t *testing.T) {
	for _, c := range []struct {
		enabled  bool
		view     string
		needsOld bool
		refused  bool
	}{
		{true, "NEW_AND_OLD_IMAGES", false, false},
		{true, "NEW_AND_OLD_IMAGES", true, false},
		{true, "NEW_IMAGE", false, false},
		{true, "NEW_IMAGE", true, true}, // nothing shows which row a moved item left
		{true, "OLD_IMAGE", false, true},
		{true, "KEYS_ONLY", false, true},
		{true, "", false, true},
		{false, "NEW_AND_OLD_IMAGES", false, true},
	} {
		err := CheckStream(backfill.Description{Name: "Orders", StreamEnabled: c.enabled, ViewType: c.view}, c.needsOld)
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

// Old images are needed where an item's place or its former columns follow from them. They are used
// in more cases: in messages of a topic, and where older cells are kept.
func TestOldImagesThatAreNeededAndUsed(t *testing.T) {
	compile := func(change func(*transform.Spec)) *transform.Mapping {
		spec := transform.Spec{Source: "Orders", Table: "orders", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, Families: []transform.Family{{Name: "d"}}}
		change(&spec)
		m, err := transform.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	moving, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, "city", "pk")
	if err != nil {
		t.Fatal(err)
	}
	plain := compile(func(*transform.Spec) {})
	for name, c := range map[string]struct {
		spec         Spec
		publishes    bool
		needed, used bool
	}{
		"one row for each key": {spec: Spec{Mapping: plain}},
		"published":            {spec: Spec{Mapping: plain}, publishes: true, used: true},
		"older cells are kept": {spec: Spec{Mapping: compile(func(s *transform.Spec) { s.KeepVersions = true })}, used: true},
		"dual writes":          {spec: Spec{Mapping: plain, Late: time.Second}, needed: true, used: true},
		"numbered":             {spec: Spec{Mapping: compile(func(s *transform.Spec) { s.VersionAttribute = "n" })}, needed: true, used: true},
		"items move":           {spec: Spec{Mapping: moving}, needed: true, used: true},
	} {
		if needed := NeedsOldImages(c.spec.Mapping, c.spec.Late); needed != c.needed {
			t.Errorf("%s: needed %v", name, needed)
		}
		if used := UsesOldImages(c.spec, c.publishes); used != c.used {
			t.Errorf("%s: used %v", name, used)
		}
	}
}
