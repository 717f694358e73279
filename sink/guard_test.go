package sink_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func describeRequest(r sink.Request) string {
	lines := []string{fmt.Sprintf("%s %s refuse %s:%s >= %s", r.Table, r.Row, strings.Join(r.Refuse.Families, "|"), r.Refuse.Qualifier, r.Refuse.AtLeast.Sequence())}
	for _, op := range r.Ops {
		switch op.Kind {
		case sink.DeleteFamily:
			lines = append(lines, "delete "+op.Family)
		case sink.DeleteColumn:
			lines = append(lines, fmt.Sprintf("delete %s:%s", op.Family, op.Qualifier))
		case sink.SetCell:
			value := string(op.Value)
			if v, err := transform.ParseVersion(value); err == nil {
				value = "V" + v.Sequence().String()
			}
			lines = append(lines, fmt.Sprintf("set %s:%s=%s@%d", op.Family, op.Qualifier, value, op.Timestamp))
		default:
			lines = append(lines, "unknown")
		}
	}
	return strings.Join(lines, "\n")
}

// H43: the live version has the constant time 0, never a worker's. H51: the guard deletes nothing
// by a time range. Only puts that keep older cells do, and their range has no end. The tombstone
// has the server's time.
func TestH43_H51_GuardExactly(t *testing.T) {
	want := `t r refuse _cdc|_cdc_gone:v >= 7
delete d
set d:a=1@1000000
set d:b=2@1000000
delete _cdc_gone:v
set _cdc:v=V7@0`
	if got := describeRequest(sink.Guard(put(7, "a=1", "b=2"))); got != want {
		t.Errorf("put:\n%s", got)
	}
	want = `t r refuse _cdc|_cdc_gone:v >= 7
delete d
delete _cdc:k
delete _cdc:v
delete _cdc_gone:v
set _cdc_gone:v=V7@-1`
	if got := describeRequest(sink.Guard(remove(7))); got != want {
		t.Errorf("remove:\n%s", got)
	}
}

// S2, H78: every request sets one of replicator's columns, so it fails as a whole once replicator's
// families are dropped.
func TestEveryRequestSetsAVersion(t *testing.T) {
	for _, m := range []transform.RowMutation{put(1), put(1, "a=1"), remove(1)} {
		r := sink.Guard(m)
		last := r.Ops[len(r.Ops)-1]
		if last.Kind != sink.SetCell || last.Qualifier != "v" || last.Family != sink.LiveFamily && last.Family != sink.GoneFamily || string(last.Value) != string(m.Version) {
			t.Errorf("%+v", last)
		}
	}
}

func TestRequestSizeCoversWhatItCarries(t *testing.T) {
	r := sink.Guard(put(1, "a="+strings.Repeat("x", 1000), "b="+strings.Repeat("y", 2000)))
	if s := r.Size(); s < 3000 || s > 4000 {
		t.Error(s)
	}
}

func TestPrefix(t *testing.T) {
	for _, c := range []struct{ prefix, to string }{
		{"a", "b"}, {"a/", "a0"}, {"a\xff", "b"}, {"a\xfe\xff\xff", "a\xff"}, {"a\x80", "a\x81"}, {"a\uFFFD", "a\xef\xbf\xbe"}, {"\xff", ""}, {"", ""},
	} {
		if got := sink.Prefix(c.prefix); got.From != c.prefix || got.To != c.to {
			t.Errorf("%q: %q", c.prefix, got)
		}
	}
}
