package sink_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// tableFunc implements sink.Table with a function.
type tableFunc func(ctx context.Context, r *sink.Request) (bool, error)

func (f tableFunc) Apply(ctx context.Context, r *sink.Request) (bool, error) { return f(ctx, r) }

// Requests in flight are bounded by number and bytes, over all callers. A request larger than the
// bound is sent alone.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	one := sink.Guard(fold("0-10").Rows[0])
	for name, c := range map[string]struct {
		inFlight int
		bytes    int64
		want     int
	}{"by number": {5, 1 << 30, 5}, "by bytes": {1000, 7*one.Size() + 1, 7}, "larger than the bound": {1000, 10, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var now, most int
				var bytes, mostBytes int64
				count := func(n int, size int64) {
					mu.Lock()
					defer mu.Unlock()
					now, bytes = now+n, bytes+size
					most, mostBytes = max(most, now), max(mostBytes, bytes)
				}
				inner := memory()
				w := sink.NewWriter(sink.Options{InFlight: c.inFlight, Bytes: c.bytes, Parking: newLot(), Table: tableFunc(func(ctx context.Context, r *sink.Request) (bool, error) {
					count(1, r.Size())
					defer count(-1, -r.Size())
					if err := task.Sleep(ctx, time.Second); err != nil {
						return false, unknown()
					}
					return inner.Apply(ctx, r)
				})})
				g := task.NewGroup(context.Background(), 0)
				for caller := range 3 {
					g.Go("caller", func(ctx context.Context) error {
						var keys []string
						for i := range 20 {
							keys = append(keys, fmt.Sprint(caller, "-", 10+i))
						}
						b := fold(keys...)
						return w.Write(ctx, sink.Unfenced(), &b)
					})
				}
				if err := g.Wait(); err != nil {
					t.Fatal(err)
				}
				if most != c.want || c.want > 1 && mostBytes > c.bytes {
					t.Errorf("%d requests, %d bytes at once", most, mostBytes)
				}
				if rows := readAll(t, inner, "t"); len(rows) != 60 {
					t.Errorf("%d rows", len(rows))
				}
			})
		})
	}
}

// S3, H02: Write waits for the slowest row of all, however late it is.
func TestH02_WriteWaitsForTheSlowestRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory()
		w := sink.NewWriter(sink.Options{Parking: newLot(), Table: tableFunc(func(ctx context.Context, r *sink.Request) (bool, error) {
			if r.Row == "b" {
				_ = task.Sleep(ctx, 15*time.Second)
			}
			return inner.Apply(ctx, r)
		})})
		start, b := time.Now(), fold("a", "b", "c")
		if err := w.Write(context.Background(), sink.Unfenced(), &b); err != nil || time.Since(start) != 15*time.Second || len(readAll(t, inner, "t")) != 3 {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// If the context ends, as when a lease is lost, Write returns the cause and claims nothing.
func TestH03_LostLeaseEndsTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("lease lost")
		ctx, cancel := context.WithCancelCause(context.Background())
		inner := memory()
		w := sink.NewWriter(sink.Options{InFlight: 2, Parking: newLot(), Table: tableFunc(func(ctx context.Context, r *sink.Request) (bool, error) {
			if r.Row == "c" {
				_ = task.Sleep(ctx, time.Millisecond) // the rows before it are written in the same instant
				cancel(lost)
			}
			if err := task.Sleep(ctx, time.Second); err != nil {
				return false, unknown()
			}
			return inner.Apply(ctx, r)
		})})
		b := fold("a", "b", "c", "d", "e", "f")
		if err := w.Write(ctx, sink.Unfenced(), &b); !errors.Is(err, lost) {
			t.Error(err)
		}
		if len(b.Rows) != 4 || b.Rows[0].Row != "c" {
			t.Errorf("%d rows are open", len(b.Rows))
		}
		// Parked records are stored even if the batch has no rows.
		parked := fold("bad")
		parked.Rows = nil
		if err := sink.NewWriter(sink.Options{Table: inner, Parking: &lot{fail: unknown()}}).Write(ctx, sink.Unfenced(), &parked); !errors.Is(err, lost) {
			t.Error(err)
		}
	})
}

// If a lease is lost while its write waits for bytes, the write returns those that it has acquired.
// Otherwise each lost lease would leave the writer fewer requests.
func TestWaitThatIsGivenUpHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, inner := sink.Guard(fold("a").Rows[0]), memory()
		w := sink.NewWriter(sink.Options{InFlight: 2, Bytes: 2 * one.Size(), Parking: newLot(), Table: tableFunc(func(ctx context.Context, r *sink.Request) (bool, error) {
			if err := task.Sleep(ctx, 2*time.Second); err != nil {
				return false, unknown()
			}
			return inner.Apply(ctx, r)
		})})
		write := func(ctx context.Context, keys ...string) error {
			b := fold(keys...)
			return w.Write(ctx, sink.Unfenced(), &b)
		}
		g := task.NewGroup(context.Background(), 0)
		g.Go("takes all bytes", func(ctx context.Context) error { return write(ctx, strings.Repeat("large", 200)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := write(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the write that waits: %v", err)
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		start := time.Now()
		if err := write(context.Background(), "a", "b"); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("two rows: %v after %s", err, time.Since(start))
		}
	})
}

// A request that hangs ends by its own timeout and can be retried.
func TestHangingRequestTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sink.NewWriter(sink.Options{Parking: newLot(), Timeout: 7 * time.Second, Table: tableFunc(func(ctx context.Context, _ *sink.Request) (bool, error) {
			return false, task.NewEvent(ctx).Wait(ctx) // a bare error of the context, not an *Error
		})})
		start := time.Now()
		b := fold("a")
		if err := w.Write(context.Background(), sink.Unfenced(), &b); !sink.Is(err, sink.Unknown) || time.Since(start) != 7*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// A put that keeps older cells acquires room for the row that it reads, and returns all of it.
func TestKeptPutsGiveTheirRoomBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &sinktest.Memory{}
		table.Create("t", "k")
		w := sink.NewWriter(sink.Options{Table: table, Rows: table, Parking: newLot(), Bytes: 20_000})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range 100 {
			b := transform.Batch{Source: "Orders", Rows: []transform.RowMutation{kept(version(uint64(i+1)), int64(i), fmt.Sprint("a=", i))}}
			if err := w.Write(ctx, sink.Unfenced(), &b); err != nil {
				t.Fatalf("put %d: %v", i, err)
			}
		}
	})
}

// silentLot never answers.
type silentLot struct{ sink.ParkingLot }

func (silentLot) Park(ctx context.Context, _ transform.Parked) error {
	return task.NewEvent(ctx).Wait(ctx)
}

// A call to the parking lot times out as well, because nothing else bounds it.
func TestHangingParkingTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sink.NewWriter(sink.Options{Parking: silentLot{}, Timeout: 7 * time.Second, Table: memory()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		b := fold("bad")
		if err := w.Write(ctx, sink.Unfenced(), &b); err == nil || len(b.Parked) != 1 || time.Since(start) != 7*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// network simulates the network between a writer and its table. Requests are slow, fail before or
// after they were executed, or are executed long after they failed, even if their sender has ended.
type network struct {
	world *virtual.World
	inner sink.Table
}

func (n *network) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	random := n.world.Rand()
	delay, late := time.Duration(random.IntN(50))*time.Millisecond, time.Duration(random.IntN(60_000))*time.Millisecond
	if err := task.Sleep(ctx, delay); err != nil {
		return false, unknown()
	}
	switch random.IntN(10) {
	case 0: // lost before it arrives
		return false, unknown()
	case 1: // executed, but the answer is lost
		_, _ = n.inner.Apply(ctx, r)
		return false, unknown()
	case 2: // executed later
		request := *r
		n.world.Go("late", func(ctx context.Context) {
			_ = task.Sleep(ctx, late)
			_, _ = n.inner.Apply(ctx, &request)
		})
		return false, unknown()
	default:
		return n.inner.Apply(ctx, r)
	}
}

// history returns a stream of a few hot items that are written, moved between tenants, deleted and
// recreated, and the remaining items.
func history(w *virtual.World, m *transform.Mapping, n int) (changes []cdc.Change, want map[string]string) {
	random := w.Rand()
	items := map[string]attribute.Item{}
	for i := range n {
		key := fmt.Sprint("k", random.IntN(4))
		keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}})
		c := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(90 + i)), Time: time.Unix(firstSecond, 0), Keys: keys, Old: items[key]}
		if random.IntN(4) > 0 {
			c.New = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "v", Value: attribute.String(fmt.Sprint(i))},
				{Name: "tenant", Value: attribute.String(fmt.Sprint("t", random.IntN(3)))}, {Name: fmt.Sprint("x", random.IntN(2)), Value: attribute.Null()}})
		}
		switch {
		case !c.Old.Exists() && !c.New.Exists():
			continue
		case !c.Old.Exists():
			c.Event = cdc.Insert
		case !c.New.Exists():
			c.Event = cdc.Remove
		}
		items[key] = c.New
		changes = append(changes, c)
	}
	want = map[string]string{}
	for _, item := range items {
		if !item.Exists() {
			continue
		}
		row, _ := m.Row(item)
		cells, _ := m.Cells(item, 0)
		want[row] = cellText(cells)
	}
	return changes, want
}

func cellText(cells []transform.Cell) string {
	var b strings.Builder
	for _, c := range cells {
		fmt.Fprintf(&b, "%s=%s ", c.Qualifier, c.Value)
	}
	return b.String()
}

// H01, H03, H04, H06, H26, H29, H72: a worker is paused or killed while it holds pages, and another
// one continues from an older checkpoint. Requests are lost, repeated and executed late. In the end
// the target equals the source, and no row's version ever fell.
func TestH01_H03_H04_H26_H72_TwoWritersAndABadNetwork(t *testing.T) {
	tenantFirst, err := transform.NewMapping("Orders", "t", "d", orders.PrimaryKey, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(150) {
		mapping := []*transform.Mapping{orders, tenantFirst}[seed%2]
		w := virtual.NewWorld(seed, time.Unix(firstSecond, 0), false)
		table := memory()
		table.ServerTime = func(context.Context) time.Time { // it sometimes steps back (H77)
			return w.Now().Add(-time.Duration(w.Rand().IntN(120)) * time.Second)
		}
		changes, want := history(w, mapping, 60)
		err := w.Run(time.Hour, func(ctx context.Context) {
			done := task.NewEvent(ctx)
			position := 0
			worker := func(p *virtual.Process, last bool) {
				rows := sink.NewWriter(sink.Options{Table: rising(t, &network{w, table}, table), Parking: newLot(), InFlight: 4})
				for from := position; from < len(changes); {
					to := min(len(changes), from+1+w.Rand().IntN(15))
					b := transform.Fold(mapping, changes[from:to], transform.Stamp{Generation: 1, Hop: 500_000})
					for rows.Write(p.Context(), sink.Unfenced(), &b) != nil {
						if task.Sleep(p.Context(), 100*time.Millisecond) != nil {
							return
						}
					}
					from = to
					position = max(position, from)
				}
				if last {
					done.Set()
				}
			}
			first := w.NewProcess("first")
			first.Go("worker", func() { worker(first, false) })
			_ = task.Sleep(ctx, time.Duration(w.Rand().IntN(2000))*time.Millisecond)
			if w.Rand().IntN(2) == 0 {
				first.Pause(30 * time.Second)
			} else {
				first.Kill()
			}
			position = max(0, position-w.Rand().IntN(20)) // a checkpoint may be behind
			second := w.NewProcess("second")
			second.Go("worker", func() { worker(second, true) })
			_ = done.Wait(ctx)
			// The paused worker resumes, and the last late request is executed.
			_ = task.Sleep(ctx, 10*time.Minute)
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := map[string]string{}
		for _, r := range readAll(t, table, "t") {
			if r.Version != "" {
				got[r.Key] = cellText(r.Cells)
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d:\ntarget %v\nsource %v", seed, got, want)
		}
	}
}

// rising checks I2 around every request: a row's version never falls.
func rising(t *testing.T, through sink.Table, table *sinktest.Memory) sink.Table {
	held := func(row string) (v transform.Version) {
		_ = table.ReadRows(context.Background(), "t", sink.Single(row), func(r sink.Row) error { v = r.Held(); return nil })
		return v
	}
	return tableFunc(func(ctx context.Context, r *sink.Request) (bool, error) {
		before := held(r.Row)
		applied, err := through.Apply(ctx, r)
		if after := held(r.Row); after < before || applied && after < r.Refuse.AtLeast {
			t.Errorf("the version of a row fell from %s to %s", before, after)
		}
		return applied, err
	})
}
