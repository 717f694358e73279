package sim

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
)

// offer is a possible source of one load: a full export, a full export with later windows, or only
// windows.
type offer struct {
	folders []string
	fit     bool // it is complete and of this table
	used    bool // it was requested or refused
}

// order is a request for several exports: a full export of the first edge, windows between edges,
// or both.
type order struct {
	of      exportstest.Table
	full    bool
	edges   []time.Time
	view    exports.View
	spoiled bool // windows leave a second out, overlap by one, or one of them is missing
	quick   bool
}

// request starts exports, which complete after minutes or most of a day.
func (x *exporting) request(r order) {
	takes := x.span(3*time.Minute, 20*time.Hour)
	if r.quick || x.peaceful {
		takes = 3*time.Minute + x.World.UpTo(10*time.Minute)
	}
	x.under++
	x.World.Inject("export asked for")
	x.World.Tracef("exports of %s are asked for, and take %s", r.edges, takes)
	x.World.After(takes, func() {
		x.under--
		x.ready = append(x.ready, x.make(r))
	})
}

// make writes the exports of an order.
func (x *exporting) make(r order) *offer {
	o := &offer{fit: r.of == x.service.table && !r.spoiled}
	if r.full {
		o.folders = append(o.folders, x.service.full(r.of, r.edges[0], len(r.edges) > 1))
	}
	last := len(r.edges) - 1
	wrong, how := 1, x.rng.IntN(3)
	if !r.full {
		wrong = 2 // changes before the first window do not affect the chain
	}
	if last > wrong {
		wrong += x.rng.IntN(last - wrong + 1)
	}
	for i := 1; i <= last; i++ {
		from := r.edges[i-1]
		if r.spoiled && i == wrong {
			switch {
			case how == 0:
				from = from.Add(time.Second)
			case how == 1:
				from = from.Add(-time.Second)
				if r.full && i == 1 { // the first window may begin before the full export
					o.fit = r.of == x.service.table
				}
			case i < last:
				continue // missing
			default:
				from = from.Add(time.Second)
			}
		}
		o.folders = append(o.folders, x.service.window(r.of, from, r.edges[i], r.view))
	}
	return o
}

// order requests exports of the present, of some earlier time (which may be unusable), or of an
// earlier table of this name.
func (x *exporting) order(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState, chance float64) error {
	now := x.World.Now()
	r := order{of: x.service.table, full: true, view: exports.ViewNewAndOld, quick: x.rng.IntN(2) == 0}
	if chance < 0.06 && !x.peaceful {
		r.of.ID = "the table before"
	}
	useful := x.peaceful || x.rng.IntN(2) == 0
	at := now.Truncate([]time.Duration{time.Second, time.Millisecond}[x.rng.IntN(2)])
	if !useful && x.rng.IntN(3) == 0 {
		at = later(x.service.begun, at.Add(-time.Duration(x.rng.Float64()*float64(36*time.Hour))))
	}
	if useful { // if it is
		shards, err := ledger.Shards(ctx, x.Source.Name)
		if err == nil {
			err = checkpoint.AdmissibleExport(state, shards, at, now, 0)
		}
		if err != nil {
			return err
		}
	}
	r.edges = []time.Time{at}
	if x.rng.IntN(3) > 0 && !x.Mapping.Outlives() {
		x.windows(&r, state, at)
	}
	x.request(r)
	return nil
}

// windows turns the order into one that ends with windows, after an earlier full export, or alone
// from the start of a gap.
func (x *exporting) windows(r *order, state checkpoint.TableState, end time.Time) {
	end = end.Truncate(time.Second)
	from := later(x.service.begun, end.Add(-time.Duration(x.rng.Float64()*x.rng.Float64()*float64(30*time.Hour))))
	if checkpoint.Mendable(state) == nil {
		r.full = false
		from = state.WindowsBy().Add(-time.Duration(x.rng.IntN(2) * x.rng.IntN(3600) * int(time.Second)))
		if !x.peaceful && x.rng.IntN(8) == 0 {
			// Too late, although perhaps no change is lost yet.
			from = from.Add(time.Duration(1+x.rng.IntN(3600)) * time.Second)
		}
	}
	from = from.Truncate(time.Second)
	const shortest = 15 * time.Minute // the shortest window of the service
	if from.Before(x.service.begun) || end.Sub(from) < shortest {
		r.full = true
		return
	}
	r.edges = []time.Time{from}
	for n := x.rng.IntN(4); n > 0; n-- {
		last := r.edges[len(r.edges)-1]
		next := last.Add(shortest + time.Duration(x.rng.Float64()*float64(end.Sub(last)))).Truncate(time.Second)
		if end.Sub(next) < shortest {
			break
		}
		r.edges = append(r.edges, next)
	}
	r.edges = append(r.edges, end)
	if x.rng.IntN(4) == 0 && x.Mapping.DependsOnKeyOnly() || !x.peaceful && x.rng.IntN(12) == 0 {
		r.view = exports.ViewNew
	}
	least := 3
	if r.full {
		least = 2
	}
	r.spoiled = !x.peaceful && len(r.edges) >= least && x.rng.IntN(3) == 0
}
