package switchover

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	expected "github.com/dynamodb-bigtable/replicator/internal/forecast"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// schemaName identifies the document's schema, cutover.schema.json.
const schemaName = "replicator.cutover/v1"

// Schema describes the document of -o json.
//
//go:embed cutover.schema.json
var Schema []byte

// Document is the state of a cutover. Every `cutover` command writes it with -o json. Unknown
// values are null.
type Document struct {
	// Ready reports whether every gate is ready or overridden. SafeToWrite reports whether the
	// application may write to the target, because replicator no longer writes there.
	Ready       bool   `json:"ready"`
	SafeToWrite bool   `json:"safe_to_write"`
	Schema      string `json:"schema"`
	Name        string `json:"name"`
	// Group is the group of tables that are cut over together.
	Group  string    `json:"group"`
	Tables []string  `json:"tables"`
	At     time.Time `json:"at"`
	// Step is none before the first attempt.
	Step     string     `json:"step"`
	StepAt   *time.Time `json:"step_at"`
	Attempt  uint32     `json:"attempt"`
	Rehearse bool       `json:"rehearsal"`
	Approved bool       `json:"approved"`
	// Driver is the process that drives the cutover; null if no process does.
	Driver  *string `json:"driver"`
	Idle    int     `json:"idle"` // number of workers that idle after the switch
	Trouble *string `json:"trouble"`
	// MomentAt is the time at which a short freeze is expected to be possible. It is null if the
	// attempt does not wait for such a moment.
	MomentAt *time.Time `json:"moment_at"`
	Reason   *string    `json:"reason"` // why the cutover was cancelled
	// FrozenSeconds is how long the application's writes were frozen, or have been frozen.
	// FrozenAtLeast is the minimum length of a freeze; 0 if the application may be quiet.
	FrozenSeconds float64 `json:"frozen_seconds"`
	FrozenAtLeast float64 `json:"frozen_at_least_seconds"`
	// Quiet reports that the application promised, when it was frozen, that its own writes to
	// Bigtable have ended. MayBeQuiet reports that its hook freeze_writes may promise that.
	Quiet      bool `json:"quiet"`
	MayBeQuiet bool `json:"may_be_quiet"`
	// FrozenAtMost is the longest freeze that may be expected when it begins. If RaisedBy is not
	// empty, it lists the settings that make this longer than cutover.freeze_at_most.
	FrozenAtMost float64  `json:"frozen_at_most_seconds"`
	RaisedBy     []string `json:"raised_by"`
	// WouldFreeze is how long a cutover would have frozen writes, according to a complete
	// rehearsal. It is 0 without such a rehearsal.
	WouldFreeze float64 `json:"would_freeze_seconds"`
	// ExpectedFreeze is how long the next cutover is expected to freeze writes; Measured reports that the
	// last attempt took that long. ExpectedWait is how long it is expected to wait for a moment at which
	// the freeze is short. They are null unless gates are judged.
	ExpectedFreeze *float64                 `json:"expected_freeze_seconds"`
	Measured       bool                     `json:"expected_freeze_measured"`
	ExpectedWait   *float64                 `json:"expected_wait_seconds"`
	Gates          []checkpoint.CutoverGate `json:"gates"`
	Deadlines      []Deadline               `json:"deadlines"`
	WayBack        []WayBack                `json:"way_back"`
	KeepFallback   bool                     `json:"keep_fallback"`
	// Direction is forward, or back in a rollback. CanRollBack and Fallbacks are there while DynamoDB
	// follows the rows; otherwise CanRollBack is null and Fallbacks is empty.
	Direction   string                    `json:"direction"`
	CanRollBack *status.CanRollBack       `json:"can_roll_back"`
	Fallbacks   []FallbackState           `json:"fallbacks"`
	Timeline    []checkpoint.CutoverEvent `json:"timeline"`
	Hooks       []checkpoint.CutoverHook  `json:"hooks"`
	Proofs      []checkpoint.CutoverProof `json:"proofs"`
	// GivenUp are the abandoned tries of the request. Tries is the number of tries that it may
	// have.
	GivenUp    []checkpoint.CutoverTry       `json:"given_up"`
	Tries      int                           `json:"tries"`
	Strays     int                           `json:"strays"`
	Stragglers []checkpoint.CutoverStraggler `json:"stragglers"`
	// StrayKeys are the keys of stragglers that the streams still hold, by the keys' hashes.
	// StrayKeys is null unless the command asked for the keys.
	StrayKeys  map[string]json.RawMessage `json:"stray_keys"`
	WatchUntil *time.Time                 `json:"watch_until"`
	// WatchedTo is the time up to which the streams were read after the freeze. Unwatched are the
	// periods in which no process read them.
	WatchedTo   *time.Time                    `json:"watched_to"`
	Unwatched   []checkpoint.CutoverUnwatched `json:"unwatched"`
	FinalizedAt *time.Time                    `json:"finalized_at"`
	NextSteps   []standing.NextStep           `json:"next_steps"`

	forecast []string // what is expected, a sentence each
	titles   map[string]string
	flagged  bool // there are several groups, so texts and commands name this one
}

// Deadline is the maximum duration of a step, and what happens when that time has passed.
type Deadline struct {
	Step    string  `json:"step"`
	Seconds float64 `json:"seconds"` // 0 for no deadline
	Then    string  `json:"then"`
}

// WayBack reports whether a table's items could follow its rows after the switch. If so, Lost lists
// what they would not get from the rows. If not, Lost lists the reasons.
type WayBack struct {
	Table    string   `json:"table"`
	Possible bool     `json:"possible"`
	Lost     []string `json:"lost"`
}

// input holds the data from which a document is made.
type input struct {
	cfg     *config.Config
	group   group
	record  checkpoint.Cutover
	gates   []checkpoint.CutoverGate
	tables  []config.Table
	wayBack []WayBack
	driver  string
	idle    int
	// The ways back of the tables, and the gates of a rollback; empty if there is no way back.
	fallbacks   []checkpoint.Fallback
	canRollBack []checkpoint.CutoverGate
	// The forecast for a cutover with the plan; nil if gates are not judged.
	forecast *forecast
	with     string
	// The probe of the hook freeze_writes reports that the application may be quiet.
	mayBeQuiet bool
}

// judge makes the document from the data that was read.
func judge(in input, now time.Time) *Document {
	c := in.record.Latest()
	d := &Document{
		Schema: schemaName, Name: in.cfg.Name, Group: cmp.Or(c.Group, in.group.Name), Tables: append([]string{}, sourcesOf(in.tables)...), At: now.UTC(), Step: "none", StepAt: terminal.Known(c.StepAt), Attempt: c.Attempt, Rehearse: c.Rehearse, Approved: c.Approved,
		Driver: terminal.Known(in.driver), Idle: in.idle, Trouble: terminal.Known(c.Trouble), WouldFreeze: c.WouldFreeze().Seconds(), MomentAt: terminal.Known(c.MomentAt), Reason: terminal.Known(c.Reason), FrozenSeconds: c.FrozenFor(now).Seconds(), FrozenAtLeast: settled(in.cfg, in.tables).Seconds(),
		Quiet: c.Quiet, MayBeQuiet: c.MayBeQuiet || in.mayBeQuiet,
		Gates: append([]checkpoint.CutoverGate{}, in.gates...), WayBack: append([]WayBack{}, in.wayBack...), KeepFallback: c.KeepFallback,
		Timeline: append([]checkpoint.CutoverEvent{}, c.Timeline...), Hooks: append([]checkpoint.CutoverHook{}, c.Hooks...), Proofs: append([]checkpoint.CutoverProof{}, c.Proofs...),
		GivenUp: append([]checkpoint.CutoverTry{}, c.GivenUp...), Tries: cmp.Or(c.Tries, 1), Strays: c.Strays, Stragglers: append([]checkpoint.CutoverStraggler{}, c.Stragglers...), FinalizedAt: terminal.Known(c.FinalizedAt),
		WatchedTo: terminal.Known(c.WatchedTo), Unwatched: append([]checkpoint.CutoverUnwatched{}, c.Unwatched...), NextSteps: []standing.NextStep{}, Fallbacks: []FallbackState{},
		titles: titles(in.cfg), flagged: !in.group.alone,
	}
	for i := range d.Gates {
		if strings.HasPrefix(d.Gates[i].Cure, "replicator ") { // other cures are not commands
			d.Gates[i].Cure += in.with
		}
	}
	if c.Attempt > 0 {
		d.Step = string(c.Step)
		if len(c.Tables) > 0 {
			d.Tables = append([]string{}, c.Tables...)
		}
	}
	if c.Step == checkpoint.CutoverWatching && c.Direction == checkpoint.Forward && !c.HasFallback() {
		until := c.SwitchedAt.Add(c.WatchFor).UTC()
		d.WatchUntil = &until
	}
	if d.MayBeQuiet {
		d.FrozenAtLeast = 0
	}
	most, raisedBy := in.cfg.FreezeAtMost(in.tables, d.MayBeQuiet)
	d.FrozenAtMost, d.RaisedBy = most.Seconds(), append([]string{}, raisedBy...)
	d.Ready = len(d.Gates) > 0 && len(readiness.Open(d.Gates)) == 0 && c.Step.Over()
	d.SafeToWrite = in.record.SafeToWrite() // before the switch, its hook may still refuse
	d.Direction = c.Direction.String()
	if in.record.HasFallback() {
		d.CanRollBack = status.CanRollBackOf(in.record, in.canRollBack)
		d.following(in.fallbacks, now)
	}
	const resumes = "the try is abandoned: the application writes to DynamoDB again, and the tables resume"
	d.Deadlines = append(d.Deadlines, Deadline{"freeze", in.cfg.FreezeWithin().Seconds(), resumes},
		Deadline{"frozen", in.cfg.FreezeDeadline(in.tables).Seconds(), resumes})
	d.Deadlines = append(d.Deadlines, Deadline{"switching", 0, "no deadline and no cancel: the hook is called until it answers, or until `replicator cutover resolve` confirms the outcome"})
	if f := in.forecast; f != nil {
		freeze, wait := f.Freeze.Seconds(), f.Wait.Seconds()
		d.ExpectedFreeze, d.ExpectedWait, d.Measured, d.forecast = &freeze, &wait, f.Measured, f.Lines(f.plan, f.shards)
	}
	d.advise(c, in.with)
	return d
}

// strayLines returns how many stragglers are listed. If the command asked for keys, all stragglers
// are listed.
func (d *Document) strayLines() int {
	if d.StrayKeys != nil {
		return len(d.Stragglers)
	}
	return 5
}

// keyOf describes the key of a straggler, if the command asked for keys.
func (d *Document) keyOf(hash string) string {
	switch key, found := d.StrayKeys[hash]; {
	case d.StrayKeys == nil:
		return ""
	case !found:
		return ": the stream no longer has its key"
	default:
		return ": " + diag.Printable(string(key))
	}
}

// named names the tables of the cutover in messages.
func (d *Document) named() string {
	if d.flagged {
		return "group " + d.Group + " of " + d.Name
	}
	return d.Name
}

// forecast is what is expected of a cutover with a plan.
type forecast struct {
	expected.Forecast
	plan   checkpoint.CutoverPlan
	shards int // number of open shards
}

// foretell returns the forecast for a cutover of a group.
func (o *Operator) foretell(ctx context.Context, g group, plan checkpoint.CutoverPlan, last checkpoint.Cutover, quiet bool) (*forecast, error) {
	f := &forecast{plan: plan}
	for _, t := range g.Tables {
		state, _, err := o.Ledger.Table(ctx, t.From)
		if err != nil {
			return nil, err
		}
		shards, err := o.Ledger.Shards(ctx, t.From)
		if err != nil {
			return nil, err
		}
		f.shards += len(standing.Open(state, shards))
	}
	f.Forecast = expected.Foretell(plan, f.shards, last, quiet)
	return f, nil
}

// settled returns the minimum length of a freeze.
func settled(cfg *config.Config, tables []config.Table) (d time.Duration) {
	for _, t := range tables {
		d = max(d, cfg.Late(t))
	}
	return d
}

// advise adds the next steps to the document.
func (d *Document) advise(c checkpoint.Cutover, with string) {
	next := func(command, why string) {
		d.NextSteps = append(d.NextSteps, standing.NextStep{Command: standing.Command(command, "", with), Why: why})
	}
	undriven := c.Step.Active() && d.Driver == nil
	switch {
	case undriven:
		next("run", "no process drives the cutover; start a worker that can call the hooks")
	case c.Step == checkpoint.CutoverRequested && !c.Approved:
		next("cutover approve", "the cutover waits for approval until "+c.Expires.UTC().Format(time.RFC3339))
	case c.Step == checkpoint.CutoverSwitching:
		next("cutover resolve --switched yes|no", "use it if the hook does not answer, but you know whether the application has switched")
	case c.Step.Cancellable():
		next("cutover cancel", "possible until the switch")
	case d.CanRollBack != nil && d.CanRollBack.Ready:
		next("cutover rollback --dry-run", "DynamoDB follows; the application can be moved back")
		next("cutover end-fallback", "use it when no way back is needed any more")
	case d.CanRollBack != nil:
		next("cutover status", "the application cannot be moved back now: "+strings.Join(d.CanRollBack.Reasons, "; "))
	case c.Direction == checkpoint.Back: // the state of the tables says what follows
	case c.Step == checkpoint.CutoverWatching && c.Unanswered() > 0:
		next("cutover status", "DynamoDB has changes that Bigtable lacks: find the writer, and correct Bigtable")
	case c.Step == checkpoint.CutoverDone && c.Unanswered() > 0:
		next(fmt.Sprintf("finalize --dry-run --strays-seen %d", c.Strays), "DynamoDB has changes that Bigtable lacks: correct the rows, then confirm with --strays-seen")
	case c.Step == checkpoint.CutoverDone && c.FinalizedAt.IsZero():
		next("finalize --dry-run", "the watch for late writers has ended; list what finalize would remove from the target")
	case c.Step.Over() && d.Ready:
		keep := "yes"
		if slices.ContainsFunc(d.WayBack, func(w WayBack) bool { return !w.Possible }) {
			keep = "no"
		}
		next("cutover start --dry-run --keep-fallback "+keep, "rehearse everything except freeze and switch")
	}
}

// titles returns the text of each gate, with its limit.
func titles(cfg *config.Config) map[string]string {
	r := cfg.Cutover.ReadyWhen
	return map[string]string{
		readiness.GateCopy: "copy complete", readiness.GateLag: "lag below " + timespan.Format(r.LagBelow), readiness.GateVerify: "verify clean within " + timespan.Format(r.VerifyWithin),
		readiness.GateFull: "full verify within 1d", readiness.GateParked: fmt.Sprintf("parked items at most %d", r.ParkedAtMost),
		readiness.GateHeadroom: "retention headroom > " + timespan.Format(r.Headroom), readiness.GateFence: "late writes rejected",
		readiness.GateFallback: "a way back is possible", readiness.GateFollowing: "DynamoDB follows", readiness.GateCarried: "every row can be carried",
		readiness.GateBehind: "DynamoDB is not behind", readiness.GateLeader: "no former leader's request",
	}
}

// render writes the document as text. If `whole` is true, it includes the timeline.
func (d *Document) render(w io.Writer, whole bool) error {
	var b strings.Builder
	if d.flagged {
		fmt.Fprintf(&b, "group %s: %s\n", d.Group, strings.Join(d.Tables, ", "))
	}
	for _, name := range slices.Concat(readiness.GateNames, readiness.WayBackGates) {
		d.writeGate(&b, name)
	}
	if len(d.Gates) > 0 {
		switch open := len(readiness.Open(d.Gates)); {
		case open == 0:
			fmt.Fprintln(&b, "ready")
		case open == 1:
			fmt.Fprintln(&b, "not ready: 1 check fails")
		default:
			fmt.Fprintf(&b, "not ready: %d checks fail\n", open)
		}
		d.writeDeadlines(&b)
	}
	if d.Attempt > 0 {
		d.writeAttempt(&b, whole)
	}
	_ = standing.WriteNext(&b, d.NextSteps) // a strings.Builder returns no error
	_, err := io.WriteString(w, b.String())
	return err
}

// writeGate writes one line for all tables for which the gate is ready, and one line for each other
// table.
func (d *Document) writeGate(b *strings.Builder, name string) {
	ready, all, figure := 0, 0, ""
	for _, g := range d.Gates {
		if g.Name != name {
			continue
		}
		all++
		switch {
		case g.Ready:
			ready++
			figure = g.Figure
		case g.Overridden != "":
			fmt.Fprintf(b, "! %-28s %s: %s   overridden: %s\n", d.titles[name], g.Table, g.Figure, g.Overridden)
		default:
			fmt.Fprintf(b, "✗ %-28s %s: %s   → %s\n", d.titles[name], g.Table, g.Figure, g.Cure)
		}
	}
	if all > 0 && ready == all {
		if all > 1 {
			figure = fmt.Sprintf("%d of %d tables", ready, all)
		}
		fmt.Fprintf(b, "✓ %-28s %s\n", d.titles[name], figure)
	}
}

func (d *Document) writeDeadlines(b *strings.Builder) {
	if d.Attempt > 0 && d.Step != string(checkpoint.CutoverCancelled) && d.Step != string(checkpoint.CutoverRehearsed) {
		return
	}
	var limits []string
	for _, l := range d.Deadlines {
		if l.Seconds > 0 {
			limits = append(limits, l.Step+" "+timespan.Format(time.Duration(l.Seconds*float64(time.Second))))
		}
	}
	fmt.Fprintf(b, "\ndeadlines: %s; if one passes, the application resumes\n", strings.Join(limits, ", "))
	fmt.Fprintf(b, "writes are frozen only when the freeze is expected to last at most %s", timespan.Format(time.Duration(d.FrozenAtMost*float64(time.Second))))
	if len(d.RaisedBy) > 0 {
		fmt.Fprintf(b, " (cutover.freeze_at_most, raised by %s)", strings.Join(d.RaisedBy, ", and by "))
	}
	fmt.Fprintln(b)
	for _, line := range d.forecast {
		fmt.Fprintln(b, line)
	}
	if d.FrozenAtLeast > 0 {
		fmt.Fprintf(b, "the freeze lasts at least %s, because dual writes are settled (dual_writes.settle), unless freeze_writes answers quiet\n", timespan.Format(time.Duration(d.FrozenAtLeast*float64(time.Second))))
	}
	for _, t := range d.WayBack {
		switch {
		case !t.Possible:
			fmt.Fprintf(b, "no fallback for %s after the switch: %s\n", t.Table, strings.Join(t.Lost, "; "))
		case len(t.Lost) > 0:
			fmt.Fprintf(b, "a fallback for %s has limits: %s\n", t.Table, strings.Join(t.Lost, "; "))
		}
	}
}

func (d *Document) writeAttempt(b *strings.Builder, whole bool) {
	if b.Len() > 0 {
		fmt.Fprintln(b)
	}
	kind := "cutover"
	switch {
	case d.Rehearse:
		kind = "rehearsal"
	case d.Direction == checkpoint.Back.String():
		kind = "rollback"
	}
	fmt.Fprintf(b, "%s, attempt %d: %s", kind, d.Attempt, d.Step)
	if d.StepAt != nil {
		fmt.Fprintf(b, ", for %s", backfill.FormatDuration(max(d.At.Sub(*d.StepAt), 0)))
	}
	if d.FrozenSeconds > 0 {
		fmt.Fprintf(b, "; writes were frozen for %s", backfill.FormatDuration(time.Duration(d.FrozenSeconds*float64(time.Second))))
	}
	if d.WouldFreeze > 0 {
		fmt.Fprintf(b, "; a cutover would have frozen writes for about %s", backfill.FormatDuration(time.Duration(d.WouldFreeze*float64(time.Second))))
	}
	fmt.Fprintln(b)
	for i, t := range d.GivenUp {
		fmt.Fprintf(b, "  try %d of %d was abandoned: %s\n", i+1, d.Tries, t.Reason)
	}
	for _, line := range []struct {
		word string
		text *string
	}{{"cancelled", d.Reason}, {"waits", d.Trouble}, {"driven by", d.Driver}} {
		if line.text != nil {
			fmt.Fprintf(b, "  %s: %s\n", line.word, *line.text)
		}
	}
	d.writeFallbacks(b)
	if d.WatchUntil != nil {
		fmt.Fprintf(b, "  watching for late writers until %s\n", d.WatchUntil.Format(time.RFC3339))
	}
	if d.Idle > 0 {
		fmt.Fprintf(b, "  idle: %s\n", terminal.Plural(d.Idle, "worker"))
	}
	for _, gap := range d.Unwatched {
		fmt.Fprintf(b, "  not watched from %s to %s: %s\n", gap.From.Format(time.RFC3339), gap.Until.Format(time.RFC3339), gap.Why)
	}
	if d.Strays > 0 {
		which := "after the freeze"
		if slices.ContainsFunc(d.Stragglers, func(s checkpoint.CutoverStraggler) bool { return s.Tail }) {
			which = "that the target lacks"
		}
		fmt.Fprintf(b, "  %s %s\n", terminal.Plural(d.Strays, "change"), which)
		for _, s := range d.Stragglers[:min(len(d.Stragglers), d.strayLines())] {
			tail := ""
			if s.Tail {
				tail = " (late tail: before the freeze)"
			}
			fmt.Fprintf(b, "    item %s of table %s, at %s%s%s\n", s.Key, s.Table, s.At.Format(time.RFC3339), tail, d.keyOf(s.Key))
		}
	}
	if !whole {
		return
	}
	for _, e := range d.Timeline {
		if e.By != "" {
			e.Text += " (" + e.By + ")"
		}
		fmt.Fprintf(b, "  %s  %-10s  %s\n", e.At.Format(time.RFC3339), e.Step, e.Text)
	}
	for _, h := range d.Hooks {
		fmt.Fprintf(b, "  hook %s, token %s: %s after %s\n", h.Name, h.Token, h.Outcome, backfill.FormatDuration(max(h.Ended.Sub(h.Began), 0)))
		for line := range strings.Lines(strings.TrimSpace(h.Output)) {
			fmt.Fprintf(b, "    %s\n", strings.TrimRight(line, "\n"))
		}
	}
	for _, p := range d.Proofs {
		fmt.Fprintf(b, "  drained: %s %s: %s\n", p.Table, p.Shard, p.How)
	}
}

// open returns the names of the gates that prevent a start.
func (d *Document) open() (names []string) {
	for _, g := range readiness.Open(d.Gates) {
		if !slices.Contains(names, g.Name) {
			names = append(names, g.Name)
		}
	}
	return names
}
