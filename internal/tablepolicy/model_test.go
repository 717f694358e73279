package tablepolicy

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// This file has the states of a small model: a policy, two processes that may drive, a request that
// is executed late, reads that are old, and edits of other programs. Time has few instants. The
// processes decide by the functions of the product.

// Durations of the model, in instants.
const (
	modelWait   = 2
	modelSettle = 1
	modelFrozen = 1
)

func instant(n int8) time.Time { return time.Unix(1_800_000_000+int64(n)*60, 0).UTC() }

var modelTimings = Timings{Wait: modelWait * time.Minute, Settle: modelSettle * time.Minute, Frozen: modelFrozen * time.Minute, Gap: time.Hour}

// texts are the policies of the model by number. Zero is no policy. What the product decides on a
// policy is asked once.
type texts struct {
	all        []string
	statements [3]Statement // of attempts 1 and 2
	memo       map[asked]decided
}

type asked struct {
	question      string
	text, attempt int8
}

type decided struct {
	kind changeKind
	text int8
}

const foreignText = `{"Sid":"foreign","Effect":"Deny","Principal":"*","Action":"dynamodb:DeleteTable","Resource":"*"}`

func newTexts(t *testing.T) *texts {
	return &texts{all: []string{""}, statements: [3]Statement{{}, deny(t, 1), deny(t, 2)}, memo: map[asked]decided{}}
}

func (x *texts) ask(question string, text, attempt int8, answer func(Policy) (change, error)) decided {
	a := asked{question, text, attempt}
	d, ok := x.memo[a]
	if ok {
		return d
	}
	p := Policy{Text: x.all[text]}
	if text > 0 {
		p.Revision = "known"
	}
	c, err := answer(p)
	if err != nil {
		panic(err)
	}
	if d.kind = c.kind; c.kind == put {
		d.text = int8(slices.Index(x.all, c.text))
		if d.text < 0 {
			d.text = int8(len(x.all))
			x.all = append(x.all, c.text)
		}
	}
	x.memo[a] = d
	return d
}

func (x *texts) toFreeze(text, attempt int8) decided {
	return x.ask("freeze", text, attempt, func(p Policy) (change, error) { return toFreeze(p, x.statements[attempt]) })
}

func (x *texts) toUnfreeze(text, attempt int8) decided {
	return x.ask("unfreeze", text, attempt, func(p Policy) (change, error) { return toUnfreeze(p, hash, uint32(attempt)) })
}

// has reports whether a policy has the statement of an attempt, or that of another program for
// attempt 0.
func (x *texts) has(text, attempt int8) bool {
	return nothing != x.ask("has", text, attempt, func(p Policy) (c change, err error) {
		sid := "foreign"
		if attempt > 0 {
			sid = x.statements[attempt].Sid
		}
		if has, err := hasSid(p.Text, sid); has || err != nil {
			return change{kind: remove}, err
		}
		return change{}, nil
	}).kind
}

func (x *texts) frozen(text int8) bool { return x.has(text, 1) || x.has(text, 2) }

// edited returns a policy as another program makes it: it adds or removes its statement. If it does
// not read the policy before, it removes the statements of freezes too.
func (x *texts) edited(text int8, foreign, blind bool) int8 {
	return x.ask(fmt.Sprint("edit", foreign, blind), text, 0, func(p Policy) (change, error) {
		kept := ""
		for attempt := int8(1); attempt < 3 && !blind; attempt++ {
			if x.has(text, attempt) {
				kept, _ = addTo(kept, x.statements[attempt])
			}
		}
		if foreign {
			kept, _ = addTo(kept, Statement{"foreign", foreignText})
		}
		if kept == "" {
			return change{}, nil
		}
		return change{kind: put, text: kept}, nil
	}).text
}

type modelPolicy struct{ text, revision int8 }

type modelRecord struct {
	attempt, signed, saved       int8
	ends, over, frozen, switched bool
}

func (r modelRecord) record() Record {
	full := Record{Attempt: uint32(r.attempt), Ends: r.ends}
	if r.signed >= 0 {
		full.Signed = instant(r.signed)
	}
	return full
}

// step is what a process does next.
type modelStep int8

const (
	proves modelStep = iota // and reads the record, if another process has changed it
	reads                   // and decides
	sends
	watches
)

type modelProcess struct {
	step    modelStep
	record  modelRecord
	current bool // the record is that of the ledger
	at      int8 // the time of the proof
	sends   request
	since   int8 // the first refused round; -1 if there is none
}

// request is a change in the model. A request in flight may be executed until W after its
// signature.
type request struct {
	kind           changeKind
	text, revision int8
	signed         int8
	inFlight       bool
}

type modelState struct {
	now         int8
	policy, old modelPolicy
	changed     int8 // when the policy was changed; old reads show the former one
	revisions   int8
	foreign     bool // whether the foreign statement must be in the policy
	ledger      modelRecord
	processes   [2]modelProcess
	flight      request
	budget      modelBudget
	trouble     string
}

// modelBudget bounds the events that are not steps of a process.
type modelBudget struct{ takeovers, edits, cancels, attempts int8 }

// present is the instant to which all states are moved. Only ages matter.
const present = 10

// forget moves a state to the present, and removes from it what has no effect any more. A process
// that sleeps for longer than three instants after a proof is dead.
func (s *modelState) forget() {
	moved := present - s.now
	s.now = present
	move := func(at *int8, oldest int8) {
		if *at >= 0 {
			*at = max(*at+moved, present-oldest)
		}
	}
	move(&s.changed, 3)
	move(&s.ledger.signed, 6)
	if s.changed < present-modelSettle {
		s.old, s.changed = s.policy, -1
	}
	if s.flight.inFlight {
		if move(&s.flight.signed, 3); s.flight.signed+modelWait <= present {
			s.flight = request{}
		}
	}
	for i := range s.processes {
		p := &s.processes[i]
		move(&p.record.signed, 6)
		move(&p.since, 1)
		move(&p.at, 4)
		move(&p.sends.signed, 3)
		if p.step == reads && p.at < present-3 || p.step == sends && i == 1 && p.sends.signed >= 0 && p.sends.signed+modelWait <= present {
			p.step = proves
		}
		if p.step == proves || p.step == watches {
			p.at = 0
		}
		if p.step != sends {
			p.sends = request{}
		}
		if i == 1 && p.step == proves || !p.current && p.step != reads && p.step != sends {
			*p = modelProcess{since: -1}
		}
		if p.step == sends {
			p.at, p.since = 0, -1
		}
		if p.current {
			p.record = s.ledger
		}
	}
}

// rename numbers the revisions of a state in the order of their places. Only their equality
// matters.
func (s *modelState) rename() {
	a, b := &s.processes[0], &s.processes[1]
	names := [32]int8{}
	s.revisions = 0
	for _, r := range []*int8{&s.policy.revision, &s.old.revision, &a.sends.revision, &b.sends.revision, &s.flight.revision} {
		if *r == 0 {
			continue // there is no policy
		}
		if names[*r] == 0 {
			s.revisions++
			names[*r] = s.revisions
		}
		*r = names[*r]
	}
}
