package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// cutoverChecks is what the checkers of a run with cutovers know. They hold records against what
// the application was told, and what the world did.
type cutoverChecks struct {
	d         *cutoverRun
	tokens    map[string]bool          // of all calls of hooks
	calls     map[string]time.Duration // by hook, when it was called last
	strays    []stray
	looked    map[string]time.Duration // by shard, when a driver read it last
	parked    map[string][]string      // by table, the hashes of what was parked as the freeze began
	entered   time.Duration            // when the cutover entered its step
	attended  time.Duration            // since when a driver was awake at every look
	driven    time.Duration            // when a driver was last seen awake
	unwatched bool                     // nobody watched for longer than a stream keeps what was written
	switched  time.Duration            // when the cutover came to its switch
	hurt      *cutTable                // a row of its target is not as it was written; nil: all are
	tail      *cutTable                // its item hotKey has a change that the stream hides until the switch; nil: none has
}

// stray is a change of a source that was made after the freeze.
type stray struct {
	table   *cutTable
	key     string
	at      time.Time
	shard   string
	attempt uint32
}

func newCutoverChecks(d *cutoverRun) cutoverChecks {
	c := cutoverChecks{d: d, tokens: map[string]bool{}, calls: map[string]time.Duration{}, looked: map[string]time.Duration{}, parked: map[string][]string{}}
	for _, t := range d.tables {
		t.Source.Fault = func(op, shard string) error {
			if op == "GetRecords" && strings.HasPrefix(d.World.Running(), d.drivers.kind) {
				c.looked[t.Source.Name+"/"+shard] = d.World.Elapsed()
			}
			return nil
		}
	}
	return c
}

// executed sees every write of ours: the checkers of each table do, and those of the cutover.
func (d *cutoverRun) executed(table, key string, before, after *model.Row) {
	shard := table == model.StateTable && strings.HasPrefix(key, "default/shard/")
	for _, t := range d.tables {
		if !shard || strings.HasPrefix(key, "default/shard/"+t.Source.Name+"/") {
			t.check(table, key, before, after)
		}
	}
	d.misapplied(table, key)
	c := d.record()
	if c.Step.Switched() || c.Step == checkpoint.CutoverSwitching {
		if slices.Contains(c.Targets, table) && !strings.HasPrefix(key, transform.WitnessPrefix) {
			d.fail("H78: row %q is written while the cutover stands at %s", key, c.Step)
		}
	}
	if name, ok := strings.CutPrefix(key, "default/table/"); ok && table == model.StateTable && c.Step.Switched() {
		d.checks.tableWritten(name, before, after)
	}
	if table != model.StateTable || key != d.recordKey() {
		return
	}
	was, _ := decoded[checkpoint.Cutover](before)
	is, ok := decoded[checkpoint.Cutover](after)
	if ok && was != nil {
		d.sees(*was, *is)
		d.expires(*was, *is)
		if moved := is.Deadline.Sub(was.Deadline); was.Attempt == is.Attempt && !was.Deadline.IsZero() && !is.Deadline.IsZero() && moved != 0 {
			d.fail("H145: the deadline of attempt %d moves by %s", is.Attempt, moved)
		}
	}
	if !ok || was != nil && was.Step == is.Step && was.Attempt == is.Attempt {
		return
	}
	d.World.Inject("step " + string(is.Step))
	d.World.Tracef("CUTOVER %d %s: %s %s", is.Attempt, is.Step, is.Reason, is.Trouble)
	d.tellApart(*is)
	d.checks.enters(*is)
	d.strike(is.Step)
}

// enters checks what must hold as a step begins.
func (k *cutoverChecks) enters(c checkpoint.Cutover) {
	k.entered = k.d.World.Elapsed()
	switch c.Step {
	case checkpoint.CutoverRequested:
		if k.d.app.frozen {
			k.d.fail("H92: attempt %d begins, and the application is frozen", c.Attempt)
		}
		if len(c.GivenUp) > 0 {
			k.d.World.Inject("another try")
		}
	case checkpoint.CutoverFreeze:
		k.freezes(c)
	case checkpoint.CutoverVerify:
		if c.Rehearse {
			return
		}
		for _, line := range k.unlike(c) {
			known := k.hurt != nil && strings.HasPrefix(line, k.hurt.line("k1"))
			if !known && !strings.Contains(line, "forgotten") { // who may have written a moment ago
				k.d.fail("H59: the drain is over while source and target differ: %s", line)
				return
			}
		}
	case checkpoint.CutoverSwitching:
		k.switched = k.entered
		k.switching(c)
	case checkpoint.CutoverDone:
		if c.FencedAt.IsZero() {
			k.d.fail("H145: done, and late writes are not rejected yet")
		}
	case checkpoint.CutoverCancelled:
		if k.d.app.frozen {
			k.d.fail("H92: attempt %d is cancelled, and the application is frozen", c.Attempt)
		}
	}
}

// tablesOf are those of an attempt.
func (k *cutoverChecks) tablesOf(c checkpoint.Cutover) (tables []*cutTable) {
	for _, t := range k.d.tables {
		if slices.Contains(c.Tables, t.Source.Name) {
			tables = append(tables, t)
		}
	}
	return tables
}

// parkedOf are the hashes of a table's parked items.
func (k *cutoverChecks) parkedOf(t *cutTable) (items []string) {
	for _, row := range k.d.Target.RowsUnder(model.StateTable, "default/parked/"+t.Source.Name+"/") {
		_, hash, _ := sink.Ref(strings.TrimPrefix(row, "default/parked/")).Parts()
		if !slices.Contains(items, hash) {
			items = append(items, hash)
		}
	}
	return items
}

// freezes: the application is stopped only if every gate is open that no operator may pass: nothing
// is known to differ, to be lost, or to be parked beyond what is allowed, and what was written some
// time ago is applied.
func (k *cutoverChecks) freezes(c checkpoint.Cutover) {
	d := k.d
	k.parked = map[string][]string{}
	for _, t := range k.tablesOf(c) {
		s, name := t.State(), t.Source.Name
		k.parked[name] = k.parkedOf(t)
		switch {
		case !s.Loaded() || s.NeedsLoad:
			d.fail("I9: the application is frozen while table %s needs a load", name)
		case s.Verify.Result.Differing() > 0 || s.Sampled.Differing > 0:
			d.fail("I9: the application is frozen while rows of table %s are known to differ", name)
		case len(k.parked[name]) > d.allowed && !overrides(c, readiness.GateParked):
			d.fail("I9: the application is frozen while %d items of table %s are parked", len(k.parked[name]), name)
		}
		k.brief(c, t)
		bound := lagBound + 3*d.Lease + 2*d.Late + 2*time.Minute
		for pk, told := range inOrder(t.told) {
			if d.World.Elapsed()-told.at > bound && !told.badly && k.hurt != t && !k.hides(t, pk) && k.valueOf(t, pk) != told.value {
				d.fail("I9: the application is frozen, and item %s of table %s is not applied since %s", pk, name, d.World.Elapsed()-told.at)
			}
		}
	}
}

// brief: the application is not frozen while it is known that a shard's children may be listed for
// longer than a freeze may last. Who looked may have seen a shard of the last minute being read.
func (k *cutoverChecks) brief(c checkpoint.Cutover, t *cutTable) {
	now := k.d.World.Now()
	for _, sh := range t.Shards() {
		left := sh.DoneAt.Add(listedWithin).Sub(now)
		if sh.Label == t.State().Label && sh.State == checkpoint.Done && !sh.Complete && now.Sub(sh.DoneAt) > time.Minute && left > c.AtMost() {
			k.d.fail("H145: the application is frozen while children of shard %s may be listed for %s", sh.ID, left)
		}
	}
}

func overrides(c checkpoint.Cutover, gate string) bool {
	return slices.ContainsFunc(c.Overrides, func(o checkpoint.CutoverOverride) bool { return o.Gate == gate })
}

// switching: no gate is open that nobody passed, each table was compared as a whole after the
// freeze, nothing was lost or parked since, every former number of the fence is dropped, and no
// driver has read that somebody writes.
func (k *cutoverChecks) switching(c checkpoint.Cutover) {
	d := k.d
	if open := readiness.Open(c.Gates); len(c.Gates) == 0 || len(open) > 0 {
		d.fail("I9: switching with gates %v open", open)
	}
	for _, g := range c.Gates {
		if !g.Ready && (g.Binding || !slices.Contains(readiness.Overridable, g.Name)) {
			d.fail("I9: switching with gate %s overridden", g.Name)
		}
	}
	if c.FrozenAt.IsZero() || c.GoneAt.IsZero() || c.FencedAt.IsZero() == c.FencesFirst() || !d.app.frozen {
		d.fail("H93: switching without a freeze, goodbyes, or a fence")
	}
	for _, t := range k.tablesOf(c) {
		s, name := t.State(), t.Source.Name
		switch final := c.Verified[name]; {
		case s.NeedsLoad:
			d.fail("I5: switching while table %s needs a load", name)
		case final.Number != c.Finals[name] || !final.Clean() || final.EndedAt.Before(c.FrozenAt):
			d.fail("I9: switching, and the final verify of table %s is %d, %s", name, final.Number, final.Verdict(d.World.Now()))
		}
		for _, hash := range k.parkedOf(t) {
			if !slices.Contains(k.parked[name], hash) {
				d.fail("I9: switching, and an item of table %s was parked since the freeze", name)
			}
		}
		pipeline := recordOf[pipelineRecord](d.Target.Row(model.StateTable, "default/pipeline"))
		for _, family := range d.Target.Families(t.Mapping.Table) {
			if n, own, _ := sink.ParseFence(pipeline.Ledger, family); own && n < max(c.Raised[t.Mapping.Table], c.Fences[t.Mapping.Table]) && d.fences.published[t.Mapping.Table+"/"+family] != nil {
				d.fail("H35: switching while family %s stands", family)
			}
		}
	}
	for _, s := range k.strays {
		if s.attempt == c.Attempt && k.late(c, s) && !k.excused(s) {
			d.fail("H94: switching, although a driver read the shard after item %s of table %s was changed", s.key, s.table.Source.Name)
		}
	}
}

// tableWritten: after the switch no table of a pattern is begun, but by who stood still since
// before it, or by a request of then. A table that is refused has a record, and no generation.
func (k *cutoverChecks) tableWritten(name string, before, after *model.Row) {
	was, known := decoded[checkpoint.TableState](before)
	is, exists := decoded[checkpoint.TableState](after)
	if !exists || is.Generation == 0 || known && was.Generation > 0 || k.d.World.Elapsed() < k.switched+2*k.d.Target.LateBy {
		return
	}
	for _, until := range k.d.workers.asleep {
		if until > k.switched {
			return
		}
	}
	k.d.fail("H115: table %s is begun after the application has switched", name)
}

// late reports whether a stray was surely made after the freeze.
func (k *cutoverChecks) late(c checkpoint.Cutover, s stray) bool {
	return !c.FrozenAt.IsZero() && s.at.After(c.FrozenAt.Add(2*time.Second))
}

// excused reports whether no driver has read the stray's shard since it was made.
func (k *cutoverChecks) excused(s stray) bool {
	at, read := k.looked[s.table.Source.Name+"/"+s.shard]
	return !read || !simEpoch.Add(at).After(s.at)
}

// switches looks at the world at the moment of the switch.
func (k *cutoverChecks) switches() {
	d := k.d
	if d.app.switched {
		return
	}
	c := d.record()
	if c.Quiet {
		d.World.Inject("quiet application switches")
	}
	unlike, lost := k.unlike(c), k.lost(c)
	switch {
	case c.Step != checkpoint.CutoverSwitching:
		d.fail("H109: the application switches while the cutover stands at %s", c.Step)
	case !d.app.frozen:
		d.fail("H93: the application switches without having been frozen")
	case len(unlike) > 0:
		d.fail("H59: the application switches while source and target differ: %s", unlike[0])
	case len(lost) > 0:
		d.fail("H59: the application switches, and the target lacks what it was told is durable: %s", lost[0])
	}
}

// called: no two calls of hooks have one token, and nobody is asked to switch after an operator
// said that it was not.
func (k *cutoverChecks) called(name, token string) {
	c := k.d.record()
	if k.tokens[token] {
		k.d.fail("H110: two calls of hooks have token %s", token)
	}
	k.tokens[token], k.calls[name] = true, k.d.World.Elapsed()
	if attempt := fmt.Sprint(c.Attempt, "."); name == cutover.Switch && c.Answer == "no" && strings.HasPrefix(token, attempt) {
		k.d.fail("H109: the switch is called with token %s after an operator answered no", token)
	}
}

// attends: while somebody could drive, no step of a freeze outlasts its deadline, and a hook that
// did not answer is asked again.
func (k *cutoverChecks) attends() {
	d, now, c := k.d, k.d.World.Elapsed(), k.d.record()
	if !d.drivers.awake() {
		k.attended = now
		return
	}
	if c.Step == checkpoint.CutoverWatching && k.attended-max(k.driven, k.entered) > 25*time.Hour {
		d.World.Inject("nobody watched for a day")
		k.unwatched = true
	}
	k.driven = now
	const grace = 6 * time.Minute
	since := max(k.attended, k.entered)
	limit, _ := c.Overdue(d.World.Now())
	asked := func(hook string) time.Duration { return max(since, k.calls[hook]+10*time.Minute) }
	_, frozen := c.FrozenSince()
	switch {
	case !frozen:
	case c.Step.Cancellable() && limit == 0:
		d.fail("H92: the application is frozen in step %s, which has no deadline", c.Step)
	case c.Step == checkpoint.CutoverDrain && now > max(k.attended, k.entered+c.Limit())+grace:
		d.fail("H145: the drain of a frozen application takes %s, and may take %s", now-k.entered, c.Limit())
	case c.Step.Cancellable() && now > max(k.attended, c.Deadline.Sub(simEpoch))+grace:
		d.fail("H92: the deadline of the freeze was %s ago, and the application is frozen in step %s", d.World.Now().Sub(c.Deadline), c.Step)
	case c.Step.Cancellable() && now > max(k.attended, k.entered+limit)+grace:
		d.fail("H92: step %s began %s ago, its deadline is %s, and the application is frozen", c.Step, now-k.entered, limit)
	case c.Step == checkpoint.CutoverCancelling && c.UnfrozenAt.IsZero() && now > asked(cutover.UnfreezeWrites)+grace:
		d.fail("H92: nobody asks the application to go on since %s", now-k.calls[cutover.UnfreezeWrites])
	case c.Step == checkpoint.CutoverSwitching && now > asked(cutover.Switch)+grace:
		d.fail("H109: nobody asks the application to switch since %s", now-k.calls[cutover.Switch])
	}
}

// valueOf is what the application finds in a row of the target; "" is nothing.
func (k *cutoverChecks) valueOf(t *cutTable, pk string) string {
	value, _ := k.d.Target.Row(t.Mapping.Table, pk+"#s").Value("d", "value")
	return value
}

// lost is what the application was told is durable, and the target of an attempt's tables does not
// hold.
func (k *cutoverChecks) lost(c checkpoint.Cutover) (lost []string) {
	for _, t := range k.tablesOf(c) {
		for pk, told := range inOrder(t.told) {
			if have := k.valueOf(t, pk); have != told.value && !k.leftBehind(c, t, pk) {
				lost = append(lost, fmt.Sprintf("%s of table %s is %q, and should be %q", pk, t.Source.Name, have, told.value))
			}
		}
	}
	return lost
}

// leftBehind reports whether an item may be missing: it was parked when the checks ended, or the
// stream hides its last change.
func (k *cutoverChecks) leftBehind(c checkpoint.Cutover, t *cutTable, pk string) bool {
	return k.hides(t, pk) || slices.Contains(c.Parked[t.Source.Name], hashOfItem(t.Mapping, keysOf(pk)))
}

// hides reports whether the stream hides the item's last change.
func (k *cutoverChecks) hides(t *cutTable, pk string) bool { return k.tail == t && pk == hotKey }

// unlike is what differs between source and target, but for canaries, what was left behind, and
// strays that nobody had read.
func (k *cutoverChecks) unlike(c checkpoint.Cutover) (lines []string) {
	for _, t := range k.tablesOf(c) {
		of := func(line, pk string) bool { return strings.HasPrefix(line, t.line(pk)) }
		for _, line := range t.Unequal() {
			excused := strings.Contains(line, canaryPrefix)
			for pk := range t.told {
				excused = excused || of(line, pk) && k.leftBehind(c, t, pk)
			}
			for _, s := range k.strays {
				excused = excused || of(line, s.key) && s.table == t && s.attempt == c.Attempt && k.excused(s)
			}
			if !excused {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// line begins what Unequal says of an item.
func (t *cutTable) line(pk string) string { return fmt.Sprintf("%q", t.Mapping.Table+"/"+pk+"#s") }

// settled tells whether the application writes, and what it writes is where it should be.
func (k *cutoverChecks) settled() error {
	d, c := k.d, k.d.record()
	for _, t := range d.tables {
		if !c.Step.Active() && slices.ContainsFunc(t.Source.Items(), isCanary) {
			return fmt.Errorf("after %s there is a canary in table %s", c.Step, t.Source.Name)
		}
	}
	switch {
	case c.Step.Active():
		return fmt.Errorf("the cutover stands at %s: %s", c.Step, c.Trouble)
	case c.Step == checkpoint.CutoverDone && !d.app.switched:
		return fmt.Errorf("the cutover is done, and the application has not switched")
	case c.Step == checkpoint.CutoverDone:
		if lost := k.lost(c); len(lost) > 0 {
			return fmt.Errorf("a write is lost: %s", lost[0])
		}
		return k.known(c)
	case d.app.frozen || d.app.switched:
		return fmt.Errorf("after %s the application is frozen, or has switched", c.Step)
	case d.began > 0 && len(d.main.Gaps) == 0 && d.State().Generation != d.began:
		return fmt.Errorf("the generation rose from %d to %d", d.began, d.State().Generation)
	}
	k.tail = nil // the hidden shard was listed when the attempt ended
	all := checkpoint.Cutover{}
	for _, t := range d.tables {
		all.Tables = append(all.Tables, t.Source.Name)
	}
	if diff := append(k.unlike(all), k.lost(all)...); len(diff) > 0 {
		return fmt.Errorf("%s: %s", c.Step, diff[0])
	}
	return nil
}

// known tells whether every change after the freeze is known, until the end of the watch, or is of
// a time that nobody watched.
func (k *cutoverChecks) known(c checkpoint.Cutover) error {
	if k.unwatched && len(c.Unwatched) == 0 {
		return fmt.Errorf("H94: nobody watched for more than a day, and the record does not say so")
	}
	if t := k.tail; t != nil && len(c.Unwatched) == 0 && k.valueOf(t, hotKey) != t.told[hotKey].value {
		hash := hashOfItem(t.Mapping, keysOf(hotKey))
		if !slices.ContainsFunc(c.Stragglers, func(o checkpoint.CutoverStraggler) bool { return o.Tail && o.Table == t.Source.Name && o.Key == hash }) {
			return fmt.Errorf("H115: a change from before the freeze was listed after the switch, and nobody knows")
		}
	}
	for _, s := range k.strays {
		if s.attempt != c.Attempt || !k.late(c, s) || s.at.After(c.SwitchedAt.Add(c.WatchFor-time.Minute)) {
			continue
		}
		hash := hashOfItem(s.table.Mapping, keysOf(s.key))
		told := slices.ContainsFunc(c.Stragglers, func(o checkpoint.CutoverStraggler) bool {
			return o.Table == s.table.Source.Name && o.Key == hash && o.At.Equal(s.at.Truncate(time.Second))
		})
		unwatched := slices.ContainsFunc(c.Unwatched, func(u checkpoint.CutoverUnwatched) bool {
			return !s.at.Before(u.From.Add(-2*time.Second)) && !s.at.After(u.Until.Add(2*time.Second))
		})
		if !told && !unwatched && len(c.Stragglers) < 50 {
			return fmt.Errorf("H94: somebody wrote to table %s at %s, after the freeze, and nobody knows", s.table.Source.Name, s.at)
		}
	}
	return nil
}

// stray is a change by somebody who was forgotten.
func (k *cutoverChecks) stray(t *cutTable, pk string, attempt uint32) {
	t.Source.Written = func(w model.Write) {
		if w.Shard != nil {
			k.strays = append(k.strays, stray{table: t, key: pk, at: w.At, shard: w.Shard.ID, attempt: attempt})
		}
	}
	t.Source.Put(itemOf(pk, fmt.Sprint("v", k.d.written)))
	t.Source.Written = nil
}
