package tablepolicy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// scene is a service without faults, and a process that freezes. A test scripts what it answers.
type scene struct {
	*service
	*Freezer
	ctx     context.Context
	saved   []Record
	answers []Answer // the next answers to changes, which are then not executed
	sent    []time.Time
	probes  []Seen // what the next probes see
	fails   []string
	lost    error // the error of the lease
}

func (s *scene) Get(ctx context.Context, table string) (Policy, error) {
	if len(s.fails) > 0 && s.fails[0] == "read" {
		s.fails = s.fails[1:]
		return Policy{}, errLost
	}
	return s.service.Get(ctx, table)
}

func (s *scene) Put(ctx context.Context, table, text, revision string, signed time.Time) Answer {
	if s.sent = append(s.sent, signed); len(s.answers) > 0 {
		a := s.answers[0]
		s.answers = s.answers[1:]
		return a
	}
	return s.service.Put(ctx, table, text, revision, signed)
}

// probes implements Prober. The write of a transaction is let through until open has passed.
type probes struct {
	*scene
	open time.Duration
}

func (p probes) Put(ctx context.Context) Seen {
	if len(p.probes) > 0 {
		seen := p.probes[0]
		p.scene.probes = p.probes[1:]
		return seen
	}
	return p.Probe(ctx)
}

func (p probes) Transact(ctx context.Context) Seen {
	if p.world.Elapsed() < p.open {
		return LetThrough
	}
	return p.Probe(ctx)
}

func (s *scene) Probe(ctx context.Context) Seen {
	_ = task.Sleep(ctx, 10*time.Millisecond)
	if strings.Contains(s.text, sidPrefix) {
		return Denied
	}
	return LetThrough
}

// act runs a script with a scene.
func act(t *testing.T, script func(s *scene)) {
	t.Helper()
	w := virtual.NewWorld(1, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), false)
	err := w.Run(24*time.Hour, func(ctx context.Context) {
		s := &scene{ctx: ctx, service: &service{world: w, failf: t.Errorf, changed: -time.Hour}}
		record, err := Begin(Record{}, hash, 1, false)
		if err != nil {
			t.Error(err)
		}
		s.Freezer = &Freezer{
			Table: ordersARN, Hash: hash, Exempt: []string{copyRole}, Probe: probeRole, Policies: s, Prober: probes{scene: s}, Record: record,
			Proof:   func(context.Context) (time.Time, error) { return w.Now().Add(-time.Second), s.lost },
			Save:    func(_ context.Context, r Record) error { s.saved = append(s.saved, r); return nil },
			Timings: Timings{Wait: 8 * time.Minute},
		}
		script(s)
	})
	if err != nil {
		t.Error(err)
	}
}

// A freeze is saved before it is sent, signed with the time that is saved, and proved for a minute.
func TestH144_AFreezeAndItsEnd(t *testing.T) {
	act(t, func(s *scene) {
		s.edit(list(allow), true)
		s.service.changed = -time.Hour
		before := s.policy()
		began := s.world.Elapsed()
		delay, err := s.Freeze(s.ctx)
		if err != nil || delay <= 0 || delay > 5*time.Second {
			t.Errorf("%v, %v", delay, err)
		}
		if took := s.world.Elapsed() - began; took < time.Minute || took > 70*time.Second {
			t.Errorf("the freeze took %v", took)
		}
		first, last := s.saved[0], s.saved[len(s.saved)-1]
		if len(s.saved) != 2 || !first.Open || !first.Signed.IsZero() || last.Text != before.Text || last.Revision != before.Revision {
			t.Errorf("saved: %+v", s.saved)
		}
		if len(s.sent) != 1 || !s.sent[0].Equal(last.Signed) || s.world.Now().Sub(last.Signed) < time.Minute {
			t.Errorf("sent %v, saved %v", s.sent, last.Signed)
		}
		if has, _ := hasSid(s.text, last.Sid); !has || s.Watch(s.ctx) != Denied {
			t.Errorf("the policy is %s", s.text)
		}
		s.service.edit(list(noSid), true)
		if s.Watch(s.ctx) != LetThrough {
			t.Error("the probe does not see that the statement is gone")
		}
		s.sleep(time.Minute)
		s.service.edit(list(noSid), false)
		if over, err := s.Over(s.ctx); over || err != nil {
			t.Errorf("over before W: %v", err)
		}
		if _, err := s.Freeze(s.ctx); !errors.Is(err, errEnds) {
			t.Errorf("a freeze that has ended goes on: %v", err)
		}
		// A late request puts the statement again.
		late, _ := addTo(s.text, deny(t, 1))
		s.change(late)
		s.sleep(time.Minute)
		if over, err := s.Over(s.ctx); over || err != nil || foreign(s.text) != s.text {
			t.Errorf("the statement is not removed again: %v %v %s", over, err, s.text)
		}
		at := s.Record.OverAt(s.Timings)
		if want := last.Signed.Add(9 * time.Minute); !at.Equal(want) {
			t.Errorf("over at %v, want %v", at, want)
		}
		for s.world.Now().Add(-time.Second).Before(at) {
			if over, err := s.Over(s.ctx); over || err != nil {
				t.Fatalf("over at %v: %v", s.world.Now(), err)
			}
			s.sleep(time.Second)
		}
		if over, err := s.Over(s.ctx); !over || err != nil || !s.saved[len(s.saved)-1].Over {
			t.Errorf("not over at %v: %v", s.world.Now(), err)
		}
	})
}

func (s *scene) sleep(d time.Duration) { _ = task.Sleep(s.ctx, d) }

// Unfreeze removes the policy if no other statement is left, and waits for the probe.
func TestH144_UnfreezeWithoutAForeignStatement(t *testing.T) {
	act(t, func(s *scene) {
		if _, err := s.Freeze(s.ctx); err != nil {
			t.Error(err)
		}
		s.probes = []Seen{Denied, Unseen, Denied}
		began := s.world.Elapsed()
		delay, err := s.Unfreeze(s.ctx)
		if err != nil || s.text != "" || !s.Record.Ends || s.Record.Over || delay < 3*time.Second || s.world.Elapsed()-began < 4*time.Second {
			t.Errorf("%v %v: %q, %+v", delay, err, s.text, s.Record)
		}
		if delay, err := s.Unfreeze(s.ctx); delay != 0 || err != nil {
			t.Errorf("again: %v %v", delay, err)
		}
	})
}

// One refusal of one kind of write proves nothing, and neither do refusals with a break.
func TestH144_WhatProvesAFreeze(t *testing.T) {
	act(t, func(s *scene) {
		s.Prober = probes{s, 30 * time.Second}
		if _, err := s.Freeze(s.ctx); err != nil || s.world.Elapsed() < 90*time.Second {
			t.Errorf("frozen after %v: %v", s.world.Elapsed(), err)
		}
	})
	// The statement is gone for a moment, which the probes do not see.
	act(t, func(s *scene) {
		s.Record.Open = true
		s.Prober = denied{}
		s.world.After(40*time.Second, func() {
			s.service.edit("", true)
			s.changed = -time.Hour // the policy does not rest
		})
		if _, err := s.Freeze(s.ctx); err != nil || s.world.Elapsed() < 100*time.Second || len(s.sent) != 2 {
			t.Errorf("frozen after %v, %d requests: %v", s.world.Elapsed(), len(s.sent), err)
		}
	})
	at := func(seconds int, seen Seen) round {
		d := time.Duration(seconds) * time.Second
		return roundOf(d, d+time.Second, Denied, seen)
	}
	for name, c := range map[string]struct {
		rounds []round
		want   bool
	}{
		"none":              {nil, false},
		"one":               {[]round{at(0, Denied)}, false},
		"a minute":          {[]round{at(0, Denied), at(15, Denied), at(30, Denied), at(45, Denied), at(61, Denied)}, true},
		"less":              {[]round{at(0, Denied), at(15, Denied), at(30, Denied), at(45, Denied), at(60, Denied)}, false},
		"let through":       {[]round{at(0, Denied), at(15, Denied), at(30, LetThrough), at(45, Denied), at(61, Denied)}, false},
		"no answer":         {[]round{at(0, Denied), at(15, Denied), at(30, Unseen), at(45, Denied), at(61, Denied)}, false},
		"a gap":             {[]round{at(0, Denied), at(15, Denied), at(30, Denied), at(47, Denied), at(62, Denied)}, false},
		"let through first": {[]round{at(0, LetThrough), at(1, Denied), at(16, Denied), at(31, Denied), at(46, Denied), at(62, Denied)}, true},
	} {
		s := streak{}
		for _, r := range c.rounds {
			s = s.after(r, 15*time.Second)
		}
		if s.proves(time.Minute) != c.want {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, c := range []struct {
		one, other, seen Seen
		open, denied     bool
	}{
		{Denied, Denied, Denied, false, true},
		{LetThrough, LetThrough, LetThrough, true, false},
		{Denied, LetThrough, LetThrough, false, true},
		{Unseen, LetThrough, LetThrough, false, false},
		{Unseen, Denied, Unseen, false, true},
		{Unseen, Unseen, Unseen, false, false},
	} {
		for _, r := range []round{roundOf(0, 0, c.one, c.other), roundOf(0, 0, c.other, c.one)} {
			if r.seen != c.seen || r.open != c.open || r.denied != c.denied {
				t.Errorf("%+v: %+v", c, r)
			}
		}
	}
}

// A probe whose writes are denied before the freeze cannot prove it. No request is sent before an
// answer to each kind of write.
func TestH144_TheProbeMustSeeTheTableOpen(t *testing.T) {
	act(t, func(s *scene) {
		s.probes = []Seen{Unseen, Unseen, Denied}
		if _, err := s.Freeze(s.ctx); !errors.Is(err, errBlind) || len(s.sent) > 0 || len(s.saved) > 0 {
			t.Errorf("%v, %d requests, saved: %+v", err, len(s.sent), s.saved)
		}
		// Another process knows from the record that the table was open.
		s.Record.Open = true
		s.probes = []Seen{Denied}
		if _, err := s.Freeze(s.ctx); err != nil || len(s.sent) != 1 {
			t.Errorf("%v, %d requests", err, len(s.sent))
		}
	})
}

// What is asked again, and what ends a freeze.
func TestH144_AnswersToAFreeze(t *testing.T) {
	act(t, func(s *scene) {
		var failed []string
		s.Failed = func(step string, err error) { failed = append(failed, step+": "+err.Error()) }
		s.fails = []string{"read"}
		s.answers = []Answer{{Outcome: Changed}, {Outcome: Expired}, {Outcome: Refused, Reason: "throttled"}, {Outcome: Resting}, {Outcome: Unknown}}
		if _, err := s.Freeze(s.ctx); err != nil || len(s.sent) != 6 {
			t.Errorf("%d requests: %v", len(s.sent), err)
		}
		for i, want := range []time.Duration{time.Second, time.Second, time.Second, 3 * time.Second, 15 * time.Second} {
			if got := s.sent[i+1].Sub(s.sent[i]); got < want || got > want+2*time.Second {
				t.Errorf("the request after answer %d comes after %v, want %v", i, got, want)
			}
		}
		if len(failed) != 2 || !strings.Contains(failed[0], "read the resource policy") || !strings.Contains(failed[1], "throttled") {
			t.Errorf("%q", failed)
		}
	})
	for want, change := range map[string]func(s *scene){
		"denied before the freeze": func(s *scene) { s.Prober = denied{} },
		"over 20 KB":               func(s *scene) { s.text = list(`{"Sid":"` + strings.Repeat("x", maxSize) + `"}`) },
		"it is too large":          func(s *scene) { s.answers = []Answer{{Outcome: Unfitting, Reason: "it is too large"}} },
		"the lease is lost":        func(s *scene) { s.lost = errors.New("the lease is lost") },
		"changed by another": func(s *scene) {
			s.Save = func(context.Context, Record) error { return errors.New("changed by another") }
		},
		"exempts no principal": func(s *scene) { s.Exempt = nil },
		"no revision":          func(s *scene) { s.text = list(allow); s.Policies = unrevised{s} },
	} {
		act(t, func(s *scene) {
			change(s)
			if _, err := s.Freeze(s.ctx); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
			if want != "it is too large" && len(s.sent) > 0 {
				t.Errorf("%s: a request was sent", want)
			}
			if !s.Record.Signed.IsZero() && want != "it is too large" {
				t.Errorf("%s: %+v", want, s.Record)
			}
		})
	}
	act(t, func(s *scene) {
		s.text = list(allow, deny(t, 1).text)
		if _, err := s.Freeze(s.ctx); err != nil {
			t.Error(err)
		}
		s.answers = []Answer{{Outcome: Unknown}}
		began := s.world.Elapsed()
		if _, err := s.Unfreeze(s.ctx); err != nil || len(s.sent) != 2 || s.world.Elapsed()-began < 15*time.Second {
			t.Errorf("%d requests: %v", len(s.sent), err)
		}
	})
	act(t, func(s *scene) {
		s.text = list(deny(t, 1).text)
		s.Record.Ends = true
		if _, err := s.Freeze(s.ctx); !errors.Is(err, errEnds) {
			t.Errorf("a freeze that has ended continues: %v", err)
		}
		s.Policies = unrevised{s}
		if _, err := s.Unfreeze(s.ctx); !errors.Is(err, errNoRevision) {
			t.Errorf("a change without a revision: %v", err)
		}
	})
}

type denied struct{}

func (denied) Put(context.Context) Seen      { return Denied }
func (denied) Transact(context.Context) Seen { return Denied }

type unrevised struct{ *scene }

func (u unrevised) Get(context.Context, string) (Policy, error) { return Policy{Text: u.text}, nil }

// A rehearsal concerns the probe's role only.
func TestARehearsalConcernsTheProbe(t *testing.T) {
	act(t, func(s *scene) {
		s.Record, _ = Begin(Record{}, hash, 4, true)
		if _, err := s.Freeze(s.ctx); err != nil || !strings.Contains(s.text, `"ArnLike":{"aws:PrincipalArn":["`+probeRole+`"]}`) || strings.Contains(s.text, copyRole) {
			t.Errorf("%v: %s", err, s.text)
		}
	})
}

func TestRecordsOfAttempts(t *testing.T) {
	signed := time.Date(2026, 11, 29, 12, 0, 0, 5, time.UTC)
	first, err := Begin(Record{}, hash, 3, false)
	if err != nil || first.Sid != sidOf(hash, 3) || !first.OverAt(Timings{Wait: time.Hour}).IsZero() {
		t.Errorf("%+v %v", first, err)
	}
	r, err := first.signing(Policy{"text", "revision"}, signed)
	if err != nil || r.Text != "text" || r.Revision != "revision" || !r.Signed.Equal(signed) {
		t.Errorf("%+v %v", r, err)
	}
	// The time never falls.
	if again, _ := r.signing(Policy{}, signed.Add(-time.Second)); !again.Signed.Equal(signed) {
		t.Errorf("%+v", again)
	}
	if _, err := Begin(r, hash, 4, false); err == nil {
		t.Error("another attempt begins during a freeze")
	}
	r.Ends, r.Over, r.Open = true, true, true
	if _, err := r.signing(Policy{}, signed); !errors.Is(err, errEnds) {
		t.Errorf("a freeze request after the end: %v", err)
	}
	if _, err := Begin(r, hash, 3, false); err == nil {
		t.Error("the same attempt begins again")
	}
	next, err := Begin(r, hash, 4, true)
	if err != nil || next.Over || next.Ends || next.Open || !next.Rehearse || next.Sid != sidOf(hash, 4) || !next.Signed.Equal(signed) {
		t.Errorf("%+v %v", next, err)
	}
	text, err := json.Marshal(next)
	var read Record
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if read != next || err != nil {
		t.Errorf("%s: %+v %v", text, read, err)
	}
}
