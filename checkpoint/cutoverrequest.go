package checkpoint

import (
	"encoding/json"
	"time"
)

// CutoverDeadlines are the times that steps may take. Older versions of replicator, which know no
// deadline of a whole try, read them.
type CutoverDeadlines struct {
	Freeze time.Duration `json:"freeze"`
	Drain  time.Duration `json:"drain"`
	Verify time.Duration `json:"verify"`
	Fence  time.Duration `json:"fence"`
}

// CutoverPlan is the plan with which a cutover begins.
type CutoverPlan struct {
	// Group is the name of the group of tables; "" in a record of a version without groups. Patterns are
	// the patterns of table names that belong to the group.
	Group    string   `json:"group,omitempty"`
	Patterns []string `json:"patterns,omitempty"`
	// After is the highest attempt of all groups. The next attempt has a higher number.
	After    uint32   `json:"-"`
	Tables   []string `json:"tables"`  // source tables, and all tables that share a target with one of them
	Targets  []string `json:"targets"` // target tables
	Hash     string   `json:"hash"`    // of the configuration
	Version  string   `json:"version,omitempty"`
	By       string   `json:"started_by,omitempty"` // the process that requested it
	Rehearse bool     `json:"rehearse,omitempty"`   // this is a rehearsal: no freeze and no switch
	// Direction is where the application moves: Forward to the target, or Back to the source.
	Direction Direction `json:"direction,omitempty"`
	// KeepFallback reports that the source's items follow the rows after the switch, so that the
	// application can be moved back.
	KeepFallback bool     `json:"keep_fallback,omitempty"`
	Lossy        []string `json:"lossy,omitempty"` // by table: what a fallback does not carry, or why there can be none
	// Forms holds by source table what a fallback must know of its items. It is empty without a
	// fallback.
	Forms     map[string]CutoverForm `json:"forms,omitempty"`
	Overrides []CutoverOverride      `json:"overrides,omitempty"`
	Deadlines CutoverDeadlines       `json:"deadlines"`
	// FreezeAtMost is the longest freeze that may be expected when the application is frozen; 0: 8
	// s. ListingBound is how late a stream may list a child shard; 0: 2 min. MomentWithin is how
	// long the request waits for a moment for a short freeze; 0: no limit. If MomentUntil is not
	// zero, it replaces MomentWithin.
	FreezeAtMost time.Duration `json:"freeze_at_most,omitempty"`
	// UnlessQuiet is the part of FreezeAtMost that is not needed if the application promises to be
	// quiet (Cutover.Quiet).
	UnlessQuiet  time.Duration `json:"unless_quiet,omitempty"`
	ListingBound time.Duration `json:"listing_bound,omitempty"`
	MomentWithin time.Duration `json:"moment_within,omitempty"`
	MomentUntil  time.Time     `json:"moment_until,omitzero"`
	// Tries is how often the request may freeze the application; 0: once. FreezeWithin is how long
	// the hook that freezes may take; 0: 1 min. FreezeDeadline is the time after that for which a
	// try may keep the application frozen; 0: 30 s, or twice the expected time if that is longer.
	Tries          int           `json:"tries,omitempty"`
	FreezeWithin   time.Duration `json:"freeze_within,omitempty"`
	FreezeDeadline time.Duration `json:"freeze_deadline,omitempty"`
	WatchFor       time.Duration `json:"watch_for"`
	// ByPolicy reports that the resource policies of the source tables freeze writes. PolicyWait is
	// how long after its signature a change of a policy may still be executed.
	ByPolicy   bool          `json:"freeze_by_policy,omitempty"`
	PolicyWait time.Duration `json:"policy_wait,omitempty"`
	// FenceFirst makes the switch wait until late writes of replicator are rejected. Without
	// FenceFirst, every process says goodbye before the switch, and late writes are rejected after
	// it.
	FenceFirst bool `json:"fence_before_switch,omitempty"`
	// FenceUnlessQuiet reports that FenceFirst is needed only if the application does not promise,
	// when it is frozen, that its own writes to the target have ended.
	FenceUnlessQuiet bool `json:"fence_unless_quiet,omitempty"`
	// WhenReady makes the attempt wait for its gates. Without WhenReady, a gate that is not ready
	// ends the attempt.
	WhenReady bool      `json:"when_ready,omitempty"`
	Approved  bool      `json:"approved,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"`
	// From and To limit the time of day at which the cutover may begin, in minutes since midnight
	// UTC. If both are 0, it may begin at any time. If To is less than From, the time extends
	// across midnight.
	From    int       `json:"from_minute,omitempty"`
	To      int       `json:"to_minute,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // when the request expires; zero: never
}

// CutoverForm is what a fallback must know of the items of a source table, beside the mapping.
type CutoverForm struct {
	// Types are the types of attributes whose cells do not show them: transform.Types, as JSON.
	Types json.RawMessage `json:"types,omitempty"`
	// Expires is the attribute by which the source removes items; "" for none.
	Expires string `json:"expires,omitempty"`
}

// CutoverOverride is a gate that an operator has overridden.
type CutoverOverride struct {
	Gate   string `json:"gate"`
	Reason string `json:"reason"`
}

// Start begins an attempt in step CutoverRequested.
func (c *Cutover) Start(plan CutoverPlan, now time.Time) error {
	switch {
	case c.Step == CutoverDone:
		return c.refuse("start", "the tables are cut over for good")
	case !c.Step.Over():
		return c.refuse("start", "see replicator cutover check; cancel the cutover, or wait for its end")
	case c.RollingBack(): // its driver must return the tables first
		return &CutoverError{"start", "a rollback is running", "wait until it has returned the tables; see replicator cutover status"}
	case len(plan.Tables) == 0 || len(plan.Targets) == 0:
		return &CutoverError{"start", "there are no tables", "name tables in the configuration"}
	}
	h, attempt := c.header, max(c.lastAttempt(), plan.After)
	*c = Cutover{header: h, CutoverPlan: plan, Attempt: attempt + 1, BegunAt: now.UTC(), Canaries: c.Canaries, Candidates: c.Candidates, Measured: c.Measured, Denial: c.Denial}
	c.Denial.Again = 0 // this attempt puts statements of its own
	text := "requested"
	if plan.By != "" {
		text += " by " + plan.By
	}
	c.enter(CutoverRequested, now, text)
	return nil
}

// Approve records that an operator approves the request.
func (c *Cutover) Approve(now time.Time) error {
	if c.Step != CutoverRequested {
		return c.refuse("approve", "see replicator cutover check")
	}
	if !c.Approved {
		c.Approved = true
		c.Note(now, "approved")
	}
	return nil
}

// Postpone delays a request and its expiry by d.
func (c *Cutover) Postpone(d time.Duration, now time.Time) error {
	if c.Step != CutoverRequested {
		return c.refuse("postpone", "cancel it: replicator cutover cancel")
	}
	c.NotBefore = now.Add(d).UTC()
	if !c.Expires.IsZero() {
		c.Expires = later(c.Expires, now).Add(d).UTC()
	}
	c.Note(now, "postponed by "+d.String())
	return nil
}

// Await returns the attempt to CutoverRequested, because a gate is no longer ready.
func (c *Cutover) Await(now time.Time, why string) error {
	if c.Step != CutoverChecks || !c.AwaitsGates() {
		return c.refuse("await", "see replicator cutover check")
	}
	c.enter(CutoverRequested, now, "waiting again: "+why)
	return nil
}

// Expired reports whether a request has expired.
func (c *Cutover) Expired(now time.Time) bool {
	return c.Step == CutoverRequested && !c.Expires.IsZero() && !now.Before(c.Expires)
}

// Lapsed reports whether the request was cancelled because it had expired before a freeze began.
func (c *Cutover) Lapsed() bool {
	return c.Step == CutoverCancelled && c.FreezeBegunAt.IsZero() && (c.NoMoment || !c.Expires.IsZero() && !c.EndedAt.Before(c.Expires))
}

// Due reports whether a request is approved and the time of day allows its checks to begin.
func (c *Cutover) Due(now time.Time) bool {
	if c.Step != CutoverRequested || !c.Approved || now.Before(c.NotBefore) {
		return false
	}
	if c.From == c.To {
		return true
	}
	at := now.UTC().Hour()*60 + now.UTC().Minute()
	if c.From < c.To {
		return c.From <= at && at < c.To
	}
	return at >= c.From || at < c.To
}
