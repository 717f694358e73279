package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// keyFinder is a Store that can find a key without reading the rows before it.
type keyFinder interface {
	// NextKey returns the first key that is not below `from`, whatever its row holds; false if there is
	// none.
	NextKey(ctx context.Context, from string) (key string, found bool, err error)
}

// Pipelines returns the names of the pipelines that have rows in a state table, sorted, at most `most`
// of them. The result `more` reports whether there are others. It reads one key for each name, however
// many rows a pipeline has. The row may be a parked item of a pipeline whose ledger was lost.
func Pipelines(ctx context.Context, store Store, most int) (names []string, more bool, err error) {
	finder, ok := store.(keyFinder)
	if !ok {
		return nil, false, errors.New("checkpoint: this store cannot list pipelines")
	}
	for from, strays := "", 0; ; {
		key, found, err := finder.NextKey(ctx, from)
		if err != nil || !found {
			return names, false, err
		}
		name, _, ours := strings.Cut(key, "/")
		switch {
		case len(names) == most || strays > most:
			return names, true, nil
		case !ours: // another program's row: every key of a pipeline has a slash after the name
			from = key + "\x00"
			strays++
			continue
		}
		names = append(names, name)
		from = name + string(rune('/'+1))
	}
}

// Summary is what a pipeline's ledger says without the pipeline's configuration. It can also be read
// from records of a newer format.
type Summary struct {
	Name string
	// Begun reports whether the ledger's own record exists. Without it the ledger is lost, and only
	// other rows of the pipeline remain.
	Begun   bool
	Created time.Time
	Format  int      // the highest format of the records that were read; 0 if there were none
	Tables  []string // the source tables, sorted
	// WrittenAt is the time of the last heartbeat of a coordinator or of a process without a lease, on
	// that process's clock, and By is the process; zero if there is none.
	WrittenAt time.Time
	By        string
}

// Newer reports whether a newer version of the program wrote a record.
func (s Summary) Newer() bool { return s.Format > Format }

// Summarize reads a pipeline's summary. It reads the records of the pipeline, of its tables, of their
// coordinators and of the processes without a lease.
func Summarize(ctx context.Context, store Store, name string) (Summary, error) {
	s := Summary{Name: name}
	l := &Ledger{name: name}
	row, found, err := readRow(ctx, store, l.pipelineKey())
	if err != nil {
		return s, err
	}
	if s.Begun = found; found {
		s.note(row)
	}
	for _, prefix := range []string{l.tableKey(""), l.coordinatorKey(""), l.processPrefix()} {
		rows, err := store.Read(ctx, prefix)
		if err != nil {
			return s, err
		}
		for _, row := range rows {
			if prefix == l.tableKey("") {
				s.Tables = append(s.Tables, strings.TrimPrefix(row.Key, prefix))
			}
			s.note(row)
		}
	}
	return s, nil
}

// note adds a record to the summary. A record that cannot be decoded has an unknown format.
func (s *Summary) note(row Row) {
	var record struct {
		header
		Created   time.Time `json:"created"`
		WrittenAt time.Time `json:"written_at"`
	}
	_ = json.Unmarshal(row.Data, &record) // members that could be decoded are set
	s.Format = max(s.Format, record.Format)
	if !record.Created.IsZero() {
		s.Created = record.Created
	}
	if record.WrittenAt.After(s.WrittenAt) {
		s.WrittenAt, s.By = record.WrittenAt, record.By
	}
}
