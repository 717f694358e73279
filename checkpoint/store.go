package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Store keeps the rows of a ledger in one table. A row is changed only by compare-and-set.
type Store interface {
	// Read returns the rows whose keys begin with prefix, by key.
	Read(ctx context.Context, prefix string) ([]Row, error)
	// Swap writes `data` and the counter `next` into a row, but only if the row's current counter
	// equals `was`. The argument `next` must not be 0. If `was` is 0, the row must not exist. Nil
	// data removes the row. Swap returns false if the row has another counter. After an error the
	// outcome is unknown, and the change may still take place later.
	Swap(ctx context.Context, key string, was, next uint64, data []byte) (bool, error)
}

// rowReader is a Store that can read one row without the rows whose keys begin with its key.
type rowReader interface {
	ReadRow(ctx context.Context, key string) ([]Row, error)
}

// Row is a stored record.
type Row struct {
	Key     string
	Counter uint64 // changes with every write; in most rows it counts the writes
	Data    []byte
}

// Format is the version of the stored records. A record of a newer format is refused. A record of
// an older format is read, and converted with its next write. So workers of an older version stop
// at the first newer record, instead of writing it back without its unknown members.
//
// Format 2 added records of target tables. Writes of a worker that knows only format 1 do not name
// a fence. Format 3 added loads from exports and former mappings. A worker that knows only format 2
// would treat the parts of such a load as segments of a scan. It would also leave the rows of
// former mappings. A table's record has format 3 while it has such a load or mapping. Format 4 is
// the format of a target table's record once a cutover has raised the table's fence. It keeps older
// programs from reading the fence's number, because they keep no record of what they may write
// (Writer). Format 5 replaces it: its programs obey the cutovers of single groups of tables, and
// key messages by TableState.OrderingBuckets. An older program writes a table's record back without
// that member, and later programs then key messages as it does. Format 6 is the format of a target
// table's record once a fast load has copied items into the table, or may have done so under a lost
// ledger, and of a table's record with such a load. The rows of older programs would keep the
// load's markers. Format 7 is the format of a table's record while replicator requests windows for
// it. An older program would request a full export instead. All other records have format 2, so
// workers of several versions may run concurrently until then.
const (
	Format       = 7
	fastFormat   = 6
	groupFormat  = 5
	exportFormat = 3
	plainFormat  = 2
)

// header is part of every record. It names the worker that wrote it and the number of that write.
// After an unknown outcome, the header shows whether this process's write took place.
type header struct {
	Format int    `json:"format"` // version of the record's format
	By     string `json:"by"`     // the worker that last wrote the record
	N      uint64 `json:"n"`      // the number of that write among the worker's writes
}

// ErrFormat is returned for a record written by a newer version.
var ErrFormat = errors.New("the ledger was written by a newer version of replicator")

// headed is a record that embeds a header.
type headed interface{ format() int }

func (h header) format() int { return h.Format }

// decode reads the record of a row.
func decode[T headed](row Row, record *T) error {
	err := json.Unmarshal(row.Data, record)
	format := (*record).format()
	if err != nil { // the record's format may be unknown
		var h header
		if json.Unmarshal(row.Data, &h) == nil {
			format = h.Format
		}
	}
	switch {
	case format > Format:
		return fmt.Errorf("ledger row %q: format %d, known is %d: %w", row.Key, format, Format, ErrFormat)
	case err != nil:
		return fmt.Errorf("ledger row %q: %w", row.Key, err)
	case format < 1:
		return fmt.Errorf("ledger row %q holds no record of a ledger", row.Key)
	}
	return nil
}

// stamp encodes a record that embeds a header, as this worker's next write.
func (l *Ledger) stamp(h *header, record any) []byte {
	l.mu.Lock()
	l.writes++
	n := l.writes
	l.mu.Unlock()
	*h = header{Format: plainFormat, By: l.worker, N: n}
	if r, ok := record.(interface{ written() int }); ok {
		h.Format = r.written()
	}
	data, err := json.Marshal(record)
	if err != nil {
		panic("checkpoint: " + err.Error()) // records are plain data
	}
	return data
}

// swap replaces the data of a ledger row and raises its counter by one.
func (l *Ledger) swap(ctx context.Context, store Store, key string, was uint64, data []byte) (bool, error) {
	return l.exchange(ctx, store, key, was, was+1, data)
}

// exchange makes one compare-and-set, and resolves an unknown outcome by reading the row. An error
// means that the outcome is still unknown: the identical exchange must be repeated before any other
// write to the row.
func (l *Ledger) exchange(ctx context.Context, store Store, key string, was, next uint64, data []byte) (bool, error) {
	done, err := store.Swap(ctx, key, was, next, data)
	if done && err == nil {
		return true, nil
	}
	// Check a refusal too. An earlier attempt of this swap may have taken place, and then only its
	// repetition was refused.
	row, found, readErr := readRow(ctx, store, key)
	if readErr != nil {
		if err == nil {
			err = readErr
		}
		return false, fmt.Errorf("the outcome of a ledger write is unknown: %w", err)
	}
	if data == nil {
		if !found {
			return true, nil
		}
	} else if found && row.Counter == next && sameWrite(row.Data, data) {
		return true, nil
	}
	if err != nil && row.Counter == was { // a missing row has counter 0
		return false, fmt.Errorf("a ledger write did not happen: %w", err)
	}
	return false, nil
}

func readRow(ctx context.Context, store Store, key string) (Row, bool, error) {
	read := store.Read
	if s, ok := store.(rowReader); ok {
		read = s.ReadRow
	}
	rows, err := read(ctx, key)
	if err != nil {
		return Row{}, false, err
	}
	if len(rows) > 0 && rows[0].Key == key { // the key itself sorts before all longer keys with this prefix
		return rows[0], true, nil
	}
	return Row{}, false, nil
}

func sameWrite(a, b []byte) bool {
	var x, y header
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}
