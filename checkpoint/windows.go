package checkpoint

import "time"

// windowMargin is how much earlier than the least time of a loss the first window begins: times of
// a stream's records are rounded, and those of a window's writes are not.
const windowMargin = 6 * time.Second

// incremental reports whether the load copies windows, alone or behind a full export.
func (l Load) incremental() bool { return !l.Export.From.IsZero() || len(l.Windows) > 0 }

// MendsGap reports whether the load consists of windows alone, which only add to what an earlier load
// has brought.
func (l Load) MendsGap() bool { return !l.Export.From.IsZero() }

// Doubted is the time of the load's full export if windows follow it; zero otherwise. Until it is
// known that the cut of a full export is the beginning of a window, an item that still shows it may
// have been changed between the two, and is read again.
func (l Load) Doubted() time.Time {
	if len(l.Windows) > 0 && l.Export.From.IsZero() {
		return l.Export.At
	}
	return time.Time{}
}

// begins is the earliest time of which the load's windows, or the full export before them, hold an
// image; zero if it has none.
func (l Load) begins() time.Time {
	switch {
	case !l.incremental():
		return time.Time{}
	case l.Export.From.IsZero():
		return l.Export.At
	}
	return l.Export.From
}

// WindowsBy is the latest time at which the first window may begin that mends the table's gap; zero
// if it is not known.
func (s TableState) WindowsBy() time.Time {
	if s.LostFrom.IsZero() {
		return time.Time{}
	}
	return s.LostFrom.Add(-windowMargin).Truncate(time.Second)
}

// Mendable tells whether windows alone, without a copy, mend what the table has lost: it was loaded
// once, and since then nothing but changes of the stream was lost, of which it is known since when
// (H107). Every other loss takes a copy.
func Mendable(table TableState) error {
	never := func(why string) error { return &NotAdmissible{"windows alone cannot repair this: " + why, false} }
	switch {
	case !table.NeedsLoad:
		return never("nothing was lost")
	case table.Base == 0:
		return never("the table was never loaded as a whole, and windows hold only items written within them")
	case table.Kind != KindStream:
		return never("the loss includes more than changes of the stream (" + string(table.Kind) + ")")
	case table.LostFrom.IsZero():
		return never("the start of the loss is unknown")
	}
	return nil
}

// MendsFrom tells whether windows of which the first begins at from mend the table's gap (H36, H107).
func MendsFrom(table TableState, from time.Time) error {
	if err := Mendable(table); err != nil {
		return err
	}
	if by := table.WindowsBy(); from.After(by) {
		return &NotAdmissible{"the first window begins at " + stampOf(from) + ", but changes may be lost since " + stampOf(by), false}
	}
	return nil
}

// stillMends asks MendsFrom again for a load of windows alone: since it began, what another shard
// lost may have been noted, which began earlier.
func (s *TableState) stillMends() error {
	if s.Load.Export.From.IsZero() {
		return nil
	}
	return MendsFrom(*s, s.Load.Export.From)
}

// Unbroken reports whether backups of the source hold every write since from: they were begun at
// earliest, or what is older was removed, and have not been interrupted since (H90). Zero: they are
// off.
func Unbroken(earliest, from time.Time) error {
	switch {
	case earliest.IsZero():
		return &NotAdmissible{"point-in-time recovery of the table is off, so nothing shows that it was on during the loss", false}
	case earliest.After(from):
		return &NotAdmissible{"point-in-time recovery of the table holds nothing from before " + stampOf(earliest) + ": it was off then, or its data is too old", false}
	}
	return nil
}

func stampOf(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Aged is the time from which the age of a load's images counts: their own or, if that is later, the
// adoption of their generation. Only removes of that generation refuse them, and all of those were
// written since.
func Aged(at, adopted time.Time) time.Time {
	if adopted.After(at) {
		return adopted
	}
	return at
}
