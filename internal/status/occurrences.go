package status

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// The kinds of occurrences. The first ones are conditions, which last. The others are steps, which
// happen once.
const (
	OccurGap         = "gap"
	OccurParked      = "parked"
	OccurDiffers     = "differs"
	OccurStalled     = "stalled"
	OccurHeadroom    = "headroom"
	OccurApproval    = "awaiting_approval"
	OccurStrays      = "strays"
	OccurWayBackLost = "way_back_lost"

	OccurCopyDone    = "copy_done"
	OccurInSync      = "in_sync"
	OccurExpired     = "request_expired"
	OccurTryGivenUp  = "try_given_up"
	OccurCutoverStep = "cutover_step"
	OccurDone        = "done"
)

// Occurrence is something of which operators are notified: a condition that applies, or the last
// step of its kind.
type Occurrence struct {
	Kind  string
	Table string // the source table; "" if it concerns no single table
	Group string // the group of a cutover; "" if it concerns no cutover
	// Mark distinguishes a step from earlier steps of the same kind. It is "" for a condition.
	Mark    string
	Since   time.Time // zero if unknown
	Text    string    // what is special about it; without item data
	Command string    // the command to run next; "" if there is none
}

// Occurrences returns the conditions that apply, and the last step of each kind.
func (m *Document) Occurrences() (all []Occurrence) {
	for i := range m.Tables {
		all = append(all, m.tableOccurrences(&m.Tables[i])...)
	}
	if m.State == standing.InSync {
		all = append(all, Occurrence{Kind: OccurInSync, Mark: m.generations(), Since: orZero(m.Since), Text: fmt.Sprintf("of %d", len(m.Tables))})
	}
	for i := range m.Cutovers {
		all = append(all, m.cutoverOccurrences(&m.Cutovers[i])...)
	}
	return all
}

// ofStates are the states of tables whose conditions are occurrences.
var ofStates = map[standing.State]string{standing.Stalled: OccurStalled, standing.Parked: OccurParked, standing.Differs: OccurDiffers}

// tableOccurrences returns the occurrences of one table.
func (m *Document) tableOccurrences(t *Table) (all []Occurrence) {
	add := func(o Occurrence) {
		o.Table = t.Source
		if !slices.ContainsFunc(all, func(other Occurrence) bool { return other.Kind == o.Kind }) {
			all = append(all, o)
		}
	}
	look := standing.Command("status --table TABLE", t.Source, m.with)
	if t.LoadNeeded {
		o := Occurrence{Kind: OccurGap, Text: orEmpty(t.NeedsLoadReason), Command: look}
		if t.LastGap != nil {
			o.Since = t.LastGap.At
		}
		if i := slices.IndexFunc(t.stands.Conditions, func(c standing.Condition) bool { return c.State == standing.NeedsLoad }); i >= 0 {
			if step, leads := t.stands.Conditions[i].NextStep(t.Source, m.with); leads {
				o.Command = step.Command
			}
		}
		add(o)
	}
	for _, c := range t.stands.Conditions {
		kind := ofStates[c.State]
		if c.AwaitsApproval() {
			kind = OccurApproval
		}
		if kind == "" || c.State == standing.Stalled && t.LongGone {
			continue
		}
		step, _ := c.NextStep(t.Source, m.with)
		add(Occurrence{Kind: kind, Since: c.Since, Text: c.Text(), Command: cmp.Or(step.Command, look)})
	}
	if t.headroomLittle() {
		add(Occurrence{Kind: OccurHeadroom, Text: t.HeadroomText() + " left", Command: look})
	}
	if t.lost() {
		add(Occurrence{Kind: OccurWayBackLost, Since: *t.WayBack.LostSince, Text: *t.WayBack.Reason,
			Command: standing.Command("verify --reverse --repair --table TABLE", t.Source, m.with)})
	}
	if t.Copy.State == copyDone {
		add(Occurrence{Kind: OccurCopyDone, Mark: t.Copy.Done.UTC().Format(time.RFC3339), Since: *t.Copy.Done})
	}
	return all
}

// cutoverOccurrences returns the occurrences of the cutover of one group.
func (m *Document) cutoverOccurrences(s *Cutover) (all []Occurrence) {
	c := s.Latest()
	if c.Attempt == 0 {
		return nil
	}
	attempt := fmt.Sprint(c.Attempt)
	add := func(o Occurrence, command string) {
		o.Group, o.Command = s.Group, standing.Command(command+s.flag, "", m.with)
		all = append(all, o)
	}
	if c.Step == checkpoint.CutoverRequested && !c.Approved {
		add(Occurrence{Kind: OccurApproval, Since: c.StepAt, Text: strings.ToLower(s.kind())}, "cutover approve")
	}
	if s.record.Step.Switched() && s.record.Unanswered() > 0 {
		add(Occurrence{Kind: OccurStrays, Since: s.record.SwitchedAt, Text: fmt.Sprint(s.record.Unanswered())}, "cutover status")
	}
	if c.Lapsed() {
		add(Occurrence{Kind: OccurExpired, Mark: attempt, Since: c.EndedAt, Text: strings.ToLower(s.kind())}, "cutover status")
	}
	if n := len(c.GivenUp); n > 0 {
		add(Occurrence{Kind: OccurTryGivenUp, Mark: fmt.Sprint(c.GivenUp[n-1].Attempt), Since: c.StepAt, Text: fmt.Sprintf("try %d of %d", n, max(c.Tries, n))}, "cutover status")
	}
	add(Occurrence{Kind: OccurCutoverStep, Mark: attempt + "." + s.Step, Since: c.StepAt, Text: s.kind() + ": " + strings.ReplaceAll(s.Step, "_", " ")}, "cutover status")
	if s.record.Step == checkpoint.CutoverDone {
		add(Occurrence{Kind: OccurDone, Mark: fmt.Sprint(s.record.Attempt), Since: s.record.EndedAt}, "finalize --dry-run")
	}
	return all
}

// generations identifies the generations of all tables, so that the migration counts as newly in
// sync after a gap, and after a table has joined.
func (m *Document) generations() string {
	h := fnv.New64a()
	for _, t := range m.Tables {
		generation := uint32(0)
		if t.Generation != nil {
			generation = *t.Generation
		}
		fmt.Fprintf(h, "%s %d\n", t.Source, generation)
	}
	return fmt.Sprintf("%x", h.Sum64())
}

func orZero(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}
