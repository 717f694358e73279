package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// An outage is reported once when it begins, with its code, the operation and the fix, and once
// when it ends. That holds however many shards and tables report it.
func TestOutagesAreToldTwice(t *testing.T) {
	silent := &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable, Err: errors.New("no answer in time")}
	denied := &cdc.Error{Op: "GetRecords", Reason: cdc.Denied, Err: errors.New("not authorized")}
	away := &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	refused := &sink.Error{Op: "ReadRows", Reason: sink.Denied, Code: "PermissionDenied"}
	record := func(shard string) error {
		return &cdc.Error{Op: "GetRecords", Reason: cdc.Unreadable, Err: &cdc.RecordError{Shard: shard, Err: errors.New("malformed")}}
	}
	for _, c := range []struct {
		name   string
		errs   []error // of shards, in turn
		tables int
		begins []string // parts of each line at the beginning
		ends   []string
	}{
		{"DynamoDB is silent", []error{silent}, 3, []string{"retrying GetRecords code=R1205 fix"}, []string{"recovered: GetRecords code=R1205"}},
		{"a table is denied", []error{denied}, 1, []string{"retrying GetRecords code=R1204 fix"}, []string{"recovered: GetRecords table=T0 code=R1204"}},
		{"two tables are denied", []error{denied}, 2, []string{"retrying GetRecords code=R1204 fix", "retrying GetRecords code=R1204 fix"},
			[]string{"recovered: GetRecords table=T0 code=R1204", "recovered: GetRecords table=T1 code=R1204"}},
		{"Bigtable is silent", []error{away}, 3, []string{"retrying CheckAndMutateRow code=R1301 fix"}, []string{"recovered: CheckAndMutateRow code=R1301"}},
		{"Bigtable refuses", []error{refused}, 1, []string{"retrying ReadRows code=R1302 fix"}, []string{"recovered: ReadRows table=T0 code=R1302"}},
		{"both are silent", []error{silent, away}, 2, []string{"retrying GetRecords code=R1205 fix", "retrying CheckAndMutateRow code=R1301 fix"},
			[]string{"recovered: CheckAndMutateRow code=R1301", "recovered: GetRecords code=R1205"}},
		{"two records cannot be read", []error{record("a"), record("b")}, 1, []string{"retrying GetRecords code=R1206 fix", "retrying GetRecords code=R1206 fix"},
			[]string{"recovered: GetRecords table=T0 code=R1206", "recovered: GetRecords table=T0 code=R1206"}},
		{"Bigtable is silent to rows and to the ledger", []error{away, fmt.Errorf("the outcome is unknown: %w", status.Error(codes.Unavailable, "away"))}, 2,
			[]string{"retrying CheckAndMutateRow code=R1301 fix"}, []string{"recovered: CheckAndMutateRow code=R1301"}},
		{"the ledger is silent to surveys", []error{&diag.Error{Code: diag.TargetUnreachable, What: "cannot read the ledger", Err: preflight.ErrReadTime}, away}, 1,
			[]string{"retrying read a shard code=R1301 fix"}, []string{"recovered: read a shard code=R1301"}},
		{"something else", []error{errors.New("odd")}, 1, []string{"retrying read a shard"}, []string{"recovered: read a shard table=T0"}},
	} {
		var lines []string
		o := outages{log: slog.New(told{&lines}), open: map[outage]*spell{}}
		now := time.Minute
		for range 20 { // ten minutes, in 8 shards each
			for i := range 8 * len(c.errs) * c.tables {
				o.retry(now, fmt.Sprintf("T%d", i%c.tables), "read a shard", quietWait, c.errs[i/c.tables%len(c.errs)])
			}
			o.look(now + calm)
			now += 30 * time.Second
		}
		if !o.lasts() {
			t.Errorf("%s: it is over", c.name)
		}
		begun := len(lines)
		o.look(now + calm)
		o.look(now + 2*calm)
		if !equalSets(lines[:begun], c.begins) || !equalSets(lines[begun:], c.ends) || o.lasts() {
			t.Errorf("%s: told are\n%s", c.name, strings.Join(lines, "\n"))
		}
	}
}

// Short failures are not reported. During an outage, shards that are released for it and acquired
// again are not reported either.
func TestWhatPassesIsNotTold(t *testing.T) {
	var lines []string
	o := silentObserver()
	o.log = slog.New(told{&lines})
	o.outages.log = o.log
	silent := &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable, Err: errors.New("no answer in time")}
	o.retry("Orders", "read a shard", quietWait-1, silent)
	events := o.events()
	events.ShardTaken("Orders", "s", 1)
	o.retry("Orders", "read a shard", quietWait, silent)
	events.ShardLeft("Orders", "s", engine.ErrYield)
	events.ShardTaken("Orders", "s", 2)
	events.ShardLeft("Orders", "s", errors.New("odd"))
	o.clock = func() time.Time { return o.began.Add(time.Hour) }
	for _, shard := range []string{"s", "t", "u"} {
		events.ShardLeft("Orders", shard, checkpoint.ErrLeaseLost)
		events.CoordinatorLeft("Orders", checkpoint.ErrLeaseLost)
	}
	o.clock = func() time.Time { return o.began.Add(2 * time.Hour) }
	events.ShardLeft("Orders", "s", checkpoint.ErrLeaseLost)
	want := []string{"acquired shard table=Orders", "retrying GetRecords code=R1205 fix", "released shard table=Orders", "released shard table=Orders", "released shard table=Orders"}
	if !equalSets(lines, want) {
		t.Errorf("told are %q", lines)
	}
}

// told collects the log lines above debug level, with those attributes that the tests check.
type told struct{ lines *[]string }

func (told) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (c told) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c told) WithGroup(string) slog.Handler              { return c }

func (c told) Handle(_ context.Context, r slog.Record) error {
	var text bytes.Buffer
	text.WriteString(r.Message)
	begins := strings.HasPrefix(r.Message, "retrying")
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == "code", a.Key == "table" && !begins:
			fmt.Fprintf(&text, " %s=%s", a.Key, a.Value)
		case a.Key == "fix":
			text.WriteString(" fix")
		}
		return true
	})
	*c.lines = append(*c.lines, text.String())
	return nil
}

// equalSets reports whether two lists have the same lines, in any order.
func equalSets(a, b []string) bool {
	count := map[string]int{}
	for _, line := range a {
		count[line]++
	}
	for _, line := range b {
		count[line]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
