package transform

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Stamp is what a shard adds to the changes of a page.
type Stamp struct {
	// Generation and Hop rank the shard.
	Generation, Hop uint32
	// NotBefore is the Latest of the shard's previous page, zero for the first. Cell times never go
	// back within a shard, although the times of changes may.
	NotBefore time.Time
	// DualWrites reports that the application writes the target too. Rows then get the fields that
	// Batch.Timestamped needs.
	DualWrites bool
	// Apart reports that changes of different items have no defined order, as in an export window.
	// Each cell then has the time of its own change.
	Apart bool
}

// history is everything that a page says about one item.
type history struct {
	item   string // ItemKey
	newest int    // index of its last change
	micros int64  // cell time at that change
	// addresses are the addresses of the item's images in the page. An image may have no address.
	addresses []address
	rule      *rule // the rule that decides for the newest image
	// reason explains why the newest image has no address. unknown explains why the page does not
	// show all addresses. With either of them, the item is parked.
	reason      error
	unknown     string
	keyOnly     bool     // every image has the same addresses
	unaddressed bool     // an old image has no address, so the change that wrote it is parked
	puts        [][]Cell // room for one
	moments     []moment // all changes of the item in the page; set if older cells are kept, with a version attribute, and under dual writes
}

// moment is a change of an item and the time of its cells.
type moment struct {
	change int
	micros int64
}

// current reports whether the newest image maps to the i-th address.
func (h *history) current(i int) bool { return h.keyOnly || h.addresses[i].change == h.newest }

// Fold turns the changes of one page, in the order of the stream, into one mutation per item and row.
//
// Of each item it keeps the newest image, which is the last one, and the union of the addresses
// that any old or new image in the page maps to. The addresses that the newest image does not map
// to are removed at the newest version (T2). An item that moves a→b→c within a page leaves neither
// a nor b behind. An old image without an address adds none, because nothing was ever written for
// that image. Items come in the order of their first appearance in the page.
//
// If the newest image cannot be mapped, its change is parked whole. Every row of the union is
// removed, including the item's current row, if known (T5). The same happens if the page lacks an
// image that Fold needs to know what to write or remove.
func Fold(m *Mapping, changes []cdc.Change, s Stamp) Batch {
	histories, latest := m.histories(changes, s)
	b := Batch{
		Source: m.Source, Changes: len(changes), Latest: time.UnixMicro(latest).UTC(), mapping: m, changes: changes,
		Rows: make([]RowMutation, 0, len(histories)),
	}
	var enc encoder
	for i := range histories {
		h := &histories[i]
		c := &changes[h.newest]
		order, fell := m.rank(changes, h)
		v := order.At(NewVersion(s.Generation, s.Hop, c.Sequence, CountExact))
		base := RowMutation{Item: h.item, Change: h.newest, Version: v, At: c.Time, Keep: m.keep}
		var puts [][]Cell
		reason := h.unknown
		if reason == "" && c.Event != cdc.Remove {
			puts, reason = m.put(&enc, c, h)
			b.ignore(h.rule)
		}
		if reason == "" && fell != "" {
			puts, reason = nil, fell
		}
		if reason != "" {
			b.Parked = append(b.Parked, b.Park(base, reason)) // every address is removed below
		}
		if h.unaddressed {
			b.Unaddressed = append(b.Unaddressed, Unaddressed{h.item, v})
		}
		first := len(b.Rows)
		b.Rows = m.mutations(b.Rows, base, h, puts)
		if m.keep && puts != nil {
			m.recall(&enc, changes, h, b.Rows[first:])
		}
		if s.DualWrites {
			m.name(&enc, changes, h, b.Rows[first:])
		}
	}
	return b
}

// put maps the newest image. If there is nothing to put, `reason` explains why.
func (m *Mapping) put(enc *encoder, c *cdc.Change, h *history) (puts [][]Cell, reason string) {
	if !c.New.Exists() {
		return nil, "the stream record has no new image of the item"
	}
	if h.reason != nil {
		return nil, reasonOf(h.reason)
	}
	puts, err := m.puts(enc, c.New, h, c.Time, h.micros)
	if err != nil {
		return nil, reasonOf(err)
	}
	return puts, ""
}

// ignore counts an item that its rule ignores.
func (b *Batch) ignore(r *rule) {
	if r == nil || !r.ignore {
		return
	}
	if b.Ignored == nil {
		b.Ignored = map[string]int{}
	}
	b.Ignored[r.name]++
}

func reasonOf(err error) string {
	if u, ok := err.(*Unmappable); ok {
		return u.Reason
	}
	return err.Error()
}

// histories groups a page by item, in order of first appearance. It also returns the highest cell
// time, in microseconds.
func (m *Mapping) histories(changes []cdc.Change, stamp Stamp) ([]history, int64) {
	latest := cellTime(stamp.NotBefore)
	list := make([]history, 0, len(changes))
	index := make(map[string]int, len(changes)) // for lookup only: the list has the order
	room := make([]address, len(changes))       // for one address per item
	cells := make([][]Cell, len(changes))
	var key []byte
	var s scratch
	for i := range changes {
		c := &changes[i]
		micros := cellTime(c.Time)
		latest = max(latest, micros)
		if !stamp.Apart {
			micros = latest
		}
		if c.Expired && m.Outlives() {
			continue
		}
		key = m.appendItemKey(key[:0], c.Keys)
		n, known := index[string(key)]
		if !known {
			n = len(list)
			item := string(key)
			index[item] = n
			list = append(list, history{item: item, addresses: room[n : n : n+1], puts: cells[n : n : n+1], keyOnly: m.keyOnly})
		}
		h := &list[n]
		h.newest, h.micros = i, micros
		if m.keep || m.number != "" || stamp.DualWrites {
			h.moments = append(h.moments, moment{i, micros})
		}
		switch {
		case m.keyOnly && known:
			// All changes have the addresses of the first change.
		case m.keyOnly:
			h.reason = h.add(m, &s, c.Keys, i, true)
			h.unaddressed = h.reason != nil
		default:
			h.follow(m, &s, c, i)
		}
	}
	return list, latest
}

// follow adds the addresses of a change's images to the union. An old image without an address adds
// none, because nothing was ever written for that image.
func (h *history) follow(m *Mapping, s *scratch, c *cdc.Change, i int) {
	h.reason, h.rule = nil, nil
	if c.Old.Exists() {
		h.unaddressed = h.add(m, s, c.Old, i, false) != nil || h.unaddressed
	}
	if c.New.Exists() {
		h.reason = h.add(m, s, c.New, i, true)
	}
	if c.Event != cdc.Insert && !c.Old.Exists() {
		h.unknown = "the stream record has no old image, which names the former row"
	}
}

// CellTime returns the timestamp that Load gives to cells of items read at the given time. An item
// may set its own timestamps.
func CellTime(readAt time.Time) int64 { return cellTime(readAt) }

// cellTime returns a time as a Bigtable timestamp: microseconds in whole milliseconds, never
// negative.
func cellTime(t time.Time) int64 { return max(0, t.UnixMilli()) * 1000 }

// Load turns items that a load read at `readAt` into mutations at the version (generation, LoadHop,
// the second of readAt, CountExact). A later load of the same generation outranks an earlier load.
// Every change of a stream outranks every load. The time `readAt` must not be later than the start
// of the read. Items that cannot be mapped are parked as in Fold.
func Load(m *Mapping, items []attribute.Item, generation uint32, readAt time.Time) Batch {
	micros := cellTime(readAt)
	v := LoadVersion(generation, readAt)
	b := Batch{
		Source: m.Source, Changes: len(items), Latest: time.UnixMicro(micros).UTC(), mapping: m, items: items, readAt: readAt,
		Rows: make([]RowMutation, 0, len(items)),
	}
	var enc encoder
	var s scratch
	room := make([]address, 1)
	cells := make([][]Cell, len(items))
	for i, item := range items {
		order, unranked := m.RankOf(item, false)
		base := RowMutation{Item: m.ItemKey(item), Change: i, Version: order.At(v), At: readAt, Keep: m.keep}
		h := history{item: base.Item, newest: i, addresses: room[:0:1], puts: cells[i : i : i+1]}
		err := h.add(m, &s, item, i, true)
		var puts [][]Cell
		if err == nil {
			puts, err = m.puts(&enc, item, &h, readAt, micros)
		}
		if err == nil {
			err = unranked
		}
		if err != nil {
			puts = nil
			b.Parked = append(b.Parked, b.Park(base, reasonOf(err)))
		}
		b.ignore(h.rule)
		b.Rows = m.mutations(b.Rows, base, &h, puts)
	}
	return b
}

// LoadWindow turns the changes of an export window into mutations. Puts and removes have the
// version LoadVersion of the window's end. There must be one change per item, with the sequence
// number of that version. The mutations outrank images that a load read before the end. Later
// windows and changes of the stream outrank them. Cells have the times of the changes. An address
// that the item's old image had and the new image does not have is removed, as in Fold.
func LoadWindow(m *Mapping, changes []cdc.Change, generation uint32) Batch {
	return Fold(m, changes, Stamp{Generation: generation, Hop: LoadHop, Apart: true})
}

// LoadVersion returns the version of items that a load or a sweep read at a time.
func LoadVersion(generation uint32, readAt time.Time) Version {
	return NewVersion(generation, LoadHop, cdc.SequenceOf(uint64(max(0, readAt.Unix()))), CountExact)
}
