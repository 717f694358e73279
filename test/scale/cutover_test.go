package scale

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

var histories = flag.Int("histories", 0, "cutovers of each size in TestFreezeInVirtualTime; 0: a few small ones")

// cutoverSize is a size of cutovers, and their settings.
type cutoverSize struct {
	tables, shards int // shards in all
	plan           checkpoint.CutoverPlan
	histories      int
}

// cutoverPlay is one history: a cutover with the driver, the ledger and the registers of the product, on
// models of the services. The readers of the shards are a model too (virtualStream).
type cutoverPlay struct {
	delays
	cutoverSize
	world   *virtual.World
	tables  []string
	targets []string
	streams map[string]*virtualStream

	keys     []string
	rows     map[string]checkpoint.Row
	families map[string][]string

	idle                time.Time // until when nothing happens that the driver or a worker would act on
	asked, frozen       time.Time // since when a try is awaited, and since when the application is frozen
	freezes             []virtualFreeze
	late                bool // no moment within a day
	record, rewrites    int  // bytes of the largest record of the cutover, and its writes
	canaries            int
	listings, listedNow int
	listed              time.Time
	reasons             []string
	err                 error
}

// virtualFreeze is one try.
type virtualFreeze struct {
	lasted   time.Duration
	switched bool
	waited   time.Duration // until the freeze, since the request or the try before
}

const (
	virtualWorkers = 4
	longestWait    = 24 * time.Hour
)

// playCutover plays one history.
func playCutover(size cutoverSize, seed uint64) *cutoverPlay {
	begin := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	p := &cutoverPlay{delays: delays{rand.New(rand.NewPCG(seed, 7))}, cutoverSize: size, world: virtual.NewWorld(seed, begin, false),
		streams: map[string]*virtualStream{}, rows: map[string]checkpoint.Row{}, families: map[string][]string{}}
	if err := p.world.Run(4*longestWait, func(ctx context.Context) { p.err = p.play(ctx, fmt.Sprint("ledger", seed)) }); err != nil {
		p.err = err
	}
	return p
}

func (p *cutoverPlay) play(ctx context.Context, id string) error {
	ledger, err := p.open(ctx, "driver", id)
	if err != nil {
		return err
	}
	for i := range p.cutoverSize.tables {
		if err := p.create(ctx, ledger, i); err != nil {
			return err
		}
	}
	for i := range virtualWorkers {
		if err := p.work(ctx, fmt.Sprint("worker", i), id); err != nil {
			return err
		}
	}
	if err := task.Sleep(ctx, 10*time.Second); err != nil {
		return err
	}
	plan := p.plan
	plan.Tables, plan.Targets, plan.Approved, plan.WhenReady, plan.WatchFor, plan.Tries = p.tables, p.targets, true, true, 24*time.Hour, 3
	p.asked = p.world.Now()
	if _, err := ledger.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error { return c.Start(plan, p.asked) }); err != nil {
		return err
	}
	return p.drive(ctx, ledger)
}

// drive runs the driver around each time at which a moment for a short freeze can come. Between these
// times, the driver would only look.
func (p *cutoverPlay) drive(ctx context.Context, ledger *checkpoint.Ledger) error {
	driver := &cutover.Driver{Ledger: ledger, Fence: fence.Fence{Ledger: ledger, Families: p}, Hooks: p, Source: p,
		Open: func(arn string) cdc.Source { return openStream{p, p.streams[strings.TrimPrefix(arn, "arn/")]} }, Verifier: p,
		Parked:   func(ctx context.Context, _ string) ([]string, error) { return nil, task.Sleep(ctx, p.ledgerRead()) },
		Settings: cutover.Settings{Ready: readiness.Limits{LagBelow: 5 * time.Second, VerifyWithin: 10 * longestWait, HeadroomAbove: 12 * time.Hour}},
		Failed:   func(step string, err error) { p.reasons = append(p.reasons, step+": "+err.Error()) },
	}
	for {
		moment, found := p.moment()
		if !found {
			p.late = true
			return nil
		}
		p.idle = moment.Add(-time.Minute)
		if err := p.rest(ctx); err != nil {
			return err
		}
		if err := driver.Run(ctx, func(c checkpoint.Cutover) bool {
			waits := c.Step == checkpoint.CutoverRequested || c.Step == checkpoint.CutoverChecks
			return c.Step.Over() || c.Step.Switched() || waits && p.world.Now().After(moment.Add(time.Minute))
		}); err != nil {
			return err
		}
		c, err := ledger.Cutover(ctx, "")
		if err != nil {
			return err
		}
		if c.Step.Over() || c.Step.Switched() {
			for _, try := range c.GivenUp {
				p.reasons = append(p.reasons, try.Reason)
			}
			return nil
		}
	}
}

// Reverse is for rollbacks, of which there are none here.
func (p *cutoverPlay) Reverse(context.Context, string) (checkpoint.ReverseResult, error) {
	return checkpoint.ReverseResult{}, context.Canceled
}

// moment returns the next time at which the driver may find a moment.
func (p *cutoverPlay) moment() (at time.Time, found bool) {
	now := p.world.Now()
	pause := p.plan.ListedWithin() + 2*time.Second - (p.plan.AtMost() - 3*time.Second) // as the driver foresees it
	var ends []time.Time
	for _, source := range p.tables {
		ends = append(ends, p.streams[source].endsAfter(p.asked.Add(longestWait))...)
	}
	slices.SortFunc(ends, time.Time.Compare)
	for at = now; at.Before(p.asked.Add(longestWait)); {
		i, _ := slices.BinarySearchFunc(ends, at, time.Time.Compare)
		if i == 0 || at.Sub(ends[i-1]) >= pause {
			return at, true
		}
		at = ends[i-1].Add(pause)
	}
	return at, false
}

func (p *cutoverPlay) open(ctx context.Context, worker, id string) (*checkpoint.Ledger, error) {
	l, err := checkpoint.Open(ctx, p, "p", checkpoint.Options{Worker: worker, ID: id})
	if err == nil {
		l.Heard(ctx, p.world.Now())
	}
	return l, err
}

// create makes a table that is loaded and compared, and whose changes are rechecked.
func (p *cutoverPlay) create(ctx context.Context, ledger *checkpoint.Ledger, i int) error {
	source, target, now := fmt.Sprintf("T%03d", i), fmt.Sprintf("t%03d", i), p.world.Now()
	n := p.shards / p.cutoverSize.tables
	if i < p.shards%p.cutoverSize.tables {
		n++
	}
	p.tables, p.targets = append(p.tables, source), append(p.targets, target)
	p.streams[source] = newStream(p.delays, source, n, p.plan.ListedWithin(), now)
	p.families[target] = []string{"d", "_cdc", "_cdc_gone", sink.FenceFamily(ledger.ID(), 7)}
	_, err := ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
		s.StreamARN, s.Label = "arn/"+source, "l"
		s.Generation, s.Adopted, s.Base, s.Listed = 5, 5, 5, 5
		s.Load = checkpoint.Load{Generation: 5, DoneAt: now.Add(-48 * time.Hour)}
		s.Verify.Number, s.Recheck = 2, checkpoint.Recheck{Verify: 2, Until: now.Add(10 * longestWait)}
		s.Verify.Full = checkpoint.VerifyResult{Number: 2, Way: "quiet", VerifyCounts: checkpoint.VerifyCounts{Items: 1_000_000}, BegunAt: now.Add(-time.Hour), EndedAt: now.Add(-time.Minute), Generation: 5}
		s.Verify.Result = s.Verify.Full
		return nil
	})
	if err == nil {
		_, err = ledger.UpdateTarget(ctx, target, func(t *checkpoint.Target) error { t.Fence = 7; return nil })
	}
	return err
}

// rest waits while nothing happens. A day in which all tasks look at the ledger takes too long.
func (p *cutoverPlay) rest(ctx context.Context) error {
	return task.Sleep(ctx, max(p.idle.Sub(p.world.Now()), 0))
}

// work is the part of a worker that proves its right to write and says goodbye.
func (p *cutoverPlay) work(ctx context.Context, name, id string) error {
	ledger, err := p.open(ctx, name, id)
	if err != nil {
		return err
	}
	register := fence.NewRegister(ledger)
	p.world.Go("heed "+name, func(ctx context.Context) {
		for ; ctx.Err() == nil; _ = p.rest(ctx) {
			limited, cancel := task.WithTimeout(ctx, time.Minute)
			register.Heed(limited, 2*time.Second, 250*time.Millisecond)
			cancel()
		}
	})
	p.world.Go("prove "+name, func(ctx context.Context) {
		for ; ctx.Err() == nil; _ = task.Sleep(ctx, 10*time.Second) {
			if p.rest(ctx) != nil {
				return
			}
			if _, err := register.Prove(ctx, p.targets, func(context.Context) error { return nil }); err != nil && !errors.Is(err, checkpoint.ErrHalted) {
				p.reasons = append(p.reasons, err.Error())
			}
		}
	})
	return nil
}

// TestFreezeInVirtualTime: a cutover of many tables and shards freezes the application for seconds. A
// try that cannot succeed is given up within the same time. Measure it with more histories:
//
//	go test ./test/scale -run FreezeInVirtualTime -v -timeout 0 -args -histories 100
func TestFreezeInVirtualTime(t *testing.T) {
	thirty, listed := checkpoint.CutoverPlan{FreezeAtMost: 30 * time.Second}, checkpoint.CutoverPlan{ListingBound: time.Minute}
	sizes := []cutoverSize{{tables: 1, shards: 4, histories: 4}, {tables: 10, shards: 64, histories: 2}, {tables: 50, shards: 200, plan: listed, histories: 1}}
	if *histories > 0 {
		sizes = []cutoverSize{{tables: 1, shards: 4}, {tables: 10, shards: 64}, {tables: 100, shards: 1000, plan: thirty}, {tables: 100, shards: 1000, plan: listed}, {tables: 100, shards: 1000}}
	}
	for _, size := range sizes {
		began := time.Now()
		found := make([]*cutoverPlay, cmp.Or(*histories, size.histories))
		var all sync.WaitGroup
		slots := make(chan struct{}, 2)
		for i := range found {
			slots <- struct{}{}
			all.Go(func() {
				found[i] = playCutover(size, uint64(i+1))
				<-slots
			})
		}
		all.Wait()
		r := resultOf(found)
		var text strings.Builder
		r.write(&text, size)
		t.Logf("%s(%s)", text.String(), time.Since(began).Round(time.Second/10))
		if *report != "" {
			appendTo(t, *report, text.String())
		}
		for i, p := range found {
			if p.err != nil {
				t.Errorf("seed %d: %v", i+1, p.err)
			}
		}
		if most := size.plan.AtMost(); len(r.switched) == 0 && !r.late() || quantile(r.switched, 0.99) > most || quantile(r.givenUp, 1) > most+time.Second {
			t.Errorf("%d tables, %d shards: the freeze lasts longer than freeze_at_most", size.tables, size.shards)
		}
	}
}

func appendTo(t *testing.T, name, text string) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = io.WriteString(file, text)
	}
	if err != nil {
		t.Error(err)
	}
}

// cutoverResult joins histories.
type cutoverResult struct {
	histories, unmet  int
	switched, givenUp []time.Duration // how long each try froze the application
	waited            []time.Duration
	record, rewrites  int
	canaries          int
	reasons           map[string]int
}

func resultOf(found []*cutoverPlay) cutoverResult {
	r := cutoverResult{histories: len(found), reasons: map[string]int{}}
	for _, p := range found {
		if p.late {
			r.unmet++
		}
		for _, f := range p.freezes {
			if r.waited = append(r.waited, f.waited); f.switched {
				r.switched = append(r.switched, f.lasted)
			} else {
				r.givenUp = append(r.givenUp, f.lasted)
			}
		}
		for _, reason := range p.reasons {
			first, _, _ := strings.Cut(reason, "\n")
			r.reasons[first]++
		}
		r.record, r.rewrites, r.canaries = max(r.record, p.record), max(r.rewrites, p.rewrites), max(r.canaries, p.canaries)
	}
	for _, list := range [][]time.Duration{r.switched, r.givenUp, r.waited} {
		slices.Sort(list)
	}
	return r
}

func (r *cutoverResult) late() bool { return r.unmet == r.histories }

// quantile returns a quantile of sorted times; 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (r *cutoverResult) write(w io.Writer, size cutoverSize) {
	tries := len(r.switched) + len(r.givenUp)
	s := func(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
	_, _ = fmt.Fprintf(w, "%d tables, %d shards in all, freeze_at_most %s, listing_bound %s: %d requests, %d tries\n", size.tables, size.shards, size.plan.AtMost(), size.plan.ListedWithin(), r.histories, tries)
	_, _ = fmt.Fprintf(w, "  frozen to switch: p50 %s s, p99 %s s, at most %s s; given up %d, frozen p50 %s s, at most %s s\n",
		s(quantile(r.switched, 0.5)), s(quantile(r.switched, 0.99)), s(quantile(r.switched, 1)), len(r.givenUp), s(quantile(r.givenUp, 0.5)), s(quantile(r.givenUp, 1)))
	var sum time.Duration
	for _, d := range r.waited {
		sum += d
	}
	_, _ = fmt.Fprintf(w, "  wait until a freeze: mean %s, p50 %s, at most %s; without a moment within a day: %d; record at most %d kB, %d writes; %d canaries\n",
		(sum / time.Duration(max(len(r.waited), 1))).Round(time.Second), quantile(r.waited, 0.5).Round(time.Second), quantile(r.waited, 1).Round(time.Second), r.unmet, r.record/1000, r.rewrites, r.canaries)
	for reason, n := range r.reasons {
		_, _ = fmt.Fprintf(w, "  %d x %s\n", n, reason)
	}
}
