package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// judged returns the status of a table.
func judged(in status.TableInput) *status.Table {
	l := &status.Input{Cfg: &config.Config{Name: "test"}, Tables: []config.Table{{From: "Orders", To: "Orders"}}, Inputs: []status.TableInput{in}}
	return &l.Judge(func(string) (string, bool) { return "", false }, "", noon).Tables[0]
}

func loadedTable() checkpoint.TableState {
	return checkpoint.TableState{Source: "Orders", Label: "L", Generation: 7, Adopted: 7, Listed: 7,
		Load: checkpoint.Load{Generation: 7, StartedAt: noon.Add(-time.Hour), DoneAt: noon.Add(-50 * time.Minute), Items: 10, Estimate: 10}}
}

func TestJudge(t *testing.T) {
	version := func(sequence uint64, count uint16) transform.Version {
		return transform.NewVersion(7, 500_000, cdc.SequenceOf(sequence), count)
	}
	cells := func(value string) []transform.Cell {
		return []transform.Cell{{Family: "d", Qualifier: "a", Value: []byte(value)}}
	}
	put := transform.RowMutation{Table: "t", Row: "r", Families: []string{"d"}, Cells: cells("1")}
	remove := transform.RowMutation{Table: "t", Row: "r", Families: []string{"d"}, Remove: true}
	equal := itemRow{put, sink.Row{Version: version(1, 1), Cells: cells("1")}}
	other := itemRow{put, sink.Row{Version: version(1, 1), Cells: cells("2")}}
	absent := itemRow{put, sink.Row{}}
	gone := itemRow{put, sink.Row{Gone: version(5, 1), GoneAt: 1_700_000_000_000_000}}
	emptied := itemRow{put, sink.Row{Version: version(1, 1)}}
	alive := itemRow{remove, other.seen}
	noted := func(sequence uint64) []parked.Record {
		return []parked.Record{{Parked: transform.Parked{Source: "Orders", Key: "S:x", Version: version(sequence, 1), Reason: "too long"}}}
	}
	lag := func(seconds float64, estimated bool) *status.Table {
		s := judged(status.TableInput{Found: true, State: loadedTable()})
		s.LagSeconds, s.LagEstimated = &seconds, estimated
		return s
	}
	lost := loadedTable()
	lost.NeedsLoad, lost.Reason = true, "trimmed"
	running := loadedTable()
	running.Load.DoneAt = time.Time{}
	fast := running
	fast.Load.Fast, fast.Load.Parts, fast.Load.DoneAt = true, 1, noon
	for name, c := range map[string]struct {
		f     itemFindings
		state string
		text  string
		again time.Duration
	}{
		"equal":                   {itemFindings{status: lag(3, false), present: true, rows: []itemRow{equal}}, itemEqual, "equal", 0},
		"equal before any run":    {itemFindings{status: judged(status.TableInput{}), present: true, rows: []itemRow{equal}}, itemEqual, "equal", 0},
		"equal, the record stays": {itemFindings{status: lag(3, false), present: true, rows: []itemRow{equal}, parked: noted(9)}, itemEqual, "equal", 0},
		"removed":                 {itemFindings{status: lag(3, false), rows: []itemRow{{remove, gone.seen}}}, itemRemoved, "2023-11-14T22:13:20Z", 0},
		"absent":                  {itemFindings{status: lag(3, false), rows: []itemRow{{remove, sink.Row{}}}}, itemAbsent, "neither DynamoDB nor Bigtable", 0},
		"absent without a row":    {itemFindings{status: lag(3, false)}, itemAbsent, "neither DynamoDB nor Bigtable", 0},
		"ignored":                 {itemFindings{status: lag(3, false), present: true, ignored: true}, itemIgnored, "the rule does not copy the item", 0},
		"ignored, once not":       {itemFindings{status: lag(3, false), present: true, ignored: true, moves: true}, itemIgnored, "the key does not show where", 0},
		"absent, row not known":   {itemFindings{status: lag(3, false), moves: true}, itemUnlocated, "its key does not show", 0},
		"absent, row once known":  {itemFindings{status: lag(3, false), moves: true, rows: []itemRow{{remove, sink.Row{}}}}, itemUnlocated, "its key does not show", 0},
		"removed of a row":        {itemFindings{status: lag(3, false), moves: true, rows: []itemRow{{remove, gone.seen}}}, itemUnlocated, "its key does not show", 0},
		"parked":                  {itemFindings{status: lag(3, false), present: true, unmappable: "too long", rows: []itemRow{{remove, gone.seen}}, parked: noted(5)}, itemParked, "parked: too long", 0},
		"parked, now storable":    {itemFindings{status: lag(3, false), present: true, rows: []itemRow{gone}, parked: noted(5)}, itemParked, "replicator parked retry Orders/", 0},
		"parked, now gone":        {itemFindings{status: lag(3, false), rows: []itemRow{{remove, other.seen}}, parked: noted(5)}, itemParked, "no longer has it", 0},
		"an old record":           {itemFindings{status: lag(3, false), leases: 1, present: true, rows: []itemRow{gone}, parked: noted(4)}, itemBehind, "lag 3.0s", 5 * time.Second},
		"unmappable":              {itemFindings{status: lag(3, false), leases: 1, present: true, unmappable: "too long"}, itemUnmappable, "too long", 0},
		"not started":             {itemFindings{status: judged(status.TableInput{}), present: true, rows: []itemRow{absent}}, itemNotStarted, "replicator run", 0},
		"not copied":              {itemFindings{status: judged(status.TableInput{Found: true, State: running}), leases: 1, present: true, rows: []itemRow{absent}}, itemNotCopied, "running", 0},
		"needs load":              {itemFindings{status: judged(status.TableInput{Found: true, State: lost}), leases: 1, present: true, rows: []itemRow{other}}, itemNeedsLoad, "trimmed", 0},
		"behind":                  {itemFindings{status: lag(3, false), leases: 1, present: true, rows: []itemRow{other}}, itemBehind, "lag 3.0s", 5 * time.Second},
		"behind, removed":         {itemFindings{status: lag(3, false), leases: 1, rows: []itemRow{{remove, other.seen}}}, itemBehind, "lag 3.0s", 5 * time.Second},
		"a fast load":             {itemFindings{status: judged(status.TableInput{Found: true, State: fast}), leases: 1, present: true, rows: []itemRow{other}}, itemBehind, "a fast load is not over", 0},
		"no worker":               {itemFindings{status: lag(3, false), present: true, rows: []itemRow{other}}, itemBehind, "no worker", 0},
		"lag unknown":             {itemFindings{status: judged(status.TableInput{Found: true, State: loadedTable()}), leases: 1, present: true, rows: []itemRow{other}}, itemBehind, "not been read", 0},
		"expired":                 {itemFindings{status: lag(1, true), leases: 1, present: true, expired: true, rows: []itemRow{emptied}}, itemExpired, "garbage collection removes", 0},
		"expired, a load is due":  {itemFindings{status: judged(status.TableInput{Found: true, State: lost}), leases: 1, present: true, expired: true, rows: []itemRow{emptied}}, itemExpired, "garbage collection removes", 0},
		"expired, yet different":  {itemFindings{status: lag(1, true), leases: 1, present: true, expired: true, rows: []itemRow{other}}, itemDifferent, "the stream was empty 1.0s ago", 3 * time.Second},
		"expired, never written":  {itemFindings{status: lag(1, true), leases: 1, present: true, expired: true, rows: []itemRow{absent}}, itemDifferent, "the stream was empty 1.0s ago", 3 * time.Second},
		"emptied by nobody":       {itemFindings{status: lag(1, true), leases: 1, present: true, rows: []itemRow{emptied}}, itemDifferent, "the stream was empty 1.0s ago", 3 * time.Second},
		"kept":                    {itemFindings{status: lag(1, true), leases: 1, outlives: true, rows: []itemRow{alive}}, itemKept, "kept: the item is no longer", 3 * time.Second},
		"kept, or behind":         {itemFindings{status: lag(3, false), leases: 1, outlives: true, rows: []itemRow{alive}}, itemKept, "is not applied yet", 5 * time.Second},
		"kept, no worker":         {itemFindings{status: lag(3, false), outlives: true, rows: []itemRow{alive}}, itemKept, "is not applied yet", 0},
		"kept, a load is due":     {itemFindings{status: judged(status.TableInput{Found: true, State: lost}), leases: 1, outlives: true, rows: []itemRow{alive}}, itemNeedsLoad, "trimmed", 0},
		"removed under keep":      {itemFindings{status: lag(3, false), outlives: true, rows: []itemRow{{remove, gone.seen}}}, itemRemoved, "2023-11-14T22:13:20Z", 0},
		"different":               {itemFindings{status: lag(1, true), leases: 1, present: true, rows: []itemRow{other}}, itemDifferent, "the stream was empty 1.0s ago", 3 * time.Second},
	} {
		verdict, again := judge(c.f)
		if verdict.State != c.state || !strings.Contains(verdict.Text, c.text) || again != c.again {
			t.Errorf("%s: %+v, again after %s", name, verdict, again)
		}
	}
}

func TestShardOf(t *testing.T) {
	shards := []status.Shard{{ID: "a", Hop: 500_000, State: "done"}, {ID: "b", Hop: 500_001, State: "reading"}, {ID: "c", Hop: 500_002, State: "waiting"}, {ID: "d", Hop: 500_001, State: "done"}}
	at := func(hop uint32) transform.Version { return transform.NewVersion(1, hop, cdc.SequenceOf(1), 1) }
	for want, got := range map[string]explainedShard{
		"the version came from a; the next change comes from one of 2 open shards; DynamoDB does not say which":               shardOf(at(500_000), shards),
		"the version came from one of 2 shards; the next change comes from one of 2 open shards; DynamoDB does not say which": shardOf(at(500_001), shards),
		"the next change comes from b": shardOf(at(transform.LoadHop), shards[:2]),
		"":                             shardOf("", nil),
	} {
		if got.String() != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestDecodedVersions(t *testing.T) {
	if decoded("") != nil || decoded("not a version") != nil {
		t.Error("what is no version was taken apart")
	}
	loaded := decoded(transform.NewVersion(3, transform.LoadHop, cdc.SequenceOf(1_700_000_000), 2))
	if got := loaded.String(); got != "generation 3, loaded 2023-11-14T22:13:20Z, count 2" {
		t.Error(got)
	}
}

// A row that only a fast load has copied is live, and names the load instead of a version.
func TestARowOfAFastLoad(t *testing.T) {
	cells := []transform.Cell{{Family: sink.LiveFamily, Qualifier: sink.MarkerColumn, Timestamp: 5_000, Value: []byte("7.2")}, {Family: "d", Qualifier: "a", Timestamp: 5_000, Value: []byte("1")}}
	want := transform.RowMutation{Table: "t", Row: "r", Families: []string{"d"}, Cells: []transform.Cell{{Family: "d", Qualifier: "a", Value: []byte("1")}}}
	row := itemRow{want, sink.NewRow("r", cells)}
	e := row.explain(false)
	if got := e.held(); got != "live with 1 cell, copied by load 7.2" || !e.Equal || e.Live.LoadedAt != nil {
		t.Errorf("%s, %+v", got, e)
	}
	version := transform.Cell{Family: sink.LiveFamily, Qualifier: sink.VersionColumn, Value: []byte(transform.NewVersion(7, 5, cdc.SequenceOf(1), 1))}
	row.seen = sink.NewRow("r", append(cells, version))
	if e = row.explain(false); e.Live.Copied != nil {
		t.Errorf("with a version: %+v", e.Live)
	}
}
