package sim

import (
	"encoding/json"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// watchSeat notes that the keeper is there, and when the whole table was read.
func (t *truth) watchSeat(before, after *Row) {
	t.seat = t.m.World.Elapsed()
	t.checkSeat(before, after)
	was, is := recordOf[seatRecord](before), recordOf[seatRecord](after)
	if string(is.Scan) != string(was.Scan) && is.copied() && !was.copied() {
		t.scanned = t.m.World.Now()
	}
}

// seatRecord is what matters here of a keeper's row as the ledger stores it.
type seatRecord struct {
	By    string          `json:"by"` // who wrote it
	Owner string          `json:"owner"`
	Epoch uint64          `json:"epoch"`
	Scan  json.RawMessage `json:"scan"`
}

// copied tells whether the keeper's row says that every page of its load is durable.
func (r *seatRecord) copied() bool {
	var p backfill.Progress
	return r.Scan != nil && json.Unmarshal(r.Scan, &p) == nil && p.Done()
}

// checkCopied: when the load is complete, each item that existed before it began has a row or is parked, unless it was changed since. Rows that went with
// a target are missed by the witness, which is looked at after the last page; if the target is lost only after that, the next look tells.
func (t *truth) checkCopied(is checkpoint.TableState) {
	if seat := recordOf[seatRecord](t.m.Target.Row(stateTable, "default/keeper/"+t.m.Source.Name)); !seat.copied() {
		t.m.violate("I7: the load counts as complete, and its progress does not")
	}
	looked := true
	for _, table := range t.m.Mapping.Tables() {
		looked = looked && !t.beaten[table].Before(t.scanned) && t.m.Target.lost.After(t.beaten[table])
	}
	if looked {
		return
	}
	for _, r := range t.sorted() {
		im := t.rows[r][len(t.rows[r])-1]
		if !im.to.IsZero() || im.outlived || !im.from.Before(is.Load.StartedAt.Add(-time.Second)) {
			continue
		}
		switch {
		case im.spot.held && t.highest[r] == "":
			t.m.violate("I1: row %q is missing after the load", r.row)
		case !im.spot.held && t.parked[t.m.Mapping.ItemKey(im.item)] == "":
			t.m.violate("I3: what row %q cannot hold is not parked after the load", r.row)
		}
	}
}
