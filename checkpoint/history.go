package checkpoint

import (
	"context"
	"slices"
	"time"
)

// HistoryFor is how long the ledger keeps the hours of a table.
const HistoryFor = 7 * 24 * time.Hour

// HourPart summarizes what one coordinator of a table saw during one hour.
type HourPart struct {
	Until    time.Time `json:"until"`                      // when the summary ends
	Lag      *float64  `json:"lag_seconds,omitempty"`      // the highest lag; nil if no lag was known
	Headroom *float64  `json:"headroom_seconds,omitempty"` // the least headroom; nil if no headroom was known
	Changes  uint64    `json:"changes,omitempty"`          // changes that were applied meanwhile
	Parked   int       `json:"parked,omitempty"`           // parked items at the end
	State    string    `json:"state"`                      // state of the table at the end
}

// Hour is one hour of a table. If the coordinator changed meanwhile, it combines the summaries of
// all coordinators.
type Hour struct {
	From time.Time // when the hour began, in UTC
	HourPart
}

// hourRow is the record of an hour. Each coordinator replaces only its own part, so a repeated write
// counts no change twice.
type hourRow struct {
	header
	Parts map[string]HourPart `json:"parts"` // by process
}

// hourFormat is the form of an hour at the end of its row's key. Keys are in the order of hours.
const hourFormat = "2006010215"

func (l *Ledger) historyPrefix(source string) string { return l.name + "/history/" + source + "/" }

// NoteHour records what this process saw as the coordinator of a table during the hour that began at
// the given time. A later call for the same hour replaces the summary. NoteHour also removes hours
// that are older than HistoryFor.
func (l *Ledger) NoteHour(ctx context.Context, source string, from time.Time, part HourPart) error {
	key := l.historyPrefix(source) + from.UTC().Format(hourFormat)
	for range tries {
		rows, err := l.store.Read(ctx, l.historyPrefix(source))
		if err != nil {
			return err
		}
		record, counter := hourRow{}, uint64(0)
		for _, row := range rows {
			if row.Key == key {
				if counter, err = row.Counter, decode(row, &record); err != nil {
					return err
				}
			} else if at, ok := l.hourOf(source, row); ok && from.Sub(at) > HistoryFor {
				// A refusal means that another process removed it.
				if _, err := l.swap(ctx, l.store, row.Key, row.Counter, nil); err != nil {
					return err
				}
			}
		}
		if record.Parts == nil {
			record.Parts = map[string]HourPart{}
		}
		record.Parts[l.worker] = part
		if done, err := l.swap(ctx, l.store, key, counter, l.stamp(&record.header, &record)); err != nil || done {
			return err
		}
	}
	return ErrConflict
}

// hourOf returns the hour of a row; false for a row of another kind.
func (l *Ledger) hourOf(source string, row Row) (time.Time, bool) {
	at, err := time.Parse(hourFormat, row.Key[len(l.historyPrefix(source)):])
	return at, err == nil
}

// History returns the recorded hours of a table that began at or after the given time, by time. Hours
// during which no process coordinated the table are missing.
func (l *Ledger) History(ctx context.Context, source string, since time.Time) ([]Hour, error) {
	rows, err := l.store.Read(ctx, l.historyPrefix(source))
	if err != nil {
		return nil, err
	}
	var hours []Hour
	for _, row := range rows {
		at, ok := l.hourOf(source, row)
		if !ok || at.Before(since) {
			continue
		}
		var record hourRow
		if err := decode(row, &record); err != nil {
			return nil, err
		}
		hours = append(hours, Hour{at, combined(record.Parts)})
	}
	slices.SortFunc(hours, func(a, b Hour) int { return a.From.Compare(b.From) })
	return hours, nil
}

// combined combines the summaries of an hour: the highest lag, the least headroom, and all changes.
// State and parked items are those of the summary that ends last.
func combined(parts map[string]HourPart) (all HourPart) {
	for _, p := range parts {
		if p.Lag != nil && (all.Lag == nil || *p.Lag > *all.Lag) {
			all.Lag = p.Lag
		}
		if p.Headroom != nil && (all.Headroom == nil || *p.Headroom < *all.Headroom) {
			all.Headroom = p.Headroom
		}
		all.Changes += p.Changes
		if p.Until.After(all.Until) {
			all.Until, all.State, all.Parked = p.Until, p.State, p.Parked
		}
	}
	return all
}
