package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"
)

// CutoverLease is the name of the lease that the driver of a cutover holds. It works like a table's
// coordinator lease, and no table can have this name.
func CutoverLease(row string) string {
	if row == "" {
		return "/cutover"
	}
	return "/cutover/" + row
}

// driverLease is the longest lease of a driver. If a driver is killed while the application is
// frozen, the application stays frozen until another driver acquires the lease. Two drivers do no
// harm, so the lease may be short.
const driverLease = 6 * time.Second

// lasting returns how long a row's lease lasts without renewal.
func (l *Ledger) lasting(key string) time.Duration {
	if drives := l.coordinatorKey(CutoverLease("")); key == drives || strings.HasPrefix(key, drives+"/") {
		return min(l.lease, driverLease)
	}
	return l.lease
}

// cutoverKey returns the key of the record of a group. The record of a pipeline that is a single group
// is where versions without groups look for it.
func (l *Ledger) cutoverKey(row string) string {
	if row == "" {
		return l.name + "/cutover"
	}
	return l.name + "/cutover/" + row
}

// Cutovers are the records of the cutovers of all groups.
type Cutovers []Cutover

// Cutovers reads the records of all groups.
func (l *Ledger) Cutovers(ctx context.Context) (Cutovers, error) {
	first := l.cutoverKey("")
	rows, err := l.store.Read(ctx, first)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(row Row) bool { return row.Key != first && !strings.HasPrefix(row.Key, first+"/") })
	// Each worker reads the records several times a second while a cutover needs quick answers.
	all, err := l.cutovers.decode(first+"/", rows)
	for i := range all {
		all[i].Row = strings.TrimPrefix(strings.TrimPrefix(rows[i].Key, first), "/")
	}
	return all, err
}

// Of returns the cutover that counts for a source table: the one that has moved it, else the one
// that is running, else the last one. The argument `pattern` is the pattern to which the table
// belongs; "" for none. The result is the zero value if there was no cutover of the table.
func (all Cutovers) Of(source, pattern string) (of Cutover) {
	for _, c := range all {
		if c.Covers(source, pattern) && (of.Attempt == 0 || c.outranks(of)) {
			of = c
		}
	}
	return of
}

// OfGroup returns the cutover that counts for a group: like Of, for all of its tables and patterns.
func (all Cutovers) OfGroup(row string, tables, patterns []string) (of Cutover) {
	of.Row = row
	for _, c := range all {
		covers := c.Row == row ||
			slices.ContainsFunc(tables, c.Moves) || slices.ContainsFunc(patterns, func(p string) bool { return c.Covers("", p) })
		if covers && c.Attempt > 0 && (of.Attempt == 0 || c.outranks(of)) {
			of = c
		}
	}
	return of
}

// outranks reports whether c counts for a table that both cutovers move.
func (c *Cutover) outranks(other Cutover) bool {
	rank := func(s CutoverStep) int {
		switch {
		case s.Switched():
			return 2
		case s.Active():
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(c.Step), rank(other.Step)), cmp.Compare(c.Attempt, other.Attempt)) > 0
}

// Last returns the highest number of an attempt of any group.
func (all Cutovers) Last() (attempt uint32) {
	for _, c := range all {
		attempt = max(attempt, c.lastAttempt())
	}
	return attempt
}

// Moves reports whether the cutover moves a source table. A record without a group that names no tables
// moves all tables.
func (c *Cutover) Moves(table string) bool {
	return c.Attempt > 0 && (c.Group == "" && len(c.Tables) == 0 || slices.Contains(c.Tables, table))
}

// Covers reports whether the cutover moves a source table, or the pattern to which the table belongs. A
// version without groups moved all patterns.
func (c *Cutover) Covers(source, pattern string) bool {
	return c.Moves(source) || pattern != "" && c.Attempt > 0 && (c.Group == "" || slices.Contains(c.Patterns, pattern))
}

// Clashes reports whether two cutovers move a common source table, or write to a common target table.
func (c *Cutover) Clashes(other CutoverPlan) bool {
	common := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
	}
	return common(c.Tables, other.Tables) || common(c.Targets, other.Targets) || common(c.Patterns, other.Patterns)
}

// Cutover reads the cutover of a group. It is the zero value if there was none.
func (l *Ledger) Cutover(ctx context.Context, row string) (Cutover, error) {
	c, _, _, err := l.cutover(ctx, row)
	return c, err
}

func (l *Ledger) cutover(ctx context.Context, name string) (Cutover, uint64, bool, error) {
	c := Cutover{Row: name}
	row, found, err := readRow(ctx, l.store, l.cutoverKey(name))
	if err != nil || !found {
		return c, 0, false, err
	}
	c, err = l.cutovers.one(row)
	c.Row = name
	return c, row.Counter, err == nil, err
}

// Attempt reads the attempt of c again: the cutover of its group, or the rollback if c is one.
func (l *Ledger) Attempt(ctx context.Context, c Cutover) (Cutover, error) {
	now, err := l.Cutover(ctx, c.Row)
	if err != nil || c.Direction != Back {
		return now, err
	}
	return now.Undo(), nil
}

// UpdateCutover changes the record of the cutover of a group. Like UpdateTable it may call change several
// times, and it writes nothing if change leaves the record as it is.
func (l *Ledger) UpdateCutover(ctx context.Context, row string, change func(*Cutover) error) (Cutover, error) {
	for range tries {
		c, counter, found, err := l.cutover(ctx, row)
		if err != nil {
			return Cutover{}, err
		}
		before := c // changes clone the parts that they change
		if err := change(&c); err != nil {
			return Cutover{}, err
		}
		c.Row = row
		if found && reflect.DeepEqual(before, c) || !found && c.Attempt == 0 {
			return c, nil
		}
		done, err := l.swap(ctx, l.store, l.cutoverKey(row), counter, l.stamp(&c.header, &c))
		if err != nil {
			return Cutover{}, err
		}
		if done {
			return c, nil
		}
	}
	return Cutover{}, ErrConflict
}

// ErrMoved is returned if the cutover has already left the step to which a change belongs.
var ErrMoved = errors.New("the cutover has advanced meanwhile")

// InStep changes the record of the cutover if it is still in the attempt and step of c. If c is a
// rollback, it changes the rollback's part of the record.
func (l *Ledger) InStep(ctx context.Context, c Cutover, change func(*Cutover) error) (Cutover, error) {
	return l.InAttempt(ctx, c, func(now *Cutover) error {
		if now.Step != c.Step {
			return ErrMoved
		}
		return change(now)
	})
}

// InAttempt is like InStep, but the attempt may be in any step.
func (l *Ledger) InAttempt(ctx context.Context, c Cutover, change func(*Cutover) error) (Cutover, error) {
	checked := func(now *Cutover) error {
		if now.Attempt != c.Attempt {
			return ErrMoved
		}
		return change(now)
	}
	if c.Direction != Back {
		return l.UpdateCutover(ctx, c.Row, checked)
	}
	now, err := l.UpdateCutover(ctx, c.Row, func(now *Cutover) error { return now.inRollback(checked) })
	if err != nil {
		return Cutover{}, err
	}
	return now.Undo(), nil
}
