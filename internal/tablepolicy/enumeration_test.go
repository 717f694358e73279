package tablepolicy

import (
	"slices"
	"testing"
	"time"
)

// This file walks all histories of the model.

// modelRules are the rules of the model. A variation of the protocol breaks one of them.
type modelRules struct {
	repeat        bool // a policy that returns has its former revision
	savedTextBack bool // the text of the record is put back
	noWait        bool // over at the first look without a statement
	noSettle      bool // over W after the signature, although a look may be old
	signsAtSend   bool // a freeze request is signed when it is sent
	savesNoTime   bool // the time of the signature is not saved
	savesBlindly  bool // the record is saved, although another process has changed it
	noProbe       bool // no probe after the freeze
	noRevision    bool // changes expect no revision
	stripsAll     bool // a process removes the statements of later attempts too
}

type model struct {
	*texts
	rules modelRules
	seen  map[modelState]bool
	queue []modelState
	found map[string]int
	goals map[string]int
}

func (m *model) add(s modelState) {
	if s.trouble != "" {
		m.found[s.trouble]++
		return
	}
	s.forget()
	if !m.rules.repeat {
		s.rename()
	}
	if !m.seen[s] {
		m.seen[s] = true
		m.queue = append(m.queue, s)
	}
}

// change puts a policy in place.
func (m *model) change(s *modelState, text int8) {
	s.old, s.changed = s.policy, s.now
	s.policy.text = text
	if text == 0 {
		s.policy.revision = 0
	} else if m.rules.repeat {
		s.policy.revision = text
	} else {
		s.revisions++
		s.policy.revision = s.revisions
	}
}

// execute executes a request, if its revision is that of the policy. No policy has no revision.
func (m *model) execute(s *modelState, r request) {
	if r.revision != s.policy.revision && !m.rules.noRevision {
		return
	}
	held := m.has(s.policy.text, s.ledger.attempt)
	m.change(s, r.text)
	switch {
	case m.has(r.text, 0) != s.foreign:
		s.trouble = "an edit of another program is lost"
	case s.ledger.over && m.frozen(r.text):
		s.trouble = "frozen for ever"
	case s.ledger.switched && !s.ledger.ends && held && !m.has(r.text, s.ledger.attempt):
		s.trouble = "an own request opens the table after the switch"
	}
}

// views returns the policies that a read may show, or that may be in force.
func (m *model) views(s modelState) []modelPolicy {
	if s.changed >= 0 && s.now-s.changed <= modelSettle && s.old != s.policy {
		return []modelPolicy{s.policy, s.old}
	}
	return []modelPolicy{s.policy}
}

// save writes the record of process i; false if another process has changed it.
func (m *model) save(s *modelState, i int, change func(r *modelRecord)) bool {
	p := &s.processes[i]
	if !p.current && !m.rules.savesBlindly {
		p.step = proves
		return false
	}
	change(&s.ledger)
	s.processes[1-i].current = false
	p.record = s.ledger
	return true
}

// process adds the states after the next step of a process. Process 0 holds the lease, so only it can prove.
func (m *model) process(s modelState, i int) {
	p := &s.processes[i]
	switch p.step {
	case proves:
		if i != 0 || s.ledger.over || s.ledger.switched {
			return
		}
		if !p.current {
			*p = modelProcess{record: s.ledger, current: true, since: -1}
		}
		if p.step, p.at = reads, s.now; s.ledger.frozen && !s.ledger.ends {
			p.step = watches
		}
		m.add(s)
	case reads:
		for _, view := range m.views(s) {
			m.decide(s, i, view)
		}
	case sends:
		p.step = proves
		r := p.sends
		p.sends = request{}
		if r.signed < 0 {
			r.signed = s.now
		}
		if s.now >= r.signed+modelWait {
			m.add(s) // the signature is too old
			return
		}
		late := s
		m.execute(&s, r)
		m.add(s)
		if !late.flight.inFlight {
			late.flight, late.flight.inFlight = r, true
			m.add(late)
		}
	case watches:
		m.watch(s, i)
	}
}

func (m *model) decide(s modelState, i int, read modelPolicy) {
	p := &s.processes[i]
	text, revision := read.text, read.revision
	if p.record.ends {
		attempt := p.record.attempt
		if m.rules.stripsAll {
			attempt = 2
		}
		d := m.toUnfreeze(text, attempt)
		if m.rules.savedTextBack && d.kind != nothing {
			d.text = p.record.saved
		}
		if d.kind != nothing {
			p.sends, p.step = request{kind: d.kind, text: d.text, revision: revision, signed: p.at}, sends
			m.add(s)
			return
		}
		p.step = proves
		timings := modelTimings
		if m.rules.noSettle {
			timings.Wait -= timings.Settle
		}
		if m.rules.noWait {
			timings.Wait = -timings.Settle
		}
		if p.record.record().isOver(true, instant(p.at), timings) {
			if m.save(&s, i, func(r *modelRecord) { r.over = true }) {
				m.goals["over"]++
				if m.frozen(s.policy.text) {
					s.trouble = "frozen for ever"
				}
			}
		}
		m.add(s)
		return
	}
	if d := m.toFreeze(text, p.record.attempt); d.kind != nothing {
		next, err := p.record.record().signing(Policy{}, instant(p.at))
		if err != nil {
			panic(err)
		}
		p.since = -1
		if m.rules.savesNoTime {
			next.Signed = time.Time{}
		}
		signed := p.at
		if m.rules.signsAtSend {
			signed = -1
		}
		if m.save(&s, i, func(r *modelRecord) {
			if !next.Signed.IsZero() {
				r.signed = int8(next.Signed.Sub(instant(0)) / time.Minute)
			}
			if m.rules.savedTextBack {
				r.saved = text
			}
		}) {
			p.sends, p.step = request{kind: put, text: d.text, revision: revision, signed: signed}, sends
		}
		m.add(s)
		return
	}
	for _, view := range m.views(s) {
		s := s
		p := &s.processes[i]
		was := streak{}
		if p.since >= 0 {
			at := time.Duration(p.since) * time.Minute
			was = streak{rounds: 1, since: at, last: at}
		}
		now, seen := time.Duration(s.now)*time.Minute, LetThrough
		if m.frozen(view.text) {
			seen = Denied
		}
		r := roundOf(now, now, seen, seen)
		p.step = proves
		held := was.after(r, modelTimings.Gap)
		if p.since = -1; held.rounds > 0 {
			p.since = int8(held.since / time.Minute)
		}
		if held.proves(modelTimings.Frozen) && m.save(&s, i, func(r *modelRecord) { r.frozen = true }) {
			m.goals["frozen"]++
		}
		m.add(s)
	}
}

// watch makes one round of probes and either cancels or lets the application be switched.
func (m *model) watch(s modelState, i int) {
	p := &s.processes[i]
	p.step = proves
	for _, view := range m.views(s) {
		s := s
		switch {
		case !m.frozen(view.text) && !m.rules.noProbe:
			m.save(&s, i, func(r *modelRecord) { r.ends = true })
		case m.save(&s, i, func(r *modelRecord) { r.switched = true }):
			m.goals["switched"]++
			open := !slices.ContainsFunc(m.views(s), func(v modelPolicy) bool { return m.frozen(v.text) })
			if open {
				s.trouble = "switched while the table is open"
			}
		}
		m.add(s)
	}
}

// events adds the states after what is not a step of a process.
func (m *model) events(s modelState) {
	next := s
	next.now++
	m.add(next)
	if s.flight.inFlight {
		next := s
		next.flight = request{}
		m.execute(&next, s.flight)
		m.add(next)
	}
	if b := s.budget; b.takeovers > 0 && !s.ledger.over && !s.ledger.switched {
		next := s
		next.budget.takeovers--
		next.processes = [2]modelProcess{{since: -1}, s.processes[0]}
		m.add(next)
	}
	if s.budget.edits > 0 && !s.ledger.switched {
		for _, blind := range []bool{false, true} {
			next := s
			next.budget.edits--
			next.foreign = !s.foreign
			m.change(&next, m.edited(s.policy.text, next.foreign, blind))
			m.add(next)
		}
	}
	if s.budget.cancels > 0 && !s.ledger.ends && !s.ledger.switched {
		next := s
		next.budget.cancels--
		next.ledger.ends = true
		next.processes[0].current, next.processes[1].current = false, false
		m.add(next)
	}
	if s.budget.attempts > 0 && s.ledger.ends {
		next := s
		next.budget.attempts--
		former := s.ledger.record()
		former.Sid = "former"
		begun, err := Begin(former, hash, uint32(s.ledger.attempt)+1, false)
		if err != nil {
			panic(err)
		}
		next.ledger = modelRecord{attempt: int8(begun.Attempt), signed: s.ledger.signed}
		next.processes[0].current, next.processes[1].current = false, false
		m.add(next)
	}
}

// explore walks all histories, and counts the states of each trouble. It ends early at the first
// one of the trouble `until`.
func explore(t *testing.T, rules modelRules, budget modelBudget, foreign bool, until string) *model {
	m := &model{texts: newTexts(t), rules: rules, seen: map[modelState]bool{}, found: map[string]int{}, goals: map[string]int{}}
	start := modelState{now: present, changed: -1, foreign: foreign, ledger: modelRecord{attempt: 1, signed: -1}, budget: budget}
	for i := range start.processes {
		start.processes[i].since = -1
	}
	start.policy.text = m.edited(0, foreign, true)
	start.policy.revision = start.policy.text
	start.revisions = start.policy.revision
	m.add(start)
	for len(m.queue) > 0 && m.found[until] == 0 {
		s := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.process(s, 0)
		m.process(s, 1)
		m.events(s)
	}
	return m
}

// No history ends frozen for ever, loses an edit of another program, or switches the application
// while the table is open and the probe could see it. A short run leaves the second attempt out.
func TestH144_AllHistoriesOfAFreeze(t *testing.T) {
	for _, c := range []struct {
		budget  modelBudget
		foreign bool
	}{
		{modelBudget{takeovers: 1, edits: 1, cancels: 1}, true},
		{modelBudget{takeovers: 1, edits: 2, cancels: 1}, false},
		{modelBudget{takeovers: 1, cancels: 2, attempts: 1}, false},
	} {
		if c.budget.attempts > 0 && testing.Short() {
			continue
		}
		for _, repeat := range []bool{false, true} {
			m := explore(t, modelRules{repeat: repeat}, c.budget, c.foreign, "")
			if len(m.found) > 0 || m.goals["frozen"] == 0 || m.goals["switched"] == 0 || m.goals["over"] == 0 {
				t.Errorf("%+v, revisions repeat: %v: %v in %d states, and %v", c, repeat, m.found, len(m.seen), m.goals)
			}
		}
	}
}

// Each variation of the protocol has a history that ends wrong.
func TestH144_VariationsThatEndWrong(t *testing.T) {
	var (
		plain = modelBudget{takeovers: 1, cancels: 1}
		edits = modelBudget{takeovers: 1, edits: 1, cancels: 1}
		twice = modelBudget{takeovers: 1, cancels: 2, attempts: 1}
	)
	const (
		forever = "frozen for ever"
		lost    = "an edit of another program is lost"
		opened  = "an own request opens the table after the switch"
	)
	for name, c := range map[string]struct {
		rules  modelRules
		budget modelBudget
		want   string
	}{
		"the saved text is put back":           {modelRules{savedTextBack: true}, edits, lost},
		"over without W":                       {modelRules{noWait: true}, plain, forever},
		"over at W, by an old read":            {modelRules{noSettle: true}, plain, forever},
		"signed when the process wakes":        {modelRules{signsAtSend: true}, plain, forever},
		"the time of the signature is lost":    {modelRules{savesNoTime: true}, plain, forever},
		"a freeze request after the end":       {modelRules{savesBlindly: true}, plain, forever},
		"no probe after the freeze":            {modelRules{noProbe: true}, edits, "switched while the table is open"},
		"no expected revision":                 {modelRules{noRevision: true}, edits, lost},
		"a later attempt's statement is taken": {modelRules{stripsAll: true}, twice, opened},
	} {
		for _, repeat := range []bool{false, true} {
			c.rules.repeat = repeat
			if m := explore(t, c.rules, c.budget, false, c.want); m.found[c.want] == 0 {
				t.Errorf("%s, revisions repeat: %v: nothing is found in %d states: %v", name, repeat, len(m.seen), m.found)
			}
		}
	}
}
