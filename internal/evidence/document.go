package evidence

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Input is the data for the evidence.
type Input struct {
	Name string // name of the pipeline
	At   time.Time
	// Version is the version of the process that writes the evidence. Versions are the known
	// versions of the workers.
	Version  string
	Versions []string
	Record   checkpoint.Cutover
	Tables   []TableInput
}

// TableInput is one source table.
type TableInput struct {
	State   checkpoint.TableState
	Targets []string
	Shards  []checkpoint.Shard
	Parked  []string // references of parked items (sink.Ref)
}

// schema identifies the schema of the document.
const schema = "replicator.evidence/v1"

// Document is the evidence as JSON. Times are on the source's clock; unknown values are null.
type Document struct {
	Schema  string    `json:"schema"`
	Name    string    `json:"name"`
	Group   string    `json:"group,omitempty"` // the group of tables that were cut over together
	At      time.Time `json:"at"`
	Attempt uint32    `json:"attempt"`
	Step    string    `json:"step"`
	// Rehearse is true for a rehearsal, in which the application was neither stopped nor switched.
	Rehearse          bool     `json:"rehearsal"`
	Reason            string   `json:"reason,omitempty"`     // why the cutover was cancelled
	ConfigurationHash string   `json:"configuration_hash"`   // hash of the configuration with which the cutover began
	Version           string   `json:"version"`              // version of the process that began the cutover
	WrittenBy         string   `json:"written_by"`           // version of the process that wrote the evidence
	Versions          []string `json:"versions"`             // known versions of workers
	StartedBy         string   `json:"started_by,omitempty"` // the process that began the cutover
	KeepFallback      bool     `json:"keep_fallback"`
	Lossy             []string `json:"lossy"` // why a fallback would lose data

	BegunAt       *time.Time `json:"begun_at"`
	FreezeBegunAt *time.Time `json:"freeze_begun_at"`
	FrozenAt      *time.Time `json:"frozen_at"`
	FencedAt      *time.Time `json:"fenced_at"`
	SwitchedAt    *time.Time `json:"switched_at"`
	UnfrozenAt    *time.Time `json:"unfrozen_at"`
	EndedAt       *time.Time `json:"ended_at"`
	FrozenSeconds float64    `json:"frozen_seconds"` // how long the application's writes were frozen
	// WatchSeconds is how long the stream is watched for late writers after the switch.
	WatchSeconds float64 `json:"watch_seconds"`

	Gates     []checkpoint.CutoverGate     `json:"gates"`     // the gates at the end of the checks
	Overrides []checkpoint.CutoverOverride `json:"overrides"` // gates that an operator overrode, with the reason
	Tables    []Table                      `json:"tables"`
	// Fences holds, for each target, the first fence number that no process used for writes.
	Fences   []Fence                   `json:"fences"`
	Timeline []checkpoint.CutoverEvent `json:"timeline"`
	// Steps are the steps of all tries, each with its length.
	Steps []Step `json:"steps"`
	// Hooks are the calls of hooks, each with token, times, outcome and the end of its output.
	Hooks []checkpoint.CutoverHook `json:"hooks"`
	// GivenUp are the abandoned tries, each with its reason. After each of them, the application
	// wrote again.
	GivenUp []checkpoint.CutoverTry `json:"given_up"`
	Strays  int                     `json:"strays"` // number of changes to the source that the target lacks
	// Stragglers are the items of these changes, by the hashes of their keys.
	Stragglers []checkpoint.CutoverStraggler `json:"stragglers"`
}

// Table is one source table.
type Table struct {
	Source      string   `json:"source"`
	Targets     []string `json:"targets"`
	Stream      string   `json:"stream"`
	Generation  uint32   `json:"generation"`
	Loaded      uint32   `json:"loaded_generation"`
	MappingHash string   `json:"mapping_hash"`
	Gaps        []Gap    `json:"gaps"`
	GapCount    int      `json:"gap_count"` // total number of gaps; the list has only the last gaps
	Parked      []string `json:"parked"`    // references of parked items: table, hash of the key, version
	// Verified is the last full comparison before the switch.
	Verified *Verified `json:"verified"`
	Shards   []Shard   `json:"shards"`
}

// Step is a step of the cutover, with its length.
type Step struct {
	Step    string     `json:"step"`
	BegunAt time.Time  `json:"begun_at"`
	EndedAt *time.Time `json:"ended_at"` // null for a step that has not ended
	Seconds *float64   `json:"seconds"`  // null for a step that has not ended
	Text    string     `json:"text"`     // why it began
}

// Gap is a loss of changes, and its repair.
type Gap struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"`
	Shard      string    `json:"shard,omitempty"`
	Reason     string    `json:"reason"`
	Generation uint32    `json:"generation"`
	Mended     string    `json:"mended"` // how the gap was repaired; "" if it was not repaired
}

// Verified is a comparison of source and target.
type Verified struct {
	Clean     bool      `json:"clean"`
	Verdict   string    `json:"verdict"` // verdict at the end of the comparison
	Way       string    `json:"way"`
	BegunAt   time.Time `json:"begun_at"`
	EndedAt   time.Time `json:"ended_at"`
	Items     int64     `json:"items"`
	Rows      int64     `json:"rows"`
	Compared  int64     `json:"compared"`
	Missing   int64     `json:"missing"`
	Different int64     `json:"different"`
	Extra     int64     `json:"extra"`
	Foreign   int64     `json:"foreign"`
	InFlight  int64     `json:"in_flight"`
}

// Shard is the last state of a shard, with the proof that all its changes were applied.
type Shard struct {
	ID       string     `json:"id"`
	Parent   string     `json:"parent,omitempty"`
	State    string     `json:"state"`
	Position string     `json:"position,omitempty"` // sequence number of the last applied change
	Latest   *time.Time `json:"latest_change"`      // event time of the last applied change
	Applied  uint64     `json:"applied"`
	// Proof that all changes of the shard were applied; "" if there is no proof.
	Proof  string `json:"proof"`
	Proved string `json:"proved_position,omitempty"`
}

// Fence is a target with its first fence number that no process used for writes.
type Fence struct {
	Target string `json:"target"`
	Number uint64 `json:"number"`
}

// NewDocument makes the document from the input.
func NewDocument(in Input) *Document {
	c := in.Record
	d := &Document{
		Schema: schema, Name: in.Name, Group: c.Group, At: in.At.UTC(), Attempt: c.Attempt, Step: string(c.Step), Rehearse: c.Rehearse, Reason: c.Reason,
		ConfigurationHash: c.Hash, Version: c.Version, WrittenBy: in.Version, Versions: sorted(in.Versions), StartedBy: c.CutoverPlan.By,
		KeepFallback: c.KeepFallback, Lossy: list(c.Lossy),
		BegunAt: at(c.BegunAt), FreezeBegunAt: at(c.FreezeBegunAt), FrozenAt: at(c.FrozenAt), FencedAt: at(c.FencedAt), SwitchedAt: at(c.SwitchedAt),
		UnfrozenAt: at(c.UnfrozenAt), EndedAt: at(c.EndedAt), FrozenSeconds: c.FrozenFor(in.At).Seconds(), WatchSeconds: c.WatchFor.Seconds(),
		Gates: list(c.Gates), Overrides: list(c.Overrides), Fences: []Fence{}, Timeline: list(c.Timeline), Hooks: list(c.Hooks),
		GivenUp: list(c.GivenUp), Strays: c.Strays, Stragglers: list(c.Stragglers),
	}
	d.Steps = steps(c)
	for _, target := range c.Targets {
		if n := c.Fences[target]; n > 0 {
			d.Fences = append(d.Fences, Fence{target, n})
		}
	}
	for _, t := range in.Tables {
		d.Tables = append(d.Tables, newTable(t, c))
	}
	slices.SortFunc(d.Tables, func(a, b Table) int { return cmp.Compare(a.Source, b.Source) })
	d.Tables = list(d.Tables)
	return d
}

// steps returns the steps from the timeline. A step lasts until the next one begins.
func steps(c checkpoint.Cutover) []Step {
	out := []Step{}
	end := func(t time.Time) {
		if n := len(out); n > 0 {
			seconds := max(t.Sub(out[n-1].BegunAt), 0).Seconds()
			out[n-1].EndedAt, out[n-1].Seconds = at(t), &seconds
		}
	}
	for _, e := range c.Timeline {
		if n := len(out); n > 0 && out[n-1].Step == e.Step {
			continue
		}
		end(e.At)
		out = append(out, Step{Step: e.Step, BegunAt: e.At.UTC(), Text: e.Text})
	}
	if !c.Step.Active() && !c.EndedAt.IsZero() {
		end(c.EndedAt)
	}
	return out
}

func newTable(in TableInput, c checkpoint.Cutover) Table {
	s := in.State
	t := Table{Source: s.Source, Targets: list(in.Targets), Stream: s.StreamARN, Generation: s.Generation, Loaded: s.Base, MappingHash: s.MappingHash,
		Gaps: []Gap{}, GapCount: s.GapCount, Parked: sorted(in.Parked), Shards: []Shard{}}
	for _, g := range s.Gaps {
		mended := ""
		if g.Generation < s.Base {
			mended = "loaded again: the last finished load has a later generation"
		}
		t.Gaps = append(t.Gaps, Gap{g.At.UTC(), string(g.Kind), g.Shard, g.Reason, g.Generation, mended})
	}
	if r, found := c.Verified[s.Source]; found && r.Known() {
		t.Verified = &Verified{r.Clean(), r.Verdict(r.EndedAt), r.Way, r.BegunAt.UTC(), r.EndedAt.UTC(), r.Items, r.Rows, r.Compared, r.Missing, r.Different, r.Extra, r.Foreign, r.InFlight}
	}
	proofs := map[string]checkpoint.CutoverProof{}
	for _, p := range c.Proofs {
		if p.Table == s.Source {
			proofs[p.Shard] = p
		}
	}
	followsFrom(proofs, in.Shards)
	for _, sh := range in.Shards {
		p := proofs[sh.ID]
		t.Shards = append(t.Shards, Shard{sh.ID, sh.Parent, string(sh.State), sh.Position.String(), at(sh.EventTime), sh.Applied, p.How, p.Position})
		delete(proofs, sh.ID)
	}
	// A shard with a proof, but without a row in the ledger; sorted below.
	for _, p := range proofs {
		t.Shards = append(t.Shards, Shard{ID: p.Shard, State: "removed since", Proof: p.How, Proved: p.Position})
	}
	slices.SortFunc(t.Shards, func(a, b Shard) int { return cmp.Compare(a.ID, b.ID) })
	return t
}

// followsFrom adds the proofs of the ancestors of proved shards, which the record leaves out.
func followsFrom(proofs map[string]checkpoint.CutoverProof, shards []checkpoint.Shard) {
	rows := map[string]*checkpoint.Shard{}
	for i := range shards {
		rows[shards[i].ID] = &shards[i]
	}
	for _, id := range slices.Collect(maps.Keys(proofs)) {
		for sh := rows[id]; sh != nil; {
			if sh = rows[sh.Parent]; sh == nil || !sh.Complete || proofs[sh.ID].How != "" {
				break
			}
			proofs[sh.ID] = checkpoint.CutoverProof{Table: sh.Source, Shard: sh.ID, How: checkpoint.ProvedByChildren, Position: sh.Position.String()}
		}
	}
}

// list returns a non-nil list, because JSON would show nil as null.
func list[T any](items []T) []T { return append([]T{}, items...) }

func sorted(items []string) []string {
	items = list(items)
	slices.Sort(items)
	return slices.Compact(items)
}

func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
