package scale

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var (
	shards  = flag.Int("shards", 60, "open shards, over all tables")
	tables  = flag.Int("tables", 3, "tables")
	workers = flag.Int("workers", 6, "workers")
	lasts   = flag.Duration("lasts", 10*time.Minute, "how long it is played, in virtual time; every worker is restarted once in it")
	lease   = flag.Duration("lease", 15*time.Second, "state.lease")
	poll    = flag.Duration("poll", 15*time.Second, "source.poll")
	kills   = flag.Duration("kills", 3*time.Minute, "time between two kills")
	restart = flag.Bool("restart", true, "restart the workers one after the other")
	report  = flag.String("report", "", "file that the report is added to")
)

// fleet is the set of live workers.
type fleet struct {
	*world
	t         *testing.T
	mappings  []engine.Spec
	all       sync.WaitGroup
	started   int
	witnesses map[string]checkpoint.Store
}

type member struct {
	*session
	stop context.CancelFunc
	over chan struct{}
}

func (f *fleet) start() *member {
	f.started++
	m := &member{session: &session{world: f.world, name: fmt.Sprintf("w%04d", f.started)}, over: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	f.all.Go(func() {
		defer close(m.over)
		ledger, err := checkpoint.Open(ctx, m.session, "scale", checkpoint.Options{Worker: m.name, ID: "l", Lease: *lease})
		if err == nil {
			err = pipeline.Run(ctx, engine.Options{
				Ledger: ledger, Floors: &engine.Floors{}, Database: database{session: m.session}, Tables: f.mappings,
				Writer: sink.NewWriter(sink.Options{Table: nothing{}}), Open: func(table string) cdc.Source { return source{m.session, table} },
				Witness: func(table string) checkpoint.Store { return f.witnesses[table] },
				Timing:  engine.Timing{Poll: *poll, Soon: min(*poll, time.Second)},
			})
		}
		if err != nil && m.alive() == nil {
			f.t.Errorf("%s: %v", m.name, err)
		}
	})
	return m
}

// balance returns the number of unleased shards, and the most and fewest shards of a worker.
func (f *fleet) balance(live []*member) (free, most, least int) {
	f.ledger.mu.RLock()
	defer f.ledger.mu.RUnlock()
	held := map[string]int{}
	for _, owner := range f.ledger.owners {
		held[owner]++
	}
	least = *shards
	sum := 0
	for _, m := range live {
		most, least, sum = max(most, held[m.name]), min(least, held[m.name]), sum+held[m.name]
	}
	return *shards - sum, most, least
}

// TestFleet: workers are restarted one after the other, and sometimes killed. The fleet reads every
// shard again within two leases and a few passes. Two workers never read one shard for long, and
// DescribeStream calls stay within DynamoDB's limit.
func TestFleet(t *testing.T) {
	synctest.Test(t, play)
}

func play(t *testing.T) {
	// The bubble's monotonic clock begins in the past.
	time.Sleep(time.Until(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)))
	store := &ledger{rows: map[string]checkpoint.Row{}, owners: map[string]string{}, last: map[string]string{}, free: map[string]time.Time{}}
	f := &fleet{t: t, world: &world{ledger: store, began: time.Now(), shards: *shards / *tables, lists: map[int64]int{}}, witnesses: map[string]checkpoint.Store{}}
	for i := range *tables {
		m, err := transform.NewMapping(fmt.Sprint("T", i), fmt.Sprint("t", i), "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
		if err != nil {
			t.Fatal(err)
		}
		f.witnesses[fmt.Sprint("t", i)] = &checkpointtest.Memory{}
		f.mappings = append(f.mappings, engine.Spec{Mapping: m})
	}
	var live []*member
	for range *workers {
		live = append(live, f.start())
	}
	random := rand.New(rand.NewPCG(1, 1))
	var settled, balanced time.Duration
	even, looks := 0, 0
	replaced := *lasts / time.Duration(*workers+1)
	killed := *kills
	restarts, deaths, movesAtFirst := 0, 0, 0
	for now := time.Duration(0); now < *lasts; now += time.Second {
		time.Sleep(time.Second)
		free, most, least := f.balance(live)
		if settled == 0 && free == 0 {
			settled = now
		}
		if balanced == 0 && free == 0 && most-least <= 1 {
			balanced, movesAtFirst = now, store.moves
		}
		if looks++; most-least <= max(1, *shards / *workers / 10) {
			even++
		}
		if *restart && restarts < *workers && now >= replaced*time.Duration(restarts+1) {
			live[0].stop()
			<-live[0].over
			live = append(live[1:], f.start())
			restarts++
		}
		if now >= killed {
			victim := random.IntN(len(live))
			live[victim].kill()
			store.died(live[victim].name)
			live[victim].stop()
			live[victim] = f.start()
			deaths, killed = deaths+1, killed+*kills
		}
	}
	busiest, lists := 0, 0
	for _, n := range f.lists {
		busiest, lists = max(busiest, n), lists+n
	}
	free, most, least := f.balance(live)
	for _, m := range live {
		m.stop()
	}
	f.all.Wait()
	var text strings.Builder
	write(&text, f, []line{
		{"time until every shard has been read", settled}, {"time until all workers hold equally many shards (±1)", balanced}, {"restarts, kills", fmt.Sprintf("%d, %d", restarts, deaths)},
		{"share of time in which workers differ by at most 10 % of shards", fmt.Sprintf("%.0f %%", 100*float64(even)/float64(looks))},
		{"at the end: unleased shards; most and fewest shards of a worker", fmt.Sprintf("%d, %d, %d", free, most, least)},
		{"shards that moved between workers", store.moves}, {"of these, before shards were evenly spread", movesAtFirst},
		{"longest time a shard had no reader", store.longest.Round(time.Second)},
		{"polls per second", per(f.reads)}, {"share of polls by a worker that has lost the shard", fmt.Sprintf("%.4f %%", 100*float64(f.double)/float64(max(f.reads, 1)))},
		{"DescribeStream per second, on average and at most", fmt.Sprintf("%s, %d", per(lists), busiest)},
		{"ledger rows per second, read and written", per(store.read) + ", " + per(store.writes)},
	})
	t.Log("\n" + text.String())
	if *report != "" {
		file, err := os.OpenFile(*report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = io.WriteString(file, text.String())
		}
		if err != nil {
			t.Error(err)
		}
	}
	if settled == 0 || balanced == 0 || store.longest > 3**lease || f.double > f.reads/50 || lists > 10*int(lasts.Seconds()) {
		t.Error("the fleet is not what its documentation says")
	}
}

type line struct {
	what  string
	value any
}

func per(n int) string { return fmt.Sprintf("%.1f", float64(n)/lasts.Seconds()) }

func write(w io.Writer, f *fleet, lines []line) {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	_, _ = fmt.Fprintf(w, "%d shards of %d tables, %d workers, %s; state.lease %s, source.poll %s; %.0f s of CPU\n", *shards, *tables, *workers, *lasts, *lease, *poll,
		time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds())
	for _, l := range lines {
		_, _ = fmt.Fprintf(w, "  %-66s %v\n", l.what, l.value)
	}
}
