package transform

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Stamp is what a shard adds to the changes of a page.
type Stamp struct {
	// Generation and Hop rank the shard.
	Generation, Hop uint32
	// NotBefore is the Latest of the shard's previous page, zero for the first: cell times never go back within a shard,
	// while the times of changes may.
	NotBefore time.Time
}

// history is what a page says of one item.
type history struct {
	item   string // ItemKey
	newest int    // index of its last change
	micros int64  // cell time at that change
	// rows are the addresses of all images of the item in the page that have one.
	rows []string
	// unknown is why the page does not tell all addresses, or ""; then the item is parked.
	unknown string
}

// Fold turns the changes of one page, in the order of the stream, into one mutation per item and row.
//
// Per item it keeps the newest image, which is the last one, and the union of the rows that any old or new image of the page
// maps to. The rows that the newest image does not map to are removed at the newest version (T2): an item that moves
// a→b→c within a page leaves neither a nor b behind. An old image without an address contributes none; nothing was ever
// written for it. Items come in the order in which they first appear in the page.
//
// If the newest image cannot be mapped, its change is parked whole and every row of the union is removed, its own included
// if it has one (T5). The same happens when an image is missing that is needed to know what to write or to remove.
func Fold(m *Mapping, changes []cdc.Change, s Stamp) Batch {
	histories, latest := m.histories(changes, s.NotBefore)
	b := Batch{
		Source: m.Source, Changes: len(changes), Latest: time.UnixMicro(latest).UTC(), mapping: m, changes: changes,
		Rows: make([]RowMutation, 0, len(histories)),
	}
	var enc encoder
	for i := range histories {
		h := &histories[i]
		c := &changes[h.newest]
		v := NewVersion(s.Generation, s.Hop, c.Sequence, CountExact)
		base := RowMutation{Item: h.item, Change: h.newest, Table: m.Table, Version: v, At: c.Time, Families: m.families}
		own, cells, reason := "", []Cell(nil), h.unknown
		if reason == "" && c.Event != cdc.Remove {
			own, cells, reason = m.put(&enc, c.New, h)
		}
		if reason != "" {
			b.Parked = append(b.Parked, b.Park(base, reason)) // and every address is removed: there is no own one
		}
		for _, row := range h.rows {
			mutation := base
			mutation.Row = row
			if row == own {
				mutation.Cells = cells
			} else {
				mutation.Remove = true
			}
			b.Rows = append(b.Rows, mutation)
		}
	}
	return b
}

// put maps the newest image. Its row is among the rows of the history, if it has one. A reason says why there is nothing to
// put.
func (m *Mapping) put(enc *encoder, image cdc.Item, h *history) (row string, cells []Cell, reason string) {
	if !image.Exists() {
		return "", nil, "the stream carries no new image of the item"
	}
	var err error
	if m.keyOnly && len(h.rows) == 1 {
		row = h.rows[0]
	} else if row, err = m.Row(image); err != nil {
		return "", nil, reasonOf(err)
	}
	if cells, err = enc.cells(m, image, h.micros); err != nil {
		return "", nil, reasonOf(err)
	}
	return row, cells, ""
}

func reasonOf(err error) string {
	if u, ok := err.(*Unmappable); ok {
		return u.Reason
	}
	return err.Error()
}

// histories groups a page by item, in order of first appearance, and returns the highest cell time with it, in microseconds.
func (m *Mapping) histories(changes []cdc.Change, notBefore time.Time) ([]history, int64) {
	latest := cellTime(notBefore)
	list := make([]history, 0, len(changes))
	index := make(map[string]int, len(changes)) // for look-up only: the order is the list's
	firstRows := make([]string, len(changes))   // room for one row per item
	var key, row []byte                         // scratch
	for i := range changes {
		c := &changes[i]
		latest = max(latest, cellTime(c.Time))
		key = m.appendItemKey(key[:0], c.Keys)
		n, known := index[string(key)]
		if !known {
			n = len(list)
			item := string(key)
			index[item] = n
			list = append(list, history{item: item, rows: firstRows[n : n : n+1]})
		}
		h := &list[n]
		h.newest, h.micros = i, latest
		switch {
		case m.keyOnly && known:
			// The row of the first change is the row of all.
		case m.keyOnly:
			row = m.addRow(h, row, c.Keys)
		default:
			row = m.addRow(h, row, c.Old)
			row = m.addRow(h, row, c.New)
			if c.Event != cdc.Insert && !c.Old.Exists() {
				h.unknown = "the stream carries no old image, which is needed to know the row that the item left"
			}
		}
	}
	return list, latest
}

// addRow adds the row of an image to the union, if there is an image and it has one.
func (m *Mapping) addRow(h *history, scratch []byte, image cdc.Item) []byte {
	if !image.Exists() {
		return scratch
	}
	scratch, err := m.appendRow(scratch[:0], image)
	if err != nil {
		return scratch
	}
	for _, known := range h.rows {
		if known == string(scratch) {
			return scratch
		}
	}
	h.rows = append(h.rows, string(scratch))
	return scratch
}

// cellTime is Bigtable's timestamp of a time: microseconds in whole milliseconds, never negative.
func cellTime(t time.Time) int64 { return max(0, t.UnixMilli()) * 1000 }

// Load turns items that a load read at readAt into mutations at the version (generation, LoadHop, the second of readAt, CountExact):
// a later load of the same generation outranks an earlier one, and every change of a stream outranks both. ReadAt must not be
// later than the moment at which the read began. Items that cannot be mapped are parked as Fold parks them.
func Load(m *Mapping, items []cdc.Item, generation uint32, readAt time.Time) Batch {
	micros := cellTime(readAt)
	v := NewVersion(generation, LoadHop, cdc.SequenceOf(uint64(max(0, readAt.Unix()))), CountExact)
	b := Batch{
		Source: m.Source, Changes: len(items), Latest: time.UnixMicro(micros).UTC(), mapping: m, items: items, readAt: readAt,
		Rows: make([]RowMutation, 0, len(items)),
	}
	var enc encoder
	for i, item := range items {
		mutation := RowMutation{Item: m.ItemKey(item), Change: i, Table: m.Table, Version: v, At: readAt, Families: m.families}
		row, err := m.Row(item)
		if err == nil {
			mutation.Row = row
			mutation.Cells, err = enc.cells(m, item, micros)
		}
		if err != nil {
			b.Parked = append(b.Parked, b.Park(mutation, reasonOf(err)))
			mutation.Remove, mutation.Cells = true, nil
		}
		if mutation.Row != "" {
			b.Rows = append(b.Rows, mutation)
		}
	}
	return b
}
