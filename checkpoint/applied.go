package checkpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"
)

// This file records which messages of a topic are applied.
//
// An applier has its own row. It records there which messages are durably written, and acknowledges
// a message only after that. The table's coordinator merges these rows into one row per shard, and
// appliers then drop the merged numbers from their rows. So an acknowledged message is never
// forgotten, even if the process that applied it ends. The unbroken prefix of a shard's merged row
// is known to be applied.

// Track is a sequence of numbered messages.
type Track struct {
	Generation uint32 `json:"g"`
	Label      string `json:"l"` // the stream's label
	Shard      string `json:"s"`
}

func (t Track) compare(o Track) int {
	return cmp.Or(cmp.Compare(t.Label, o.Label), cmp.Compare(t.Shard, o.Shard), cmp.Compare(t.Generation, o.Generation))
}

// Applied records which messages of a track are applied.
type Applied struct {
	Track
	Runs Runs `json:"r"`
	// Stands is set only in merged rows. It says since when the prefix has not moved.
	Stands Stand `json:"stands,omitzero"`
}

// appliedRow is an applier's row of a table.
type appliedRow struct {
	header
	Source string    `json:"source"`
	Tracks []Applied `json:"tracks"`
}

// mergedRow records which messages of a shard's newest generation are applied, by any applier.
type mergedRow struct {
	header
	Applied
}

// MaxApplied bounds an applier's row, in bytes. A row grows only while an older message is not
// applied and newer messages are.
const MaxApplied = 1 << 20

// ErrAppliedFull is returned for a row above MaxApplied. The applier must pull no more messages
// until older messages are applied.
var ErrAppliedFull = errors.New("too many messages are applied after unapplied ones")

func (l *Ledger) appliedPrefix(source string) string { return l.name + "/applied/" + source + "/" }
func (l *Ledger) mergedPrefix(source string) string  { return l.name + "/merged/" + source + "/" }

// Merged reads the merged rows of a table's topic, by label and shard.
func (l *Ledger) Merged(ctx context.Context, source string) ([]Applied, error) {
	rows, err := l.store.Read(ctx, l.mergedPrefix(source))
	if err != nil {
		return nil, err
	}
	records, err := l.merged.decode(source, rows)
	if err != nil {
		return nil, err
	}
	out := make([]Applied, len(records))
	for i, r := range records {
		out[i] = r.Applied
	}
	return out, nil
}

// NoteApplied records in this process's row which messages it has applied. It leaves out messages
// that are already merged.
func (l *Ledger) NoteApplied(ctx context.Context, source string, applied []Applied) error {
	key := l.appliedPrefix(source) + l.worker
	for range tries {
		merged, err := l.Merged(ctx, source) // read before the row, because merged messages stay merged
		if err != nil {
			return err
		}
		row, found, err := readRow(ctx, l.store, key)
		if err != nil {
			return err
		}
		record := appliedRow{Source: source}
		if found {
			if err := decode(row, &record); err != nil {
				return err
			}
		}
		before := record.Tracks
		record.Tracks = outside(union(slices.Concat(record.Tracks, applied)), merged)
		if found && reflect.DeepEqual(before, record.Tracks) || !found && len(record.Tracks) == 0 {
			return nil
		}
		data := l.stamp(&record.header, &record)
		if len(data) > MaxApplied {
			return ErrAppliedFull
		}
		if done, err := l.exchange(ctx, l.store, key, row.Counter, counterOf(data), data); err != nil || done {
			return err
		}
	}
	return ErrConflict
}

// counterOf returns the counter for the compare-and-set of an applier's row. Such rows are often
// deleted and created again, so a plain count would repeat. A late write could then replace a
// record that its writer had never read.
func counterOf(data []byte) uint64 {
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:])>>1 | 1
}

// MergeApplied merges the appliers' rows into the rows of the shards. It removes rows that hold
// only merged messages: the appliers of such rows have ended or are idle.
func (l *Ledger) MergeApplied(ctx context.Context, source string) error {
	noted, err := l.store.Read(ctx, l.appliedPrefix(source))
	if err != nil || len(noted) == 0 {
		return err
	}
	records := make([]appliedRow, len(noted))
	var all []Applied
	for i, row := range noted {
		if err := decode(row, &records[i]); err != nil {
			return err
		}
		all = append(all, records[i].Tracks...)
	}
	for _, track := range union(all) {
		if err := l.mergeTrack(ctx, source, track); err != nil {
			return err
		}
	}
	merged, err := l.Merged(ctx, source)
	if err != nil {
		return err
	}
	for i, row := range noted {
		if len(outside(records[i].Tracks, merged)) == 0 {
			if _, err := l.swap(ctx, l.store, row.Key, row.Counter, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeTrack adds messages to a shard's merged row. A newer generation replaces an older one.
func (l *Ledger) mergeTrack(ctx context.Context, source string, add Applied) error {
	key := l.mergedKey(source, add.Track)
	for range tries {
		row, found, err := readRow(ctx, l.store, key)
		if err != nil {
			return err
		}
		record := mergedRow{Applied: add}
		if found {
			var is mergedRow
			if err := decode(row, &is); err != nil {
				return err
			}
			switch {
			case is.Generation > add.Generation, is.Generation == add.Generation && add.Runs.Within(is.Runs) && add.Stands == (Stand{}):
				return nil
			case is.Generation == add.Generation:
				record.Runs, record.Stands = is.Runs.Union(add.Runs), cmp.Or(add.Stands, is.Stands)
			}
		}
		if done, err := l.swap(ctx, l.store, key, row.Counter, l.stamp(&record.header, &record)); err != nil || done {
			return err
		}
	}
	return ErrConflict
}

// union makes one entry of all entries of a track, in the order of the tracks. It first gathers the
// runs of a track and then sorts them once. If it joined the entries one by one, its work would grow
// with the square of their number, and an applier has an entry for each message.
func union(all []Applied) []Applied {
	runs := map[Track][]Run{}
	for _, a := range all {
		runs[a.Track] = append(runs[a.Track], a.Runs...)
	}
	var out []Applied
	for _, t := range slices.SortedFunc(maps.Keys(runs), Track.compare) {
		out = append(out, Applied{Track: t, Runs: join(runs[t])})
	}
	return out
}

// outside removes merged messages from tracks. It also removes tracks of a generation older than
// their shard's.
func outside(tracks, merged []Applied) []Applied {
	var out []Applied
	for _, t := range tracks {
		for _, m := range merged {
			switch {
			case m.Label != t.Label || m.Shard != t.Shard:
			case m.Generation > t.Generation:
				t.Runs = nil
			case m.Generation == t.Generation:
				t.Runs = t.Runs.Outside(m.Runs)
			}
		}
		if len(t.Runs) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// Behind counts the messages up to the shard's checkpoint that are beyond the unbroken applied
// prefix. It also returns the last number of that prefix with its latest event time. The time is
// zero if no message is known to be applied.
func (s *Shard) Behind(merged []Applied) (messages uint64, at Run) {
	through := Run{To: s.NumberedFrom}
	for _, m := range merged {
		if m.Track == s.track() {
			through.To, through.At = m.Runs.Prefix(s.NumberedFrom)
		}
	}
	if through.To >= s.Applied {
		return 0, through
	}
	return s.Applied - through.To, through
}

// Waiting returns how many published messages of the shard are not known to be applied. It also
// returns an event time that is at or before the event time of the oldest such message. The time is
// zero if none is known.
func (s *Shard) Waiting(merged []Applied) (messages uint64, since time.Time) {
	messages, through := s.Behind(merged)
	if messages == 1 && !s.EventTime.IsZero() {
		return messages, s.EventTime // the only such message is the last change before the checkpoint
	}
	return messages, through.At
}

// Unapplied returns the shards of the table's current stream and generation that have published
// messages not known to be applied. Messages of older generations do not count, because the load
// covers them. Changes that were read in another mode do not count either. Their reader itself
// wrote these changes to the target.
func Unapplied(table TableState, shards []Shard, merged []Applied) []Shard {
	var out []Shard
	for _, s := range shards {
		if n, _ := s.Behind(merged); n > 0 && s.Apply == Topic && s.Label == table.Label && s.Generation == table.Generation {
			out = append(out, s)
		}
	}
	return out
}
