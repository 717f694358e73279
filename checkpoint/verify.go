package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// phaseVerifyPrefix begins the names of a verify's phases. So the parts of a verify and of a load
// never have the same key.
const phaseVerifyPrefix = "verify-"

// phaseVerify returns phase n of a verify; the first is 1.
func phaseVerify(n int) Phase { return Phase(fmt.Sprint(phaseVerifyPrefix, n)) }

func (p Phase) verifies() bool { return strings.HasPrefix(string(p), phaseVerifyPrefix) }

// Verify is the last comparison of the table with its target. Like a load, a verify is a plan of
// parts that all workers share.
type Verify struct {
	// Number rises with every verify of the table.
	Number uint32 `json:"number,omitempty"`
	// Phase is the current phase, from 1, and Parts is its number of parts. Both are 0 after the
	// verify has ended.
	Phase int `json:"phase,omitempty"`
	Parts int `json:"parts,omitempty"`
	// Plan is the plan, in a format of the verify package. It holds row keys and the secret key of
	// the checksums, so it must not appear in logs or errors.
	Plan json.RawMessage `json:"plan,omitempty"`
	// Generation is the table's generation when the verify began; 0 if an older version wrote the
	// record.
	Generation  uint32    `json:"generation,omitempty"`
	MappingHash string    `json:"mapping_hash,omitempty"` // of the worker that planned the verify
	BegunAt     time.Time `json:"begun_at,omitzero"`      // on the service's clock
	Estimate    int64     `json:"estimate,omitempty"`     // items, as counted by DynamoDB
	// Differing is how many buckets the second phase compares.
	Differing int `json:"differing,omitempty"`
	// Sums are the totals of the completed phases.
	Sums   VerifyCounts `json:"sums,omitzero"`
	Paused string       `json:"paused,omitempty"`
	// Ended explains why the last verify has no result, in fixed words. It is "" if an operator
	// cancelled the verify.
	Ended string `json:"ended,omitempty"`
	// Cleaned is the number of the last verify whose ledger rows are removed.
	Cleaned uint32 `json:"cleaned,omitempty"`
	// Result is the result of the last completed verify. That may be an earlier verify than this
	// one. Full is the result of the last completed verify of all items.
	Result VerifyResult `json:"result,omitzero"`
	Full   VerifyResult `json:"full,omitzero"`
}

// Running reports whether the verify has parts to work on.
func (v Verify) Running() bool { return v.Phase > 0 }

// VerifyCounts are the results of a verify or of a part.
type VerifyCounts struct {
	Items int64 `json:"items,omitempty"` // read from the source
	Rows  int64 `json:"rows,omitempty"`  // read from the target
	// Units are the read units consumed by pages of the source, and Bytes the size of their items.
	// Reads of single items are not counted.
	Units float64 `json:"units,omitempty"`
	Bytes int64   `json:"bytes,omitempty"`
	// Compared counts the rows of items that were compared, one by one or by checksums.
	Compared  int64 `json:"compared,omitempty"`
	Missing   int64 `json:"missing,omitempty"`   // rows missing where the mapping puts an item
	Different int64 `json:"different,omitempty"` // rows whose cells differ from their item
	Extra     int64 `json:"extra,omitempty"`     // rows whose item does not exist or belongs elsewhere
	Foreign   int64 `json:"foreign,omitempty"`   // rows with cells that replicator did not write
	// InFlight counts rows that had an unapplied change at every read. Kept counts rows that stay
	// without an item because of expire: keep.
	InFlight int64 `json:"in_flight,omitempty"`
	Kept     int64 `json:"kept,omitempty"`
	// Unmapped counts items that cannot be mapped, so they have no row.
	Unmapped int64 `json:"unmapped,omitempty"`
	// LeftOut counts findings beyond the limit of recorded findings. Such findings are counted but
	// not listed, and their rows are compared only once.
	LeftOut int64 `json:"left_out,omitempty"`
}

// Add adds the counts of o to c.
func (c *VerifyCounts) Add(o VerifyCounts) {
	c.Items += o.Items
	c.Rows += o.Rows
	c.Units += o.Units
	c.Bytes += o.Bytes
	c.Compared += o.Compared
	c.Missing += o.Missing
	c.Different += o.Different
	c.Extra += o.Extra
	c.Foreign += o.Foreign
	c.InFlight += o.InFlight
	c.Kept += o.Kept
	c.Unmapped += o.Unmapped
	c.LeftOut += o.LeftOut
}

// Differing returns how many rows are missing, different, extra or foreign.
func (c VerifyCounts) Differing() int64 { return c.Missing + c.Different + c.Extra + c.Foreign }

// VerifyResult is the result of a whole verify.
type VerifyResult struct {
	Number  uint32    `json:"number,omitempty"`
	Way     string    `json:"way,omitempty"`
	Why     string    `json:"why,omitempty"`    // why this kind of comparison was chosen
	Sample  float64   `json:"sample,omitempty"` // the compared share of the items; 0: all
	Since   time.Time `json:"since,omitzero"`   // only items changed since then; zero: all
	BegunAt time.Time `json:"begun_at,omitzero"`
	EndedAt time.Time `json:"ended_at,omitzero"` // zero if there is no result yet
	// Generation is the table's generation when the verify ended.
	Generation uint32 `json:"generation,omitempty"`
	// RecheckedAt is when rows that had stayed in flight were last compared again. Recheck names the
	// findings that replaced those of the verify. Both are zero if the rows were not compared again.
	RecheckedAt time.Time `json:"rechecked_at,omitzero"`
	Recheck     string    `json:"recheck,omitempty"`
	VerifyCounts
}

// VerifyStaleAfter is the age after which a result is stale.
const VerifyStaleAfter = 24 * time.Hour

// Known reports whether there is a result.
func (r VerifyResult) Known() bool { return !r.EndedAt.IsZero() }

// Clean reports whether there is a result, and no row differed or stayed in flight.
func (r VerifyResult) Clean() bool { return r.Known() && r.Differing() == 0 && r.InFlight == 0 }

// Stale reports whether the result is too old to describe the current state.
func (r VerifyResult) Stale(now time.Time) bool { return now.Sub(r.EndedAt) > VerifyStaleAfter }

// VerifyPlan is the plan with which a verify begins.
type VerifyPlan struct {
	Plan        json.RawMessage
	Phase       int // the first
	Parts       int
	MappingHash string
	BegunAt     time.Time // on the service's clock
	Estimate    int64
}

// BeginVerify begins the verify with the given number, which must be one more than the last.
func (s *TableState) BeginVerify(number uint32, plan VerifyPlan) error {
	const step = "begin a verify"
	begun := Verify{
		Number: number, Phase: plan.Phase, Parts: plan.Parts, Plan: plan.Plan, Generation: s.Generation, MappingHash: plan.MappingHash, BegunAt: plan.BegunAt.UTC(),
		Estimate: plan.Estimate, Cleaned: s.Verify.Cleaned, Result: s.Verify.Result, Full: s.Verify.Full,
	}
	switch {
	case plan.Parts < 1 || plan.Phase < 1:
		return s.refuse(step, "the plan has no parts", "this is a defect: please report it")
	case s.Verify.Number == number && string(s.Verify.Plan) == string(plan.Plan):
		return nil
	case s.Verify.Running():
		return s.refuse(step, "a verify is running", "see replicator verify status, and wait for its end or cancel it: replicator verify cancel --table "+s.Source)
	case s.Copying():
		return s.CheckCopied(step)
	case number != s.Verify.Number+1:
		return s.refuseYet(step, "another verify began meanwhile", "the table's record has changed: retry")
	}
	s.Verify = begun
	return nil
}

// NextVerifyPhase begins the phase `to`, which has the given number of parts and of differing
// buckets. The argument `sums` has the totals of the completed phase.
func (s *TableState) NextVerifyPhase(number uint32, from, to, parts, differing int, sums VerifyCounts) error {
	switch {
	case s.Verify.Number == number && s.Verify.Phase == to:
		return nil
	case s.Verify.Number != number || s.Verify.Phase != from || to <= from || parts < 1:
		return s.refuseYet("continue the verify", "it is in another phase", "the table's record has changed: retry")
	}
	s.Verify.Phase, s.Verify.Parts, s.Verify.Differing = to, parts, differing
	s.Verify.Sums.Add(sums)
	return nil
}

// EndVerify records the result of a completed verify.
func (s *TableState) EndVerify(number uint32, from int, result VerifyResult) error {
	switch {
	case s.Verify.Number == number && !s.Verify.Running():
		return nil
	case s.Verify.Number != number || s.Verify.Phase != from:
		return s.refuseYet("end the verify", "it is in another phase", "the table's record has changed: retry")
	case s.VerifyOutdated() != "": // the next process that checks the verify ends it
		return s.refuseYet("end the verify", s.VerifyOutdated(), "the table's record has changed: retry")
	}
	result.Number, result.Generation = number, s.Generation
	full := s.Verify.Full
	if result.Sample == 0 && result.Since.IsZero() {
		full = result
	}
	s.Verify = Verify{Number: number, BegunAt: s.Verify.BegunAt, Cleaned: s.Verify.Cleaned, Result: result, Full: full}
	return nil
}

// PauseVerify keeps workers from leasing parts of the verify.
func (s *TableState) PauseVerify() error {
	if !s.Verify.Running() {
		return s.refuse("pause the verify", "no verify is running", "see replicator verify status")
	}
	s.Verify.Paused = PausedByOperator
	return nil
}

// ResumeVerify ends a pause of the verify.
func (s *TableState) ResumeVerify() error {
	if !s.Verify.Running() {
		return s.refuse("resume the verify", "no verify is running", "start one: replicator verify --table "+s.Source)
	}
	s.Verify.Paused = ""
	return nil
}

// CancelVerify ends the verify without a result. The result of an earlier verify stays.
func (s *TableState) CancelVerify() error {
	if s.Verify.Number == 0 {
		return s.refuse("cancel the verify", "no verify was started", "see replicator verify status")
	}
	s.endVerify()
	return nil
}

func (s *TableState) endVerify() {
	s.Verify = Verify{Number: s.Verify.Number, BegunAt: s.Verify.BegunAt, Cleaned: s.Verify.Cleaned, Result: s.Verify.Result, Full: s.Verify.Full}
}

// VerifyOutdated returns, in fixed words, why a running verify cannot complete. A verify cannot
// complete if the table has changed since the verify was planned. No worker then takes its parts.
// It returns "" if the verify can complete.
func (s *TableState) VerifyOutdated() string {
	switch v := s.Verify; {
	case !v.Running():
		return ""
	case s.MappingHash != "" && v.MappingHash != s.MappingHash:
		return "the mapping has changed since it began"
	case v.Generation != 0 && v.Generation != s.Generation:
		return "the table has begun a new generation since"
	case s.Copying():
		return "a fast load of the table runs, so rows may still differ"
	case s.Halt.Switched:
		return "the application has left the source, so rows may differ from its items"
	}
	return ""
}

// EndOutdatedVerify ends a verify that is outdated, with its reason. It leaves any other verify
// unchanged.
func (s *TableState) EndOutdatedVerify() {
	if why := s.VerifyOutdated(); why != "" {
		s.endVerify()
		s.Verify.Ended = why
	}
}

// EndOutdatedVerify ends a verify that is outdated, with its reason. It leaves any other verify
// unchanged.
func (l *Ledger) EndOutdatedVerify(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { s.EndOutdatedVerify(); return nil })
}

func (l *Ledger) verifyPrefix(source string) string { return l.name + "/verify/" + source + "/" }

func (l *Ledger) verifyRun(source string, number uint32) string {
	return fmt.Sprintf("%s%08d/", l.verifyPrefix(source), number)
}

// VerifyParts reads the rows of a phase of the table's verify, by index.
func (l *Ledger) VerifyParts(ctx context.Context, table TableState, phase int) ([]Part, error) {
	return l.PartsOf(ctx, Part{Source: table.Source, Number: table.Verify.Number, Phase: phaseVerify(phase)})
}

// verifyData returns the row key of data that a verify keeps until it ends: partial sums, buckets,
// waiting rows and findings. One read returns all names with a common prefix.
func (l *Ledger) verifyData(source string, number uint32, name string) string {
	return l.verifyRun(source, number) + "data/" + name
}

// PutVerifyData stores data under a name. A name may be used again only for the same data. The data
// may hold item keys, and is at most 8 MB.
func (l *Ledger) PutVerifyData(ctx context.Context, table TableState, name string, data []byte) error {
	_, err := l.store.Swap(ctx, l.verifyData(table.Source, table.Verify.Number, name), 0, 1, data)
	return err // a refusal means that the data is stored already
}

// DropVerifyData removes data that PutVerifyData stored, and that the verify no longer needs.
func (l *Ledger) DropVerifyData(ctx context.Context, table TableState, name string) error {
	_, err := l.store.Swap(ctx, l.verifyData(table.Source, table.Verify.Number, name), 1, 2, nil)
	return err // a refusal means that it is removed already
}

// VerifyDatum is one piece of data that a verify keeps.
type VerifyDatum struct {
	Name string
	Data []byte
}

// VerifyData reads the data whose names begin with prefix, in the order of names.
func (l *Ledger) VerifyData(ctx context.Context, source string, number uint32, prefix string) ([]VerifyDatum, error) {
	rows, err := l.store.Read(ctx, l.verifyData(source, number, prefix))
	if err != nil {
		return nil, err
	}
	data := make([]VerifyDatum, len(rows))
	for i, row := range rows {
		data[i] = VerifyDatum{strings.TrimPrefix(row.Key, l.verifyData(source, number, "")), row.Data}
	}
	return data, nil
}

// RemoveVerify deletes the data of verifies of the table that have ended. It deletes parts, sums
// and buckets immediately, and findings after a later verify has ended.
func (l *Ledger) RemoveVerify(ctx context.Context, source string) error {
	table, _, err := l.Table(ctx, source) // read before the rows: a verify that begins meanwhile has a higher number
	if err != nil {
		return err
	}
	v := table.Verify
	for number := v.Cleaned + 1; number <= v.Number; number++ {
		if number == v.Number && v.Running() {
			break
		}
		if err := l.removeRun(ctx, source, number, number == v.Result.Number); err != nil {
			return err
		}
	}
	if v.Result.Number <= v.Cleaned+1 {
		return nil
	}
	_, err = l.UpdateTable(ctx, source, func(s *TableState) error {
		if s.Verify.Number < v.Number { // this is another ledger, so create no record in it
			return s.refuseYet("record the removal", "the ledger was replaced", "the table's record has changed: retry")
		}
		s.Verify.Cleaned = max(s.Verify.Cleaned, v.Result.Number-1)
		return nil
	})
	return err
}

// removeRun deletes the data of one verify, except its findings if findings is true. Sums are
// large, so removeRun reads the sums of one part at a time. It deletes the parts' rows last,
// because these rows show which parts have sums.
func (l *Ledger) removeRun(ctx context.Context, source string, number uint32, findings bool) error {
	run := l.verifyRun(source, number)
	parts, err := l.readParts(ctx, source+"/verify", run+"part/")
	if err != nil {
		return err
	}
	prefixes := []string{"data/picked", "data/waiting/", "data/found/"}
	if findings {
		prefixes = prefixes[:2]
	}
	for _, p := range parts {
		prefixes = append(prefixes, fmt.Sprintf("data/sums/%04d/", p.Index))
	}
	for _, prefix := range append(prefixes, "part/") {
		if err := l.removeAll(ctx, run+prefix); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) removeAll(ctx context.Context, prefix string) error {
	rows, err := l.store.Read(ctx, prefix)
	for _, row := range rows {
		if _, err := l.swap(ctx, l.store, row.Key, row.Counter, nil); err != nil {
			return err
		}
	}
	return err
}

// BeginVerify begins a verify of a table. The argument `table` is the record from which the verify
// was planned.
func (l *Ledger) BeginVerify(ctx context.Context, table TableState, plan VerifyPlan) (TableState, error) {
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error { return s.BeginVerify(table.Verify.Number+1, plan) })
}

// NextVerifyPhase begins another phase of the verify. The argument `table` is the record that the
// caller had when it read the parts of the phase.
func (l *Ledger) NextVerifyPhase(ctx context.Context, table TableState, to, parts, differing int, sums VerifyCounts) (TableState, error) {
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error {
		return s.NextVerifyPhase(table.Verify.Number, table.Verify.Phase, to, parts, differing, sums)
	})
}

// EndVerify records the result of the verify.
func (l *Ledger) EndVerify(ctx context.Context, table TableState, result VerifyResult) (TableState, error) {
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error {
		return s.EndVerify(table.Verify.Number, table.Verify.Phase, result)
	})
}

// PauseVerify keeps workers from leasing parts of a table's verify.
func (l *Ledger) PauseVerify(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, (*TableState).PauseVerify)
}

// ResumeVerify ends a pause.
func (l *Ledger) ResumeVerify(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, (*TableState).ResumeVerify)
}

// CancelVerify ends a table's verify without a result.
func (l *Ledger) CancelVerify(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, (*TableState).CancelVerify)
}

// Verdict returns the result in a few words, such as "clean, 4m ago" or "2 rows differ, 4m ago".
func (r VerifyResult) Verdict(now time.Time) string {
	if !r.Known() {
		return ""
	}
	age := max(now.Sub(r.EndedAt), 0)
	text := "clean"
	switch n := r.Differing(); {
	case n == 1:
		text = "1 row differs"
	case n > 1:
		text = fmt.Sprintf("%d rows differ", n)
	case r.InFlight == 1:
		text = "1 row in flight"
	case r.InFlight > 1:
		text = fmt.Sprintf("%d rows in flight", r.InFlight)
	}
	switch {
	case !r.Since.IsZero():
		text += " of the changed rows"
	case r.Sample > 0:
		text += fmt.Sprintf(" of %g%%", r.Sample*100)
	}
	if r.Stale(now) {
		text = "stale: " + text
	}
	switch {
	case age < time.Minute:
		return text + ", just now"
	case age < time.Hour:
		return fmt.Sprintf("%s, %dm ago", text, age/time.Minute)
	case age < 48*time.Hour:
		return fmt.Sprintf("%s, %dh ago", text, age/time.Hour)
	}
	return fmt.Sprintf("%s, %dd ago", text, age/(24*time.Hour))
}
