package checkpoint

import "time"

// windowMargin is the least time by which the first window must begin before the earliest loss.
// Times of stream records are rounded, but times of a window's writes are not.
const windowMargin = 6 * time.Second

// incremental reports whether the load copies windows, with or without a full export before them.
func (l Load) incremental() bool { return !l.Export.From.IsZero() || len(l.Windows) > 0 }

// MendsGap reports whether the load consists only of windows, which add to the rows of an earlier
// load.
func (l Load) MendsGap() bool { return !l.Export.From.IsZero() }

// Doubted returns the time of the load's full export if windows follow it; zero otherwise. It is
// not certain that the first window begins exactly at the time of the export. So an item may have
// changed in between while its row still comes from the full export. Such an item is read again.
func (l Load) Doubted() time.Time {
	if len(l.Windows) > 0 && l.Export.From.IsZero() {
		return l.Export.At
	}
	return time.Time{}
}

// begins returns the earliest time of an image in the load's windows or in the full export before
// them; zero if it has no windows.
func (l Load) begins() time.Time {
	switch {
	case !l.incremental():
		return time.Time{}
	case l.Export.From.IsZero():
		return l.Export.At
	}
	return l.Export.From
}

// WindowsBy returns the latest time at which the first window may begin if windows are to repair
// the table's gap; zero if unknown.
func (s TableState) WindowsBy() time.Time {
	if s.LostFrom.IsZero() {
		return time.Time{}
	}
	return s.LostFrom.Add(-windowMargin).Truncate(time.Second)
}

// Mendable returns nil if windows can repair the table's losses without a copy. The table must have
// been loaded once. Since then it must have lost only changes of the stream, and the start of the
// loss must be known (H107). Every other loss needs a copy.
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

// MendsFrom returns nil if windows can repair the table's gap. The first window begins at the time
// from (H36, H107).
func MendsFrom(table TableState, from time.Time) error {
	if err := Mendable(table); err != nil {
		return err
	}
	if by := table.WindowsBy(); from.After(by) {
		return &NotAdmissible{"the first window begins at " + stampOf(from) + ", but changes may be lost since " + stampOf(by), false}
	}
	return nil
}

// stillMends checks MendsFrom again for a load of only windows, because an earlier loss of another
// shard may have been recorded since the load began.
func (s *TableState) stillMends() error {
	if s.Load.Export.From.IsZero() {
		return nil
	}
	return MendsFrom(*s, s.Load.Export.From)
}

// Unbroken returns nil if point-in-time recovery of the source holds every write since the time
// `from`. The argument `earliest` is the oldest time that point-in-time recovery can restore.
// Recovery began at that time, or older data was removed, and it was not interrupted since (H90). A
// zero earliest means that point-in-time recovery is off.
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

// Aged returns the time from which the age of a load's images counts. It is the time of the images
// or the adoption of their generation, if that is later. Only tombstones of that generation can
// refuse the images, and all these tombstones were written after the adoption.
func Aged(at, adopted time.Time) time.Time {
	if adopted.After(at) {
		return adopted
	}
	return at
}
