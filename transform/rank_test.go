package transform_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func rankedMapping(t *testing.T) *transform.Mapping {
	t.Helper()
	m, err := transform.New(transform.Spec{Source: "S", Table: "t", VersionAttribute: "rev", Families: []transform.Family{{Name: "d"}},
		PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// revision returns an item with a version attribute in DynamoDB JSON; "" for none, "-" for no item.
func revision(t *testing.T, rev string) attribute.Item {
	t.Helper()
	if rev == "-" {
		return attribute.Item{}
	}
	if rev != "" {
		rev = `,"rev":` + rev
	}
	i, err := attribute.UnmarshalItem([]byte(`{"pk":{"S":"a"}` + rev + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func n(number string) string { return `{"N":"` + number + `"}` }

// TestH87_Ranks: the rank of a page's changes of an item, and the changes that are parked, whose
// number is below that of their old image. A removal has no number of its own. A change that does
// not raise the number follows the stream, and so does a recreated item.
func TestH87_Ranks(t *testing.T) {
	m := rankedMapping(t)
	high := strings.Repeat("9", 20)
	for name, c := range map[string]struct {
		images []string // of the item, from the one before the first change
		want   string   // the rank, and the outcome
	}{
		"created":                            {[]string{"-", n("5")}, "5.0 put"},
		"raised":                             {[]string{n("5"), n("6")}, "6.0 put"},
		"not raised":                         {[]string{n("5"), n("5")}, "5.0 put"},
		"removed, by the time to live too":   {[]string{n("5"), "-"}, "5.1 remove"},
		"removed and created above":          {[]string{n("5"), "-", n("6")}, "6.0 put"},
		"removed and created at 1":           {[]string{n("5"), "-", n("1")}, "5.1 put"},
		"removed and created at its number":  {[]string{n("5"), "-", n("5")}, "5.1 put"},
		"created at 1, and raised":           {[]string{n("5"), "-", n("1"), n("2")}, "5.1 put"},
		"created at 1, and fell":             {[]string{n("5"), "-", n("3"), n("2")}, "5.1 parked"},
		"created without a number":           {[]string{n("5"), "-", ""}, "5.1 put"},
		"created at 1, and removed":          {[]string{n("5"), "-", n("1"), "-"}, "5.1 remove"},
		"fell":                               {[]string{n("5"), n("4")}, "5.0 parked"},
		"fell and rose again":                {[]string{n("5"), n("4"), n("6")}, "6.0 put"},
		"fell and rose, but not as high":     {[]string{n("5"), n("2"), n("4")}, "5.0 put"},
		"fell and was removed":               {[]string{n("5"), n("4"), "-"}, "5.0 remove"},
		"the attribute is gone":              {[]string{n("5"), ""}, "5.0 parked"},
		"without the attribute":              {[]string{"", ""}, "0.0 put"},
		"removed without the attribute":      {[]string{"", "-"}, "0.0 remove"},
		"removed at the number 0":            {[]string{n("0"), "-"}, "0.0 remove"},
		"the attribute is new":               {[]string{"", n("1")}, "1.0 put"},
		"the highest":                        {[]string{n(high), n(high)}, high + ".0 put"},
		"too high":                           {[]string{n("5"), n("1" + high)}, "5.0 parked"},
		"no integer":                         {[]string{n("5"), n("5.5")}, "5.0 parked"},
		"negative":                           {[]string{n("5"), n("-5")}, "5.0 parked"},
		"of another type":                    {[]string{n("5"), `{"S":"6"}`}, "5.0 parked"},
		"of another type, and then a number": {[]string{n("5"), `{"S":"6"}`, n("6")}, "6.0 put"},
	} {
		var changes []cdc.Change
		for i := 1; i < len(c.images); i++ {
			change := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(i)), Time: time.Unix(int64(i), 0),
				Keys: revision(t, ""), Old: revision(t, c.images[i-1]), New: revision(t, c.images[i])}
			if !change.New.Exists() {
				change.Event = cdc.Remove
			}
			changes = append(changes, change)
		}
		b := transform.Fold(m, changes, transform.Stamp{Generation: 1, Hop: transform.LoadHop + 1})
		if len(b.Rows) != 1 {
			t.Errorf("%s: %d rows", name, len(b.Rows))
			continue
		}
		row := b.Rows[0]
		done := "put"
		if len(b.Parked) > 0 {
			done = "parked"
		} else if row.Remove {
			done = "remove"
		}
		rank := row.Version.Rank()
		kind := 0
		if rank.Removed {
			kind = 1
		}
		if got := fmt.Sprintf("%s.%d %s", rank, kind, done); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if parsed, err := transform.ParseVersion(string(row.Version)); err != nil || parsed != row.Version || len(row.Version.Position()) != transform.VersionSize {
			t.Errorf("%s: %q is no version: %v", name, row.Version, err)
		}
	}
}

// The application's write ranks below every record at its number, and above those at lower numbers.
// Any number ranks above none, and removals above images.
func TestH87_OneOrderForBothWriters(t *testing.T) {
	position := func(sequence uint64) transform.Version {
		return transform.NewVersion(9, 9, cdc.SequenceOf(sequence), 1)
	}
	ascending := []transform.Version{
		position(99),
		transform.RankOf(0, false).At(position(1)), transform.RankOf(0, false).At(position(2)),
		transform.RankOf(9, false).AppliedBy(), transform.RankOf(9, false).At(position(1)), transform.RankOf(9, false).At(position(2)),
		transform.RankOf(9, true).AppliedBy(), transform.RankOf(9, true).At(position(1)),
		transform.RankOf(10, false).AppliedBy(), transform.RankOf(10, false).At(position(1)),
	}
	for i := 1; i < len(ascending); i++ {
		if ascending[i-1] >= ascending[i] {
			t.Errorf("%s is not below %s", ascending[i-1], ascending[i])
		}
		if v := ascending[i]; v.ByApplication() != (v == v.Rank().AppliedBy()) || v.Generation() != v.Position().Generation() || v.WithoutCount().Rank() != v.Rank() {
			t.Errorf("%s is read as another version", v)
		}
	}
	for _, text := range []string{"n", "n1.0." + string(position(1)), "m" + string(ascending[3][1:]), strings.Replace(string(ascending[3]), ".0.", ".2.", 1), string(ascending[3]) + "0"} {
		if _, err := transform.ParseVersion(text); err == nil {
			t.Errorf("%q is taken for a version", text)
		}
	}
}
