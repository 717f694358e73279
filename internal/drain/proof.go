// Package drain proves that the changes from before a freeze are applied.
package drain

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// A table is drained when all its canaries were read, and each root of its lineage is closed. A
// shard is closed if all changes from before the freeze are applied, in the shard and in its
// descendants. One of three cases proves that:
//
//   - It contained a canary of this attempt from after the freeze, and all changes up to the
//     canary are applied. Its children need no proof, because they hold only changes from after the
//     canary.
//   - It returned only empty pages for some time after the last canary was read.
//   - It was read to its end, all its children have rows, and each child is closed.
//
// No other fact proves that a shard was open at the freeze: neither an iterator, nor a listing, nor
// a canary in one of its children. A shard that became a gap before the last load is ignored.
type Proof struct {
	Written []int // indices of the canaries that are written
	Unseen  int   // number of written canaries that were read in no shard
	quiet   map[string]*quietShard
	// published holds, for each shard, the number of the message up to which the topic must be
	// applied. The number is fixed, because in a rehearsal the application keeps writing. If the
	// shard has a canary, the ledger holds the number, so another driver waits for the same
	// message.
	published map[string]uint64
	// closed holds the shards that are closed by a canary or by empty pages, with the proof. Such a
	// shard stays closed.
	closed map[string]checkpoint.CutoverProof
	// Open are the shards without a proof yet.
	Open []*checkpoint.Shard
}

// quietShard holds the reads of a shard without a canary, since the last canary was read.
type quietShard struct {
	owner    string
	applied  uint64
	position cdc.SequenceNumber
	read     time.Time // when the last known read was sent, by the clock of the shard's owner
	changes  int       // how often read has changed
	since    time.Time // the read from which the quiet time counts
}

// Prove returns the proofs of all shards that need one. If proofs are missing, the result `waits`
// is the condition for which the drain waits.
func (p *Proof) Prove(c checkpoint.Cutover, f readiness.Figures, quiet time.Duration) (proofs []checkpoint.CutoverProof, waits string) {
	if p.closed == nil {
		p.closed, p.quiet, p.published = map[string]checkpoint.CutoverProof{}, map[string]*quietShard{}, map[string]uint64{}
	}
	// A canary that no worker has read may be in a shard that is not listed yet. That shard may
	// also contain other changes.
	if unseen := checkpoint.Unseen(f.Shards, f.State.Label, c.ProofRound(), p.Written); unseen != p.Unseen {
		p.Unseen, p.quiet = unseen, map[string]*quietShard{}
	}
	l := LineageOf(f)
	for id, sh := range l.rows {
		if _, known := p.closed[id]; known {
			continue
		}
		if how := p.how(c, f, sh, quiet); how != "" {
			p.closed[id] = proven(sh, how)
		}
	}
	p.Open = nil
	for _, root := range l.roots {
		found, left := p.closes(f, l, root)
		proofs, p.Open = append(proofs, found...), append(p.Open, left...)
	}
	open := p.Open
	switch {
	case p.Unseen > 0:
		return nil, fmt.Sprintf("%d of %d canaries are not read yet", p.Unseen, len(p.Written))
	case len(open) > 0 && open[0].Incomplete():
		return nil, fmt.Sprintf("shard %s has ended, and its children may be listed late", open[0].ID)
	case len(open) > 0:
		return nil, fmt.Sprintf("%d of its shards may still hold changes that are not applied; the first is %s", len(open), open[0].ID)
	}
	return proofs, ""
}

// Earliest returns the earliest time at which a shard can be proved. The result `empty`
// reports that the shard must return empty pages until then, because it has no canary.
func (p *Proof) Earliest(sh *checkpoint.Shard, bound, quiet time.Duration, now time.Time) (at time.Time, empty bool) {
	switch {
	case sh.Incomplete() && !sh.EndTime().IsZero() && sh.EndTime().Add(bound).After(now):
		return sh.EndTime().Add(bound), false
	case sh.State == checkpoint.Reading && !sh.Incomplete() && len(p.Written) > 0 && p.Unseen == 0: // all canaries are read, and this shard has none
		left := quiet
		if q := p.quiet[sh.ID]; q != nil && q.changes > 2 {
			left -= q.read.Sub(q.since)
		}
		return now.Add(left), true
	}
	return now, false
}

func proven(sh *checkpoint.Shard, how string) checkpoint.CutoverProof {
	return checkpoint.CutoverProof{Table: sh.Source, Shard: sh.ID, How: how, Position: sh.Position.String()}
}

// closes returns the proofs that close a shard, or the shards that still need a proof before the
// shard is closed.
func (p *Proof) closes(f readiness.Figures, l Lineage, sh *checkpoint.Shard) (proofs []checkpoint.CutoverProof, open []*checkpoint.Shard) {
	if done, known := p.closed[sh.ID]; known {
		return []checkpoint.CutoverProof{done}, nil
	}
	if sh.State != checkpoint.Done || !sh.Complete || !p.applied(f, sh) {
		return nil, []*checkpoint.Shard{sh}
	}
	for _, child := range l.children[sh.ID] {
		found, left := p.closes(f, l, child)
		proofs, open = append(proofs, found...), append(open, left...)
	}
	if len(open) > 0 {
		return nil, open
	}
	if len(proofs) > 0 { // it follows from the proofs of the children, so the record leaves it out
		return proofs, nil
	}
	return []checkpoint.CutoverProof{proven(sh, checkpoint.ProvedByChildren)}, nil
}

// how returns the kind of proof that closes a shard without its children; "" if there is none yet.
func (p *Proof) how(c checkpoint.Cutover, f readiness.Figures, sh *checkpoint.Shard, quiet time.Duration) string {
	switch {
	case sh.State != checkpoint.Reading && sh.State != checkpoint.Done:
		return ""
	// A canary is committed only after all changes before it are applied and settled.
	case sh.Sighted.Canary == c.ProofRound():
		if n := sh.Sighted.Before; n > 0 {
			p.published[sh.ID] = n
		}
		if !p.applied(f, sh) {
			return ""
		}
		return "a canary"
	case p.Unseen > 0 || !p.stillEmpty(c, sh, quiet) || !p.applied(f, sh):
		return ""
	}
	return "empty pages for " + timespan.Spell(quiet) + " after the last canary"
}

// applied reports whether all messages of a shard up to its canary are applied. Without a canary,
// the messages up to the first call of `applied` count. Without a topic, it returns true, because
// the shard's position is the proof.
func (p *Proof) applied(f readiness.Figures, sh *checkpoint.Shard) bool {
	if f.State.Apply != checkpoint.Topic || sh.Apply != checkpoint.Topic || sh.Generation != f.State.Generation {
		return true
	}
	if _, known := p.published[sh.ID]; !known {
		p.published[sh.ID] = sh.Applied
	}
	waits, _ := sh.Behind(f.Merged)
	return sh.Applied-waits >= p.published[sh.ID]
}

// stillEmpty reports whether the shard has returned only empty pages for long enough since the last
// canary was read.
func (p *Proof) stillEmpty(c checkpoint.Cutover, sh *checkpoint.Shard, quiet time.Duration) bool {
	if sh.State != checkpoint.Reading || !sh.EndedAt.IsZero() || sh.Owner == "" || sh.Settling.Changes > 0 {
		return false
	}
	q := p.quiet[sh.ID]
	if q == nil || q.owner != sh.Owner || q.applied != sh.Applied || q.position != sh.Position || !c.Rehearse && !sh.CaughtUp {
		p.quiet[sh.ID] = &quietShard{owner: sh.Owner, applied: sh.Applied, position: sh.Position, read: sh.ReadAt}
		return false
	}
	if sh.ReadAt.After(q.read) {
		q.read = sh.ReadAt
		q.changes++
		if q.changes == 2 { // the read before this one was certainly later than the last canary
			q.since = sh.ReadAt
		}
	}
	return q.changes > 2 && q.read.Sub(q.since) >= quiet
}
