package tablepolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// service is the policy of one table, as weak as its documentation allows. It implements Policies
// and Prober.
type service struct {
	world   *virtual.World
	text    string
	number  int
	changes []served // the last changes, for reads that are old and for enforcement
	changed time.Duration
	settle  time.Duration // longest time until a change is in force
	late    float64       // share of requests that are executed late
	lose    float64       // share of answers that are lost
	fail    float64       // share of reads that fail
	failf   func(format string, args ...any)
}

type served struct {
	until time.Duration
	Policy
}

const (
	playWindow    = 5 * time.Minute
	playExecution = 90 * time.Second
	playRest      = 15 * time.Second
)

var errLost = errors.New("no answer")

func (s *service) policy() Policy {
	if s.text == "" {
		return Policy{}
	}
	return Policy{s.text, fmt.Sprint("r", s.number)}
}

// view returns a policy that a read may show: the present one, or one that was until lately.
func (s *service) view() Policy {
	views := []Policy{s.policy()}
	for _, c := range s.changes {
		if c.until+s.settle > s.world.Elapsed() {
			views = append(views, c.Policy)
		}
	}
	return views[s.world.Rand().IntN(len(views))]
}

func (s *service) change(text string) {
	s.changes = append(s.changes, served{s.world.Elapsed(), s.policy()})
	s.text, s.changed = text, s.world.Elapsed()
	s.number++
}

// foreign returns a policy without the statements of freezes.
func foreign(policy string) string {
	text, _, empty, err := strip(policy, hash, 1000)
	if err != nil || empty {
		return fmt.Sprint(err)
	}
	return text
}

func (s *service) Get(ctx context.Context, _ string) (Policy, error) {
	_ = task.Sleep(ctx, s.world.UpTo(100*time.Millisecond))
	p := s.view()
	_ = task.Sleep(ctx, s.world.UpTo(100*time.Millisecond))
	if s.world.Chance(s.fail) {
		return Policy{}, errLost
	}
	return p, context.Cause(ctx)
}

func (s *service) Put(ctx context.Context, _, text, revision string, signed time.Time) Answer {
	return s.send(ctx, text, revision, signed)
}

func (s *service) Delete(ctx context.Context, _, revision string, signed time.Time) Answer {
	return s.send(ctx, "", revision, signed)
}

func (s *service) send(ctx context.Context, text, revision string, signed time.Time) Answer {
	var answer Answer
	event := task.NewEvent(ctx)
	s.world.After(s.world.UpTo(100*time.Millisecond), func() {
		if s.world.Now().Sub(signed) > playWindow {
			answer.Outcome = Expired
			event.Set()
			return
		}
		after := s.world.UpTo(50 * time.Millisecond)
		if s.world.Chance(s.late) {
			after = s.world.UpTo(playExecution)
		}
		s.world.After(after, func() {
			answer.Outcome = s.execute(text, revision)
			event.Set()
		})
	})
	if s.world.Chance(s.lose) {
		_ = task.Sleep(ctx, 2*time.Second)
		return Answer{}
	}
	_ = event.Wait(ctx)
	return answer
}

func (s *service) execute(text, revision string) Outcome {
	switch {
	case s.policy().Revision != revision:
		return Changed
	case s.world.Elapsed()-s.changed < playRest:
		return Resting
	case foreign(text) != foreign(s.text):
		s.failf("an edit of another program is lost: %s became %s", s.text, text)
	}
	s.change(text)
	return Done
}

func (s *service) Probe(ctx context.Context) Seen {
	_ = task.Sleep(ctx, s.world.UpTo(100*time.Millisecond))
	seen := LetThrough
	if strings.Contains(s.view().Text, sidPrefix) {
		seen = Denied
	}
	if s.world.Chance(0.01) {
		seen = Unseen
	}
	return seen
}

// edit is a change by another program. It may be blind to the statement of the freeze.
func (s *service) edit(text string, blind bool) {
	if blind {
		s.change(text)
		return
	}
	kept := text
	for n := uint32(1); n < 9; n++ {
		st, _ := denyWrites(hash, n, ordersARN, []string{copyRole})
		if has, _ := hasSid(s.text, st.Sid); has {
			kept, _ = addTo(kept, st)
		}
	}
	s.change(kept)
}

// play is one freeze: processes that may drive, and what the ledger has.
type play struct {
	world    *virtual.World
	service  *service
	record   Record
	version  int
	ends     bool // the attempt is cancelled, or its end has come
	frozen   bool
	switched bool
	want     bool // the application is to be switched
	holder   string
	drivers  []*virtual.Process
	cancels  []context.CancelFunc
	trouble  []string
}

func (p *play) failf(format string, args ...any) {
	p.trouble = append(p.trouble, fmt.Sprintf(format, args...))
}

// end ends the freeze. Calls of Freeze that run are cancelled.
func (p *play) end() {
	p.ends = true
	for _, cancel := range p.cancels {
		cancel()
	}
}

// hire starts a process that takes the lease and drives.
func (p *play) hire() {
	name := fmt.Sprintf("driver%d", len(p.drivers)+1)
	m := p.world.NewProcess(name)
	p.drivers = append(p.drivers, m)
	p.holder = name
	task.NewGroup(m.Context(), 0).Go("drive", func(ctx context.Context) error {
		for ctx.Err() == nil && p.holder == name && !p.record.Over {
			if err := p.drive(ctx, name); err != nil {
				p.world.Tracef("%s: %v", name, err)
			}
			_ = task.Sleep(ctx, time.Second)
		}
		return nil
	})
}

type putProber struct{ *service }

func (s putProber) Put(ctx context.Context) Seen      { return s.Probe(ctx) }
func (s putProber) Transact(ctx context.Context) Seen { return s.Probe(ctx) }

func (p *play) drive(ctx context.Context, name string) error {
	version := p.version
	save := func(change func()) error {
		if version != p.version {
			return errors.New("another process has changed the record")
		}
		p.version++
		version = p.version
		change()
		return nil
	}
	f := &Freezer{
		Table: ordersARN, Hash: hash, Exempt: []string{copyRole}, Policies: p.service, Prober: putProber{p.service}, Record: p.record,
		Proof: func(ctx context.Context) (time.Time, error) {
			at := p.world.Now()
			_ = task.Sleep(ctx, p.world.UpTo(50*time.Millisecond))
			if p.holder != name {
				return time.Time{}, errors.New("the lease is lost")
			}
			return at, context.Cause(ctx)
		},
		Save: func(_ context.Context, r Record) error {
			err := save(func() { p.record = r })
			if p.world.Chance(0.05) {
				p.hire() // this process sleeps, and another one takes over
				_ = task.Sleep(ctx, p.world.UpTo(15*time.Minute))
			}
			return err
		},
		Timings: Timings{Wait: playWindow + playExecution},
	}
	if p.ends {
		if _, err := f.Unfreeze(ctx); err != nil {
			return err
		}
		for ctx.Err() == nil {
			if over, err := f.Over(ctx); over || err != nil {
				return err
			}
			_ = task.Sleep(ctx, 5*time.Second)
		}
		return nil
	}
	freezing, cancel := context.WithCancel(ctx)
	p.cancels = append(p.cancels, cancel)
	if _, err := f.Freeze(freezing); err != nil {
		return err
	}
	if err := save(func() { p.frozen = true }); err != nil {
		return err
	}
	for !p.ends && p.holder == name && !p.switched {
		switch seen := f.Watch(ctx); {
		case seen == LetThrough:
			p.world.Inject("broken")
			p.end()
		case seen == Denied && p.want:
			_ = save(func() {
				p.switched = true
				lately := p.service.world.Elapsed() - p.service.changed
				if lately > p.service.settle+time.Second && !strings.Contains(p.service.text, sidPrefix) {
					p.failf("switched while the table was open")
				}
			})
		}
		_ = task.Sleep(ctx, time.Second)
	}
	return ctx.Err()
}

func (p *play) history() error {
	return p.world.Run(24*time.Hour, func(ctx context.Context) {
		rng := p.world.Rand()
		sleep := func(d time.Duration) { _ = task.Sleep(ctx, d) }
		if rng.IntN(2) == 0 {
			p.service.edit(list(allow), true)
		}
		for attempt := range uint32(2) {
			next, err := Begin(p.record, hash, attempt+1, false)
			if err != nil {
				p.failf("%v", err)
				return
			}
			p.version++
			p.record, p.ends, p.frozen, p.switched, p.want = next, false, false, false, rng.IntN(2) == 0
			p.hire()
			for range rng.IntN(12) {
				switch rng.IntN(6) {
				case 0:
					p.service.edit(list(fmt.Sprintf(`{"Sid":"edit%d"}`, p.world.Steps())), rng.IntN(2) == 0)
				case 1:
					p.drivers[len(p.drivers)-1].Kill()
					p.hire()
				case 2:
					p.drivers[len(p.drivers)-1].Pause(p.world.UpTo(10 * time.Minute))
					p.hire()
				case 3:
					p.drivers[len(p.drivers)-1].Pause(p.world.UpTo(time.Minute))
				}
				sleep(p.world.UpTo(40 * time.Second))
			}
			p.end()
			p.hire()
			if rng.IntN(2) == 0 {
				sleep(p.world.UpTo(5 * time.Minute)) // the next attempt begins before this one is over
			}
			for limit := p.world.Elapsed() + 2*time.Hour; !p.record.Ends || attempt == 1 && !p.record.Over; sleep(time.Second) {
				if p.world.Elapsed() > limit {
					p.failf("attempt %d is not over: %+v", attempt+1, p.record)
					return
				}
			}
			if p.frozen {
				p.world.Inject("frozen")
			}
			if p.switched {
				p.world.Inject("switched")
			}
		}
		sleep(time.Hour)
		if strings.Contains(p.service.text, sidPrefix) {
			p.failf("frozen for ever: %s", p.service.text)
		}
	})
}

// Freezes end as they must, through kills, sleeps, takeovers, late requests, lost answers, old
// reads and edits of other programs.
func TestH144_RandomHistories(t *testing.T) {
	happened := map[string]int{}
	for seed := range uint64(300) {
		w := virtual.NewWorld(seed, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), false)
		w.StepLimit = 5_000_000
		p := &play{world: w}
		p.service = &service{world: w, settle: 20 * time.Second, late: 0.4, lose: 0.3, fail: 0.02, failf: p.failf, changed: -time.Minute}
		if err := p.history(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(p.trouble) > 0 {
			t.Errorf("seed %d: %.300q", seed, p.trouble)
		}
		for what, n := range w.Injected() {
			happened[what] += n
		}
	}
	for _, what := range []string{"frozen", "switched", "broken"} {
		if happened[what] == 0 {
			t.Errorf("%s in no history: %v", what, happened)
		}
	}
}
