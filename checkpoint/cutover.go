package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// CutoverStep is the step of a cutover.
type CutoverStep string

// The steps, in order. In every step before CutoverSwitching, an operator may cancel the cutover,
// and any failure cancels it. CutoverSwitching is the point of no return. It ends only with an
// answer, never because a deadline has passed.
const (
	CutoverRequested  CutoverStep = "requested" // waits for approval, its hours and its gates
	CutoverChecks     CutoverStep = "checks"
	CutoverFreeze     CutoverStep = "freeze"
	CutoverDrain      CutoverStep = "drain"
	CutoverVerify     CutoverStep = "verify"
	CutoverFence      CutoverStep = "fence"
	CutoverSwitching  CutoverStep = "switching"
	CutoverWatching   CutoverStep = "watching"
	CutoverDone       CutoverStep = "done"
	CutoverCancelling CutoverStep = "cancelling" // lets the application write again, and resumes the tables
	CutoverCancelled  CutoverStep = "cancelled"
	CutoverRehearsed  CutoverStep = "rehearsed" // a rehearsal is complete
	// CutoverRolledBack: a rollback has moved the application back to the source. The tables need a
	// load, and another cutover may begin.
	CutoverRolledBack CutoverStep = "rolled_back"
)

// cutoverOrder numbers the steps for tokens. A step that may follow another step has a higher
// number.
var cutoverOrder = []CutoverStep{
	CutoverRequested, CutoverChecks, CutoverFreeze, CutoverDrain, CutoverVerify, CutoverFence, CutoverSwitching,
	CutoverCancelling, CutoverCancelled, CutoverWatching, CutoverDone, CutoverRehearsed, CutoverRolledBack,
}

// Over reports whether the attempt is over and another may begin.
func (s CutoverStep) Over() bool {
	return s == "" || s == CutoverCancelled || s == CutoverRehearsed || s == CutoverRolledBack
}

// Active reports whether the attempt needs a driver.
func (s CutoverStep) Active() bool { return !s.Over() && s != CutoverDone }

// AsksWriters reports whether every process that writes must read the cutover's record often.
func (s CutoverStep) AsksWriters() bool {
	return s == CutoverCancelling || s != CutoverRequested && s.Cancellable()
}

// HandsOver reports whether no process may send requests to the targets. Such a step ends with the
// switch or with a cancel.
func (s CutoverStep) HandsOver() bool {
	return s == CutoverFence || s == CutoverSwitching || s.Switched()
}

// Cancellable reports whether the attempt may still be cancelled.
func (s CutoverStep) Cancellable() bool {
	return slices.Contains([]CutoverStep{CutoverRequested, CutoverChecks, CutoverFreeze, CutoverDrain, CutoverVerify, CutoverFence}, s)
}

// Switched reports whether the application has moved to the target.
func (s CutoverStep) Switched() bool { return s == CutoverWatching || s == CutoverDone }

// CutoverEvent is a line of the timeline.
type CutoverEvent struct {
	At   time.Time `json:"at"`
	Step string    `json:"step"`
	Text string    `json:"text"`
	By   string    `json:"by,omitempty"` // the operator who caused it; "" for an automatic step
}

// HookQuiet is the outcome of a hook that froze the application and promised that its own writes to
// the target have ended.
const HookQuiet = "quiet"

// CutoverHook is one call of a hook.
type CutoverHook struct {
	Name    string    `json:"name"`
	Token   string    `json:"token"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Outcome string    `json:"outcome"` // done, quiet, refused or unknown
	Output  string    `json:"output,omitempty"`
}

// ProvedByChildren is the proof of a shard that is done, and all its children are done or proved. A
// record leaves it out if a descendant of the shard has a proof, because a stream lists the shards
// of a day.
const ProvedByChildren = "done, and all its children are done or proved"

// CutoverProof records how it was proved that every change of one shard is applied.
type CutoverProof struct {
	Table    string `json:"table"`
	Shard    string `json:"shard"`
	How      string `json:"how"` // canary, quiet, done
	Position string `json:"position,omitempty"`
}

// Cutover is the state of the cutover of one group of tables: the current or last attempt.
type Cutover struct {
	header
	CutoverPlan
	// Row names the record in the ledger: the name of the group. It is "" for a pipeline that is a single
	// group, and for a record of a version without groups.
	Row string `json:"-"`
	// Attempt is the number of the attempt; 0 if there was none.
	Attempt uint32      `json:"attempt"`
	Step    CutoverStep `json:"step"`
	// All times are on the source's clock. StepAt is when the step began.
	BegunAt       time.Time `json:"begun_at,omitzero"`
	StepAt        time.Time `json:"step_at,omitzero"`
	FreezeBegunAt time.Time `json:"freeze_begun_at,omitzero"`
	FrozenAt      time.Time `json:"frozen_at,omitzero"`
	UnfrozenAt    time.Time `json:"unfrozen_at,omitzero"`
	// Quiet reports that the application promised at FrozenAt that its own writes to the target
	// have ended. MayBeQuiet reports that its hook may promise that.
	Quiet      bool `json:"quiet,omitempty"`
	MayBeQuiet bool `json:"may_be_quiet,omitempty"`
	// Deadline is when the try must end. It is recorded before the first call of the hook that
	// freezes the application. Later calls of that hook have the same deadline.
	Deadline    time.Time `json:"deadline,omitzero"`
	GoneAt      time.Time `json:"gone_at,omitzero"`   // when every process had said goodbye, and the streams were read to their ends
	FencedAt    time.Time `json:"fenced_at,omitzero"` // when late writes were rejected; after the switch unless FenceFirst
	SwitchedAt  time.Time `json:"switched_at,omitzero"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	FinalizedAt time.Time `json:"finalized_at,omitzero"` // when replicator's metadata was removed from the targets
	// WayBack reports that the source's items follow the rows after the switch (Fallback).
	// FallbackEndedAt is when an operator ended that. Rollback is the running or last attempt to move
	// the application back to the source. Its number is one of the group's.
	WayBack         bool      `json:"way_back,omitempty"`
	Rollback        *Cutover  `json:"rollback,omitempty"`
	FallbackEndedAt time.Time `json:"fallback_ended_at,omitzero"`
	Reason          string    `json:"reason,omitempty"`  // why it was cancelled
	Trouble         string    `json:"trouble,omitempty"` // the last failure of the step
	// Answer is an operator's answer to the question whether the switch took place: yes or no; ""
	// if there is none.
	Answer string `json:"answer,omitempty"`
	// MomentAt is the time at which a short freeze is expected to be possible. It is zero if that
	// time is unknown, or if the attempt does not wait for it. WaitsUntil is when the request ends
	// if no such moment has come. NoMoment reports that the request ended because no such moment
	// came.
	MomentAt   time.Time `json:"moment_at,omitzero"`
	WaitsUntil time.Time `json:"waits_until,omitzero"`
	NoMoment   bool      `json:"no_moment,omitempty"`
	// GivenUp are the abandoned tries of the request. NextTry reports, while an abandoned try ends,
	// that another try follows. RaiseAgain reports that the fence must be raised again before that
	// try. Uncovered reports that an open shard may receive no canary, although the maximum number
	// of candidates was written.
	GivenUp    []CutoverTry `json:"given_up,omitempty"`
	NextTry    bool         `json:"next_try,omitempty"`
	RaiseAgain bool         `json:"raise_again,omitempty"`
	Uncovered  bool         `json:"uncovered,omitempty"`
	// Measured is how long writes were frozen, from the answer of the hook that freezes until the switch
	// hook was called, or would have been in a rehearsal. It is the time of the last attempt that came so
	// far; 0 if none did.
	Measured time.Duration `json:"measured,omitempty"`
	// Calls counts the calls of hooks that were begun. CallsBefore is that count at the beginning
	// of step freeze.
	Calls       int `json:"calls,omitempty"`
	CallsBefore int `json:"calls_before,omitempty"`
	// Canaries reports that the sources may hold canary items. Candidates is, for each table, the
	// number below which the indices of these canaries are.
	Canaries   bool           `json:"canaries,omitempty"`
	Candidates map[string]int `json:"candidates,omitempty"`
	// Parked holds, for each table, the hashes of the items that were parked when the checks ended.
	Parked map[string][]string `json:"parked,omitempty"`
	// Unmapped is, for each table, the number of items that could not be mapped when the checks
	// ended.
	Unmapped map[string]int64 `json:"unmapped,omitempty"`
	// Denial is what remains of freezes by the policies of the source tables, and how long they took.
	Denial CutoverDenial `json:"denial,omitzero"`
	// WatchedTo is the time up to which the streams were read after the freeze. Unwatched lists the
	// periods before WatchedTo whose changes no process has read.
	WatchedTo time.Time          `json:"watched_to,omitzero"`
	Unwatched []CutoverUnwatched `json:"unwatched,omitempty"`

	// Raised is, for each target, the number of the fence that was raised before the freeze. It is
	// 0 if the fence is withheld. The drops of all lower numbers were in force then. Fences is, for
	// each target, the first number under which no process wrote. It is recorded before lower
	// numbers are dropped.
	Raised     map[string]uint64       `json:"raised,omitempty"`
	Fences     map[string]uint64       `json:"fences,omitempty"`
	Verified   map[string]VerifyResult `json:"verified,omitempty"`
	Finals     map[string]uint32       `json:"finals,omitempty"` // the number of the final verify
	Gates      []CutoverGate           `json:"gates,omitempty"`  // at the end of the checks
	Proofs     []CutoverProof          `json:"proofs,omitempty"`
	Hooks      []CutoverHook           `json:"hooks,omitempty"`
	Timeline   []CutoverEvent          `json:"timeline,omitempty"`
	Stragglers []CutoverStraggler      `json:"stragglers,omitempty"`
	Strays     int                     `json:"strays,omitempty"`      // the number of changes after the freeze
	StraysSeen int                     `json:"strays_seen,omitempty"` // how many of these changes an operator has reviewed
}

// CutoverGate is a condition that must hold before the application is frozen.
type CutoverGate struct {
	Name       string `json:"gate"`
	Table      string `json:"table,omitempty"`
	Ready      bool   `json:"ready"`
	Figure     string `json:"figure"`
	Cure       string `json:"cure,omitempty"`
	Overridden string `json:"overridden,omitempty"` // the operator's reason
	// Binding reports that the gate cannot be overridden, because something is known to be wrong.
	Binding bool `json:"binding,omitempty"`
}

// ErrCutover matches every refusal of a cutover.
var ErrCutover = errors.New("this step of the cutover is not possible now")

// ErrHalted is the error of a process that wants to write rows of a table that is cut over.
var ErrHalted = errors.New("the table is cut over, so replicator writes nothing to its target")

// ErrPaused ends a worker's pass over a table that an operator has paused.
var ErrPaused = errors.New("an operator has paused the table")

// ErrCutOver ends a worker whose tables are cut over. Commands on these tables fail with it. A
// retry does not help.
var ErrCutOver = errors.New("the tables are cut over; the application no longer uses the source")

// cutOverError is an ErrCutOver that names the time of the switch.
type cutOverError struct{ at time.Time }

func (e cutOverError) Error() string {
	return "cut over on " + e.at.UTC().Format("2006-01-02 at 15:04 MST") + "; the application no longer uses the source"
}

// Is makes a cutOverError match ErrCutOver.
func (cutOverError) Is(target error) bool { return target == ErrCutOver }

// Left returns an ErrCutOver with the time at which the application left the source; nil if it has
// not left.
func (c *Cutover) Left() error {
	switch {
	case !c.Step.Switched():
		return nil
	case !c.SwitchedAt.IsZero():
		return cutOverError{c.SwitchedAt}
	case !c.EndedAt.IsZero():
		return cutOverError{c.EndedAt}
	}
	return ErrCutOver
}

// CutoverError is the error of a step that is not possible in the cutover's current state.
type CutoverError struct {
	Step, Reason, Cure string
}

func (e *CutoverError) Error() string {
	return "cannot " + e.Step + " the cutover: " + e.Reason
}

// Is makes a CutoverError match ErrCutover.
func (e *CutoverError) Is(target error) bool { return target == ErrCutover }

func (c *Cutover) refuse(step, cure string) error {
	stands := "it is at step " + string(c.Step)
	if c.Attempt == 0 {
		stands = "no cutover was begun"
	}
	return &CutoverError{Step: step, Reason: stands, Cure: cure}
}

// Token returns the token of the next call of a hook. It consists of the attempt, the step, and the
// number of the call within the attempt. The token rises with every call. A hook must refuse a
// token lower than a token that it has seen, because the lower token is from an earlier call.
func (c *Cutover) Token() string {
	return fmt.Sprintf("%d.%d.%d", c.Attempt, 1+slices.Index(cutoverOrder, c.Step), c.Calls)
}

const (
	mostCutoverHooks = 60
	mostCutoverLines = 200
	mostStragglers   = 50
)

// Note adds a line to the timeline.
func (c *Cutover) Note(now time.Time, text string) {
	if n := len(c.Timeline); n > 0 && c.Timeline[n-1].Text == text && c.Timeline[n-1].Step == string(c.Step) {
		return
	}
	c.Timeline = append(slices.Clone(c.Timeline), CutoverEvent{At: now.UTC(), Step: string(c.Step), Text: text})
	if over := len(c.Timeline) - mostCutoverLines; over > 0 {
		c.Timeline = c.Timeline[over:]
	}
}

// Heard records a call of a hook. If calls with the same outcome repeat, Heard keeps only the first
// and the last of them.
func (c *Cutover) Heard(h CutoverHook) {
	hooks := slices.Clone(c.Hooks)
	if n := len(hooks); n > 1 && hooks[n-1].Name == h.Name && hooks[n-2].Name == h.Name && hooks[n-1].Outcome == h.Outcome {
		hooks = hooks[:n-1]
	}
	c.Hooks = append(hooks, h)
	if over := len(c.Hooks) - mostCutoverHooks; over > 0 {
		c.Hooks = c.Hooks[over:]
	}
}

// Sign names the operator who caused the last line of the timeline.
func (c *Cutover) Sign(by string) {
	if n := len(c.Timeline); n > 0 && c.Timeline[n-1].By == "" {
		c.Timeline = slices.Clone(c.Timeline)
		c.Timeline[n-1].By = by
	}
}

func (c *Cutover) enter(step CutoverStep, now time.Time, why string) {
	c.Step, c.StepAt, c.Trouble, c.MomentAt = step, now.UTC(), "", time.Time{}
	c.Note(now, why)
}

// next returns the step that follows automatically.
func (c *Cutover) next() CutoverStep {
	switch {
	case c.Rehearse && c.Step == CutoverChecks:
		return CutoverDrain
	case c.Rehearse && c.Step == CutoverFence:
		return CutoverRehearsed
	}
	i := slices.Index([]CutoverStep{CutoverRequested, CutoverChecks, CutoverFreeze, CutoverDrain, CutoverVerify, CutoverFence}, c.Step)
	if i < 0 {
		return ""
	}
	return []CutoverStep{CutoverChecks, CutoverFreeze, CutoverDrain, CutoverVerify, CutoverFence, CutoverSwitching}[i]
}

// Advance begins the step that follows a completed one.
func (c *Cutover) Advance(now time.Time) error {
	next := c.next()
	switch {
	case next == "":
		return c.refuse("continue", "see replicator cutover check")
	case next == CutoverDrain && !c.Rehearse && c.FrozenAt.IsZero():
		return &CutoverError{"continue", "nothing is frozen", "this is a defect: please report it"}
	case next == CutoverSwitching && c.FencedAt.IsZero() && c.GoneAt.IsZero():
		return &CutoverError{"continue", "nothing is fenced", "this is a defect: please report it"}
	}
	c.enter(next, now, stepText[next])
	switch next {
	case CutoverFreeze:
		c.FreezeBegunAt, c.CallsBefore, c.Deadline = now.UTC(), c.Calls, now.Add(c.deadline()).UTC()
	case CutoverRehearsed:
		c.EndedAt = now.UTC()
		c.Measured = c.WouldFreeze()
	case CutoverSwitching:
		c.Measured = max(now.Sub(c.FrozenAt), 0)
	}
	return nil
}

var stepText = map[CutoverStep]string{
	CutoverChecks: "checking the gates", CutoverFreeze: "stopping the application's writes", CutoverDrain: "applying the last changes",
	CutoverVerify: "comparing source and target", CutoverFence: "waiting until no process writes any more",
	CutoverSwitching: "switching the application; no cancel from here on", CutoverRehearsed: "the rehearsal is complete",
}

// Frozen records that the application has stopped its writes. A promise to be quiet counts only if
// it answered the last call that was begun. After the deadline the application may write again.
func (c *Cutover) Frozen(now time.Time) error {
	if c.Step != CutoverFreeze {
		return c.refuse("freeze writes in", "see replicator cutover check")
	}
	if !c.FrozenAt.IsZero() {
		return nil
	}
	c.FrozenAt = now.UTC()
	if n := len(c.Hooks); n > 0 && now.Before(c.Deadline) {
		last := c.Hooks[n-1]
		c.Quiet = last.Outcome == HookQuiet && last.Token == c.Token() && c.Direction == Forward
	}
	if c.Quiet {
		c.MayBeQuiet = true
		c.Note(now, "the application promised that its own writes to Bigtable have ended")
	}
	return nil
}

// Cancel ends the attempt. If a freeze has begun, the attempt ends after the application writes
// again.
func (c *Cutover) Cancel(reason string, now time.Time) error {
	switch {
	case c.Step == CutoverCancelling && c.NextTry: // a cancel during an abandoned try ends the request
		c.NextTry, c.Reason = false, reason
		c.Note(now, "cancelled: "+reason)
		return nil
	case c.Step == CutoverCancelling || c.Step == CutoverCancelled:
		return nil
	case c.Step == CutoverSwitching:
		return c.refuse("cancel", "the switch may have happened; find out, then answer: replicator cutover resolve --switched yes|no")
	case !c.Step.Cancellable():
		return c.refuse("cancel", "see replicator cutover check")
	}
	c.unswitched(reason, now)
	return nil
}

// unswitched ends an attempt without a switch. If a former try has frozen tables by their policies,
// a late request could still freeze them, so the driver makes sure of the end.
func (c *Cutover) unswitched(reason string, now time.Time) {
	c.Reason = reason
	if c.FreezeBegunAt.IsZero() && !(c.Denial.Left && c.Trying()) {
		c.enter(CutoverCancelled, now, "cancelled: "+reason)
		c.EndedAt = now.UTC()
		return
	}
	c.enter(CutoverCancelling, now, "cancelled: "+reason)
}

// Switch records the outcome of the switch. Either the application has switched, or it certainly
// has not.
func (c *Cutover) Switch(switched bool, by string, now time.Time) error {
	if c.Step != CutoverSwitching {
		return c.refuse("resolve", "see replicator cutover check")
	}
	if switched {
		c.SwitchedAt = now.UTC()
		c.enter(CutoverWatching, now, "switched, according to "+by)
		return nil
	}
	c.unswitched("not switched, according to "+by, now)
	return nil
}

// Resolve records an operator's answer. The driver then acts on that answer.
func (c *Cutover) Resolve(switched bool, now time.Time) error {
	if c.Step != CutoverSwitching {
		return c.refuse("resolve", "see replicator cutover check")
	}
	c.Answer = map[bool]string{true: "yes", false: "no"}[switched]
	c.Note(now, "an operator answered whether the application has switched: "+c.Answer)
	return nil
}

// Unfrozen records that the application writes again.
func (c *Cutover) Unfrozen(now time.Time) error {
	if c.Step != CutoverCancelling {
		return c.refuse("unfreeze writes in", "see replicator cutover check")
	}
	if c.UnfrozenAt.IsZero() {
		c.UnfrozenAt = now.UTC()
		if n := len(c.GivenUp); n > 0 && c.GivenUp[n-1].Attempt == c.Attempt {
			c.GivenUp = slices.Clone(c.GivenUp)
			c.GivenUp[n-1].UnfrozenAt = c.UnfrozenAt
		}
		c.Note(now, "the application writes again")
	}
	return nil
}

// Cancelled ends an attempt whose application writes again and whose tables have resumed. The
// freeze of a former try may have needed that, although this try has frozen nothing.
func (c *Cutover) Cancelled(now time.Time) error {
	if c.Step != CutoverCancelling || c.UnfrozenAt.IsZero() && !(c.FreezeBegunAt.IsZero() && c.Trying()) {
		return c.refuse("end", "see replicator cutover check")
	}
	c.enter(CutoverCancelled, now, "the tables resume")
	c.EndedAt = now.UTC()
	return nil
}

// Finalized records that replicator's metadata was removed from the targets.
func (c *Cutover) Finalized(now time.Time) error {
	if c.Step != CutoverDone {
		return c.refuse("finalize", "see replicator cutover check")
	}
	if c.FinalizedAt.IsZero() {
		c.FinalizedAt = now.UTC()
		c.Note(now, "replicator's metadata was removed from the targets")
	}
	return nil
}

// FrozenSince returns the time since when the application may not write. The result `frozen`
// reports whether that is still so.
func (c *Cutover) FrozenSince() (at time.Time, frozen bool) {
	frozen = c.Step.Active() && !c.FreezeBegunAt.IsZero() && c.UnfrozenAt.IsZero() && c.SwitchedAt.IsZero()
	return c.FreezeBegunAt, frozen
}

// FrozenFor returns how long the application was frozen, or how long it has been frozen until now.
func (c *Cutover) FrozenFor(now time.Time) time.Duration {
	end := now
	switch {
	case c.FreezeBegunAt.IsZero():
		return 0
	case !c.UnfrozenAt.IsZero():
		end = c.UnfrozenAt
	case !c.SwitchedAt.IsZero():
		end = c.SwitchedAt
	}
	return max(end.Sub(c.FreezeBegunAt), 0)
}
