package standing

import (
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	for _, c := range []struct{ command, table, flags, want string }{
		{"run", "Orders", "", "replicator run"},
		{"backfill resume --table TABLE --yes", "Orders", " -c f.yaml", "replicator backfill resume --table Orders --yes -c f.yaml"},
		{"backfill start --table TABLE --export s3://TABLE", "TABLES", "", "replicator backfill start --table TABLES --export s3://TABLE"},
		{"verify --table TABLE", "Orders", " -c TABLE.yaml", "replicator verify --table Orders -c TABLE.yaml"},
	} {
		if got := Command(c.command, c.table, c.flags); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestWriteNext(t *testing.T) {
	for want, steps := range map[string][]NextStep{
		"":                            nil,
		"\nNext:\n  a  because\n":     {{"a", "because"}},
		"\nNext:\n  a   b\n  cc  d\n": {{"a", "b"}, {"cc", "d"}},
	} {
		var b strings.Builder
		if err := WriteNext(&b, steps); err != nil || b.String() != want {
			t.Errorf("%q, %v, want %q", b.String(), err, want)
		}
	}
}
