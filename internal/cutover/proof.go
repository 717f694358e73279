package cutover

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A table is drained when all of its canaries were read and each root of its lineage is closed: every
// change that was made before the freeze, in the shard or its descendants, is applied. A shard is
// closed if
//
//   - it gave a canary of this attempt, and everything up to that is applied. Then its children need
//     no proof, whenever it ended: they hold only what was written after the canary; or
//   - it was empty for a while after the last canary was read; or
//   - it was read to its end, all of its children have rows, and each of them is closed.
//
// Nothing else shows that a shard was open at the freeze: not an iterator, not a listing, not a canary
// in one of its children. A row that was a gap before the last load counts as absent.
type proof struct {
	all    int // canaries that are written
	unseen int // of those that no shard gave
	quiet  map[string]*quietShard
	// published is, by shard, up to which message the topic has to be applied: in a rehearsal the
	// application writes on, so that there is always a later one. Of a shard with a canary the
	// ledger knows it, so that another driver does not wait for later messages.
	published map[string]uint64
	// closed are the shards that are closed by themselves. That stays true, whatever becomes of them.
	closed map[string]checkpoint.CutoverProof
}

// quietShard is what was seen of a shard that gave no canary, since the last canary was seen.
type quietShard struct {
	owner    string
	applied  uint64
	position cdc.SequenceNumber
	read     time.Time // when the last known read was sent, by its owner's clock
	changes  int       // how often that moved
	since    time.Time // the read from which on the time counts
}

// lineage is the shards of a table's stream that a proof is about.
type lineage struct {
	rows     map[string]*checkpoint.Shard
	children map[string][]*checkpoint.Shard
	roots    []*checkpoint.Shard
}

func lineageOf(f Figures) lineage {
	l := lineage{rows: map[string]*checkpoint.Shard{}, children: map[string][]*checkpoint.Shard{}}
	var counted []*checkpoint.Shard
	for i := range f.Shards {
		sh := &f.Shards[i]
		filled := sh.State == checkpoint.Gap && sh.Generation < f.State.Base // by the load
		if sh.Label == f.State.Label && !filled {
			l.rows[sh.ID] = sh
			counted = append(counted, sh)
		}
	}
	for _, sh := range counted {
		if l.rows[sh.Parent] == nil {
			l.roots = append(l.roots, sh)
		} else {
			l.children[sh.Parent] = append(l.children[sh.Parent], sh)
		}
	}
	return l
}

// prove gives the proof of every shard that needs one, or what is waited for.
func (p *proof) prove(c checkpoint.Cutover, f Figures, s Settings) (proofs []checkpoint.CutoverProof, waits string) {
	if p.closed == nil {
		p.closed, p.quiet, p.published = map[string]checkpoint.CutoverProof{}, map[string]*quietShard{}, map[string]uint64{}
	}
	// A canary that no shard gave may be in one that is not listed yet, with what was written there.
	if unseen := checkpoint.Unseen(f.Shards, f.State.Label, c.Attempt, p.all); unseen != p.unseen {
		p.unseen, p.quiet = unseen, map[string]*quietShard{}
	}
	l := lineageOf(f)
	for id, sh := range l.rows {
		if _, known := p.closed[id]; known {
			continue
		}
		if how := p.how(c, f, sh, s); how != "" {
			p.closed[id] = proven(sh, how)
		}
	}
	var open []*checkpoint.Shard
	for _, root := range l.roots {
		found, left := p.closes(f, l, root)
		proofs, open = append(proofs, found...), append(open, left...)
	}
	switch {
	case p.unseen > 0:
		return nil, fmt.Sprintf("%d of %d canaries are not read yet", p.unseen, p.all)
	case len(open) > 0 && open[0].Incomplete():
		return nil, fmt.Sprintf("shard %s has ended, and its children may be listed late", open[0].ID)
	case len(open) > 0:
		return nil, fmt.Sprintf("%d of its shards are not proved to be applied; the first is %s", len(open), open[0].ID)
	}
	return proofs, ""
}

func proven(sh *checkpoint.Shard, how string) checkpoint.CutoverProof {
	return checkpoint.CutoverProof{Table: sh.Source, Shard: sh.ID, How: how, Position: sh.Position.String()}
}

// closes gives the proofs that close a shard, or the shards that are still to be proved for it.
func (p *proof) closes(f Figures, l lineage, sh *checkpoint.Shard) (proofs []checkpoint.CutoverProof, open []*checkpoint.Shard) {
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
	return append(proofs, proven(sh, "done, and so are all of its children, or they are proved")), nil
}

// how is how a shard by itself is proved to be applied; "" if it is not yet.
func (p *proof) how(c checkpoint.Cutover, f Figures, sh *checkpoint.Shard, s Settings) string {
	switch {
	case sh.State != checkpoint.Reading && sh.State != checkpoint.Done:
		return ""
	case sh.Sighted.Canary == c.Attempt: // committed when everything before it was applied and settled
		if n := sh.Sighted.Before; n > 0 {
			p.published[sh.ID] = n
		}
		if !p.applied(f, sh) {
			return ""
		}
		return "a canary"
	case p.unseen > 0 || !p.stillEmpty(c, sh, s) || !p.applied(f, sh):
		return ""
	}
	return "empty pages for " + spell(s.Quiet) + " after the last canary"
}

// applied reports whether everything is applied that a shard had published by its canary, or else when
// this was first asked. Without a topic a shard's position says that.
func (p *proof) applied(f Figures, sh *checkpoint.Shard) bool {
	if f.State.Apply != checkpoint.Topic || sh.Apply != checkpoint.Topic || sh.Generation != f.State.Generation {
		return true
	}
	if _, known := p.published[sh.ID]; !known {
		p.published[sh.ID] = sh.Applied
	}
	waits, _ := sh.Behind(f.Merged)
	return sh.Applied-waits >= p.published[sh.ID]
}

// stillEmpty reports whether a shard gave nothing but empty pages for long enough, since the last
// canary was seen.
func (p *proof) stillEmpty(c checkpoint.Cutover, sh *checkpoint.Shard, s Settings) bool {
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
		if q.changes == 2 { // it was sent after the first one that is known to be later than the last canary
			q.since = sh.ReadAt
		}
	}
	return q.changes > 2 && q.read.Sub(q.since) >= s.Quiet
}
