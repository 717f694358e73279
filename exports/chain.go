package exports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Wanted holds the requirements on a chain of exports.
type Wanted struct {
	// TableARN and TableID identify the source table. A value of "" is not compared. A table that
	// was created again or restored has another ID.
	TableARN, TableID string
	// KeysAlone reports that an item's rows and cells follow from its key, so windows without old
	// images are sufficient.
	KeysAlone bool
	// Windows reports that the chain repairs a gap: it consists of windows, without a full export.
	Windows bool
}

// Step is one export of a chain. Its time is the version of its images and removals, so later steps
// outrank earlier steps.
type Step struct {
	*Export
	Version time.Time
}

// Chain orders exports so that they form one load: a full export and the windows after it, or only
// windows. Windows must follow one another without a gap and without an overlap. An overlap would
// hide an item that was inserted in one window and deleted in the next. The first window may begin
// before the time of the full export. The overlap may hide an item's deletion. The full export then
// still contains the item, and such items are read again (checkpoint.Load.Doubted). The error is
// *Error. Chain does not change the given slice.
func Chain(exports []*Export, want Wanted) ([]Step, error) {
	ordered := slices.Clone(exports)
	slices.SortStableFunc(ordered, func(a, b *Export) int {
		return cmp.Or(order(a.Incremental, b.Incremental), a.From.Compare(b.From), cmp.Compare(a.ARN, b.ARN))
	})
	var steps []Step
	files := map[string]string{}
	for i, e := range ordered {
		if err := e.fits(want); err != nil {
			return nil, err
		}
		if i > 0 {
			if err := follows(ordered[i-1], e); err != nil {
				return nil, err
			}
		}
		for _, f := range e.Files {
			// The service gives data files unique names. The folder of a data file is not compared,
			// because a file may have been copied into two folders.
			name := f.Name[strings.LastIndexByte(f.Name, '/')+1:]
			if other, twice := files[name]; twice && other != e.ARN {
				return nil, &Error{Place: f.Name, What: "two exports list this file", Fix: again}
			}
			files[name] = e.ARN
		}
		steps = append(steps, Step{e, e.At})
	}
	switch {
	case len(steps) == 0:
		return nil, &Error{Place: "exports", What: "no export is given", Fix: "name at least one"}
	case !want.Windows && steps[0].Incremental:
		return nil, steps[0].fault("no full export comes before it, and a window holds only items written within it",
			"name the full export of "+stamp(steps[0].From)+" too")
	case want.Windows && !steps[0].Incremental:
		return nil, steps[0].fault("windows repair a gap, but this is a full export", "name only incremental exports, or load the full one")
	}
	return steps, nil
}

// order puts full exports first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (e *Export) fault(what, fix string) error { return &Error{Place: e.Kind(), What: what, Fix: fix} }

// fits rejects an export of another table, and an export that lacks required images.
func (e *Export) fits(want Wanted) error {
	switch {
	case want.TableARN != "" && e.TableARN != want.TableARN:
		return e.fault("it belongs to table "+e.TableARN, "name an export of "+want.TableARN)
	case want.TableID != "" && e.TableID != want.TableID:
		return e.fault("it belongs to another table of the same name: its id is "+e.TableID+", but the table's is "+want.TableID,
			"the table was created again since then: request a new export")
	case e.Incremental && e.View == ViewNew && !want.KeysAlone:
		return e.fault("it has no old images, but this mapping needs them to remove former rows",
			"request it again with the view "+string(ViewNewAndOld))
	}
	return nil
}

// follows rejects an export that does not begin where the previous one ends.
func follows(before, e *Export) error {
	switch {
	case before.ARN == e.ARN:
		return e.fault("it is named twice", "name each export once")
	case before.TableARN != e.TableARN || before.TableID != e.TableID:
		return e.fault("it belongs to another table than "+before.Kind(), "name exports of one table only")
	case !e.Incremental:
		return e.fault("it is a second full export", "name one full export, and the windows after it")
	case !before.Incremental && !e.At.After(before.At):
		return e.fault("it ends before "+before.Kind()+" begins, which already contains it", "remove it")
	case e.From.After(before.At):
		return e.fault(fmt.Sprintf("changes between %s and %s are in no export", stamp(before.At), stamp(e.From)),
			before.fill(e))
	case before.Incremental && e.From.Before(before.At):
		return e.fault("it overlaps "+before.Kind()+": no export shows items that were inserted and deleted within the overlap",
			"instead, "+Request(before.At, latest(e.At, before.At.Add(leastWindow))))
	}
	return nil
}

// fill says how to get the changes that are missing between two exports. Only a window directly
// after the full export may overlap it.
func (e *Export) fill(next *Export) string {
	if e.Incremental && next.From.Sub(e.At) < leastWindow {
		return "instead, " + Request(e.At, next.At)
	}
	return Request(e.At, next.From) + ", and name it too"
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
