package verify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Sampler regularly compares a sample of the rows that this worker has recently applied, and the
// rows that are known to differ. A row that differs is read a second time, so in-flight changes do
// not count as differences. A known difference is removed only after a later comparison has found
// the row equal.
type Sampler struct {
	*engine.Common
	mapping    *transform.Mapping
	comparison verify.Comparison // settings that all rounds share
	owned      bool
	share      float64
	every      time.Duration
	rate       *backfill.Throttle

	mu      sync.Mutex
	round   uint64
	cut     uint64 // highest hash of items in the sample
	waiting []sampledRow
	known   map[[2]string]bool // rows that already wait for the next round
}

// sampledRow is an applied row, with the hash by which its item was selected.
type sampledRow struct {
	hash  uint64
	place verify.Place
}

const (
	// mostWaiting is the maximum number of rows that wait for a round. If there are more, the share
	// is halved until the next round.
	mostWaiting = 500
	// sampleRate is the maximum number of items and rows per second that a round reads.
	sampleRate = 50
	// leastPatience is the minimum time that a round waits for the changes from before its
	// comparisons to be applied.
	leastPatience = time.Minute
)

// NewSampler returns a sampler, or nil if no samples are to be compared.
func NewSampler(v *Verifier, spec engine.Spec) *Sampler {
	if spec.SampleEvery <= 0 || spec.Sample <= 0 {
		return nil
	}
	s := &Sampler{Common: v.Common, mapping: spec.Mapping, owned: spec.Owned, share: spec.Sample, every: spec.SampleEvery, rate: backfill.NewThrottle(sampleRate)}
	s.comparison = verify.Comparison{
		Mapping: spec.Mapping, Source: v.database, Target: v.target, Settle: v.settings.settle, Late: v.settings.late, Now: v.now, Applied: v.applied,
		Patience: max(s.every, leastPatience),
	}
	s.begin()
	return s
}

// begin begins a round. Each round selects items by another hash, so that every item is selected in
// some round.
func (s *Sampler) begin() {
	s.round++
	s.cut, s.waiting, s.known = uint64(s.share*math.MaxUint64), nil, map[[2]string]bool{}
	if s.share >= 1 {
		s.cut = math.MaxUint64
	}
}

// Sample selects rows of a batch before it is written. The returned function must be called when
// the rows are durable. It records them for the next round.
func (s *Sampler) Sample(b *transform.Batch) (durable func()) {
	picked := s.pick(b)
	return func() { s.note(picked) }
}

// pick returns the rows of a batch that belong to items in the sample. It must be called before the
// write, which empties the batch.
func (s *Sampler) pick(b *transform.Batch) []sampledRow {
	s.mu.Lock()
	round, cut := s.round, s.cut
	s.mu.Unlock()
	var picked []sampledRow
	for i := range b.Rows {
		row := &b.Rows[i]
		h := sampleHash(round, row.Item)
		if h > cut {
			continue
		}
		if keys, ok := s.mapping.ParseItemKey(row.Item); ok {
			picked = append(picked, sampledRow{h, verify.Place{Table: row.Table, Row: row.Row, Keys: []attribute.Item{keys}}})
		}
	}
	return picked
}

func sampleHash(round uint64, item string) uint64 {
	var salt [8]byte
	binary.BigEndian.PutUint64(salt[:], round)
	sum := sha256.Sum256(append(salt[:], item...))
	return binary.BigEndian.Uint64(sum[:8])
}

// note records rows, which are now durable, for the next round.
func (s *Sampler) note(picked []sampledRow) {
	if len(picked) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range picked {
		at := [2]string{p.place.Table, p.place.Row}
		if p.hash > s.cut || s.known[at] {
			continue
		}
		s.known[at] = true
		s.waiting = append(s.waiting, p)
		if len(s.waiting) > mostWaiting {
			s.halve()
		}
	}
}

// halve drops about half of the waiting rows: the rows with the higher hashes.
func (s *Sampler) halve() {
	s.cut /= 2
	s.waiting = slices.DeleteFunc(s.waiting, func(p sampledRow) bool {
		out := p.hash > s.cut
		if out {
			delete(s.known, [2]string{p.place.Table, p.place.Row})
		}
		return out
	})
}

// take returns the waiting rows, and begins the next round.
func (s *Sampler) take() []verify.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := make([]verify.Place, len(s.waiting))
	for i, p := range s.waiting {
		places[i] = p.place
	}
	s.begin()
	return places
}

// Run makes rounds of comparisons until a drain begins. A failed round is not retried. Its rows may
// be selected again after their next change. Rows that are known to differ are in every round.
func (s *Sampler) Run(life engine.Lifecycle) error {
	for life.Rest(s.every) == nil {
		err := s.compare(life)
		if engine.Fatal(err) {
			return s.End(err)
		}
		if err != nil && !life.Draining() && life.Work.Err() == nil {
			s.Events.Retry(s.Source, "compare a sample", s.every, err)
		}
	}
	return nil
}

// compare makes one round of comparisons.
func (s *Sampler) compare(life engine.Lifecycle) error {
	ctx := life.Work
	places := s.take()
	owned, copying := s.owned, false
	var before []json.RawMessage
	err := s.Retry(life, "read the rows that differ", func(ctx context.Context) error {
		table, _, err := s.Ledger.Table(ctx, s.Source)
		if err == nil && table.MappingHash == s.MappingHash {
			before, err = s.Ledger.Mismatches(ctx, s.Source)
		}
		owned, copying = owned || table.MadeByUs, table.Copying()
		return err
	})
	if err != nil || copying { // during a fast load rows may differ; the sweep corrects them
		return err
	}
	places, unread := withKnown(places, before)
	if unread > 0 {
		s.Events.Retry(s.Source, "read the rows that differ", s.every, &verify.UnreadableError{Findings: unread})
	}
	if len(places) == 0 {
		return nil
	}
	c := s.comparison
	c.Owned = owned
	c.Retry = func(ctx context.Context, op func(ctx context.Context) error) error {
		return s.Retry(life.Within(ctx), "compare a sample", op)
	}
	c.Pace = func(ctx context.Context, items int, _ float64, rows int) error {
		_, err := s.rate.Take(life.Drain, ctx, items+rows)
		return err
	}
	var checked verify.Checked
	err = engine.Traced(ctx, s.Tracer, engine.SpanVerifySample, s.Source, func(ctx context.Context) (facts engine.SpanFacts, err error) {
		checked, err = c.Check(ctx, life.Drain, places...)
		return engine.SpanFacts{Rows: len(places)}, err
	})
	if err != nil {
		return err
	}
	s.Events.Compared(s.Source, checked.Compared)
	at := s.comparison.Now(ctx)
	fresh := int64(0)
	err = s.Retry(life.Finishing(), "record the rows that differ", func(ctx context.Context) error {
		_, err := s.Ledger.Sample(ctx, s.Source, at, checked.Compared, func(known []json.RawMessage) []json.RawMessage {
			fresh = unknown(known, checked.Findings)
			return merge(known, checked)
		})
		return err
	})
	if err == nil && c.Late > 0 { // an application also writes the target
		s.Events.Diverged(s.Source, fresh)
	}
	return err
}

// withKnown adds the places of rows that are known to differ. The result `unread` is the number of
// known rows that cannot be parsed.
func withKnown(places []verify.Place, known []json.RawMessage) (all []verify.Place, unread int) {
	for _, text := range known {
		var f verify.Finding
		if json.Unmarshal(text, &f) != nil {
			unread++
			continue
		}
		if !slices.ContainsFunc(places, func(p verify.Place) bool { return p.Table == f.Table && p.Row == f.Row }) {
			place := verify.Place{Table: f.Table, Row: f.Row}
			if f.Keys.Exists() {
				place.Keys = append(place.Keys, f.Keys)
			}
			places = append(places, place)
		}
	}
	return places, unread
}

// unknown returns how many findings are in rows that are not among the known ones.
func unknown(known []json.RawMessage, found []verify.Finding) (rows int64) {
	at := map[[2]string]bool{}
	for _, text := range known {
		var f verify.Finding
		if json.Unmarshal(text, &f) == nil {
			at[[2]string{f.Table, f.Row}] = true
		}
	}
	for _, f := range found {
		if row := [2]string{f.Table, f.Row}; !at[row] {
			at[row] = true
			rows++
		}
	}
	return rows
}

// merge returns the rows that are known to differ after a comparison. They are the comparison's
// findings, and all earlier findings that it did not find equal. Earlier findings that cannot be
// parsed are kept too.
func merge(known []json.RawMessage, checked verify.Checked) []json.RawMessage {
	var now []json.RawMessage
	at := func(f verify.Finding) func(o verify.Finding) bool {
		return func(o verify.Finding) bool { return o.Table == f.Table && o.Row == f.Row }
	}
	for _, text := range known {
		var f verify.Finding
		if json.Unmarshal(text, &f) != nil {
			now = append(now, text) // a newer version of replicator wrote it, and will compare it
			continue
		}
		equal := slices.ContainsFunc(checked.Equal, func(p verify.Place) bool { return p.Table == f.Table && p.Row == f.Row })
		if !equal && !slices.ContainsFunc(checked.Findings, at(f)) {
			now = append(now, text)
		}
	}
	for _, f := range checked.Findings {
		f.Columns = nil // a requested verify shows the columns
		if text, err := json.Marshal(f); err == nil {
			now = append(now, text)
		}
	}
	return now
}
