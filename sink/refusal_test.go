package sink_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// full returns the answer for a row beyond Bigtable's size limit, in one of the codes that the
// service may choose.
func full(code string) error {
	reason := sink.Permanent
	if code != "FailedPrecondition" {
		reason = sink.Rejected
	}
	return &sink.Error{Op: "CheckAndMutateRow", Reason: reason, Code: code, Text: "the row is larger than Bigtable allows"}
}

// H38: a row that is refused permanently, for its state or for its content, is parked, and delays
// no other. If the target refuses even its remove, it stays unchanged, and its record says so.
func TestH38_ARowThatIsRefusedForEverIsParked(t *testing.T) {
	for _, code := range []string{"FailedPrecondition", "OutOfRange", "ResourceExhausted", "InvalidArgument"} {
		for _, c := range []struct {
			removes bool // are refused too
			rows    string
			reason  string
		}{{false, "a -full z", "Bigtable rejects the row: "}, {true, "a full z", "Bigtable rejects the write, and the row is unchanged: "}} {
			table, parking := &scripted{Memory: memory()}, newLot()
			before := fold("full")
			w := sink.NewWriter(sink.Options{Table: table, Parking: parking})
			if err := w.Write(t.Context(), sink.Unfenced(), &before); err != nil {
				t.Fatal(err)
			}
			table.answer = func(_ context.Context, _ int, r *sink.Request, execute func() (bool, error)) (bool, error) {
				if r.Row == "full" && (c.removes || r.Ops[len(r.Ops)-1].Family == sink.LiveFamily) {
					return false, full(code)
				}
				return execute()
			}
			b := transform.Fold(orders, page("a", "full", "z"), transform.Stamp{Generation: 6, Hop: 500_000})
			err := w.Write(t.Context(), sink.Unfenced(), &b)
			parked := parking.list(t)
			if err != nil || len(b.Rows)+len(b.Parked) != 0 || rowsOf(t, table.Memory) != c.rows || len(parked) != 1 {
				t.Errorf("%s, removes refused %v: %v, rows %q, %d parked", code, c.removes, err, rowsOf(t, table.Memory), len(parked))
				continue
			}
			if p := parked[0]; !strings.HasPrefix(p.Reason, c.reason) || p.Version.Generation() != 6 || !p.Change.New.Exists() {
				t.Errorf("%s: %+v", code, p)
			}
			if len(table.log) > 8 {
				t.Errorf("%s: %d requests", code, len(table.log))
			}
		}
	}
}

// A removed item whose row accepts no request is parked as well: otherwise no process would know
// that the row still holds it.
func TestH38_ARemoveThatIsRefusedForEverIsParked(t *testing.T) {
	table, parking := &scripted{Memory: memory()}, newLot()
	table.answer = func(_ context.Context, _ int, r *sink.Request, execute func() (bool, error)) (bool, error) {
		if r.Row == "a" {
			return false, full("FailedPrecondition")
		}
		return execute()
	}
	removal := func() *transform.Batch {
		b := transform.Fold(orders, []cdc.Change{{Event: cdc.Remove, Sequence: cdc.SequenceOf(9), Time: time.Unix(firstSecond, 0), Keys: page("a")[0].Keys}}, transform.Stamp{Generation: 5})
		return &b
	}
	if err := sink.NewWriter(sink.Options{Table: table, Parking: parking}).Write(t.Context(), sink.Unfenced(), removal()); err != nil {
		t.Error(err)
	}
	if parked := parking.list(t); len(parked) != 1 || parked[0].Change.Event != cdc.Remove {
		t.Errorf("%+v", parked)
	}
	var bad *sink.BadItem
	if err := sink.NewWriter(sink.Options{Table: table, Parking: newLot(), OnBadItem: sink.Stop}).Write(t.Context(), sink.Unfenced(), removal()); !errors.As(err, &bad) {
		t.Error(err)
	}
}

// H50: if a table or one of its families gives the same answers, nothing is parked, whatever else
// works. Once an operator has fixed it, everything is stored.
func TestH50_WhatATableRefusesIsNotParked(t *testing.T) {
	for _, code := range []string{"FailedPrecondition", "OutOfRange", "InvalidArgument"} {
		table, parking := &scripted{Memory: memory()}, newLot()
		table.answer = func(_ context.Context, _ int, r *sink.Request, execute func() (bool, error)) (bool, error) {
			for _, op := range r.Ops {
				if op.Family == "d" {
					return false, full(code)
				}
			}
			return execute()
		}
		b := fold("a", "b", "c")
		w := sink.NewWriter(sink.Options{Table: table, Parking: parking})
		for range 2 {
			if err := w.Write(t.Context(), sink.Unfenced(), &b); !sink.Is(err, sink.Permanent) || len(b.Rows) != 3 || len(b.Parked)+len(parking.list(t)) != 0 {
				t.Errorf("%s: %v, %d rows open, %d to park", code, err, len(b.Rows), len(b.Parked))
			}
		}
		table.answer = nil
		if err := w.Write(t.Context(), sink.Unfenced(), &b); err != nil || rowsOf(t, table.Memory) != "a b c" || len(parking.list(t)) != 0 {
			t.Errorf("%s, mended: %v, rows %q, %d parked", code, err, rowsOf(t, table.Memory), len(parking.list(t)))
		}
	}
}

// A target table that does not answer occupies only a share of the requests in flight, by number
// and bytes. Rows of other tables are written meanwhile.
func TestASlowTargetTableDoesNotHoldUpOthers(t *testing.T) {
	for name, o := range map[string]sink.Options{"by number": {InFlight: 32}, "by bytes": {Bytes: 32 * 400}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := memory()
				inner.Create("slow", "d")
				stuck := false
				o.Parking, o.Table = newLot(), tableFunc(func(ctx context.Context, r *sink.Request) (bool, error) {
					if r.Table == "slow" && stuck {
						_ = task.Sleep(ctx, time.Hour) // longer than the timeout of a request
						return false, unknown()
					}
					return inner.Apply(ctx, r)
				})
				w := sink.NewWriter(o)
				into := func(table string) error {
					b := fold("x")
					b.Rows[0].Table = table
					return w.Write(t.Context(), sink.Unfenced(), &b)
				}
				if err := errors.Join(into("slow"), into("t")); err != nil {
					t.Fatal(err)
				}
				stuck = true
				g := task.NewGroup(t.Context(), 0)
				for range 64 {
					g.Go("slow", func(context.Context) error { _ = into("slow"); return nil })
				}
				synctest.Wait()
				began := time.Now()
				for range 50 {
					if err := into("t"); err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("%s: the rows of the other table waited for %s", name, took)
				}
				_ = g.Wait()
			})
		})
	}
}

// H81, H64: the age of an image is measured by the source's clock. If the worker's clock is weeks
// ahead, no young image is parked; if it is weeks behind, no old one is put. The time that a batch
// waits counts.
func TestH81_AgeIsJudgedByTheSourcesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		for name, c := range map[string]struct {
			ahead, age, waits time.Duration
			parked            bool
		}{
			"the worker is ahead":              {30 * day, day, 0, false},
			"the worker is behind":             {-30 * day, 13 * day, 0, true},
			"old by the time it is written":    {0, 11 * day, 2 * day, true},
			"young when it is written at last": {-30 * day, 9 * day, 2 * day, false},
		} {
			table, parking := memory(), newLot()
			w := sink.NewWriter(sink.Options{Table: table, Parking: parking, MaxImageAge: 12 * day})
			b := fold("a")
			b.Read = transform.Reading{At: time.Now().Add(-c.ahead), Mono: task.Mono(t.Context())}
			b.Rows[0].At = b.Read.At.Add(-c.age)
			err := errors.Join(task.Sleep(t.Context(), c.waits), w.Write(t.Context(), sink.Unfenced(), &b))
			if parked := len(parking.list(t)) == 1; err != nil || parked != c.parked {
				t.Errorf("%s: parked %v, %v", name, parked, err)
			}
		}
	})
}
