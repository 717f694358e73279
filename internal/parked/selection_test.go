package parked

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Items with the same key in two tables are different items, and each is read from its own table.
func TestItemsOfTwoTablesWithOneKey(t *testing.T) {
	record := func(source, key string, version transform.Version) Record {
		p := transform.Parked{Source: source, Key: key, Version: version}
		return Record{Ref: sink.RefOf(p), Parked: p}
	}
	got := ""
	for _, records := range ByItem([]Record{record("A", "S:x", "1"), record("A", "S:x", "2"), record("B", "S:x", "1"), record("B", "S:y", "1")}) {
		got += fmt.Sprintf("%d of %s in %s; ", len(records), records[0].Key, records[0].Source)
	}
	if want := "2 of S:x in A; 1 of S:x in B; 1 of S:y in B; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestReferencesNameRecords(t *testing.T) {
	const ref = sink.Ref("Orders/0123456789abcdef/0001.5")
	for word, want := range map[string]bool{
		"Orders/0123456789abcdef/0001.5": true, "Orders/0123456789abcdef": true, "0123456789abcdef": true, "Orders/01234567": true, "01234567": true,
		"Orders": false, "Orders/0123456": false, "0123456": false, "0001.5": false, "Orders/0123456789abcdef/0001": false, "": false, "Orders/": false,
		"Bills/01234567": false, "12345678": false,
	} {
		if got := names(word, ref); got != want {
			t.Errorf("%q names the record: %v", word, got)
		}
	}
}

// A reason may quote a remote service. It stays in its column, and cannot control a terminal.
func TestTheListEscapesReasons(t *testing.T) {
	var out bytes.Buffer
	err := writeEntries(&out, []Entry{{Table: "Orders", KeyHash: "00", Reason: "too large\n\nOrders  forged \x1b[2J"}})
	if got := out.String(); err != nil || strings.Contains(got, "\x1b") || strings.Contains(got, "\n\n") || strings.Contains(got, "\nOrders  forged") {
		t.Errorf("%v: %q", err, got)
	}
}

// The list fits into 100 columns, whatever the names and reasons are, and no word of a reason is
// lost.
func TestTheListFitsATerminal(t *testing.T) {
	reason := strings.TrimSpace(strings.Repeat("an attribute name of 17408 bytes cannot be a column; ", 5))
	for _, table := range []string{"Orders", strings.Repeat("T", 255)} {
		var out bytes.Buffer
		if err := writeEntries(&out, []Entry{{Table: table, KeyHash: strings.Repeat("0123456789abcdef", 2), Reason: reason}}); err != nil {
			t.Fatal(err)
		}
		var words []string
		for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
			if len(line) > 100 {
				t.Errorf("%d columns: %s", len(line), line)
			}
			fields := strings.Fields(line)
			switch {
			case i == 1:
				words = append(words, fields[3:]...)
			case i > 1:
				words = append(words, fields...)
			}
		}
		if got := strings.Join(words, " "); got != reason {
			t.Errorf("the reason is %q", got)
		}
	}
}
