package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func (m *Migration) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	m.World.Tracef("VIOLATION %s", text)
	m.broken = append(m.broken, text)
}

// check checks every write as it is executed.
func (m *Migration) check(table, key string, before, after *model.Row) {
	if slices.Contains(m.Mapping.Tables(), table) {
		m.checkVersion(key, before, after)
	}
	if table == model.StateTable && strings.HasPrefix(key, "default/target/") {
		m.fences.noted(m, after)
	}
	if table == model.StateTable && strings.HasPrefix(key, "default/shard/") {
		m.checkShard(key, before, after)
	}
	if m.Watch != nil {
		m.Watch(table, key, before, after)
	}
	if slices.Contains(m.Mapping.Tables(), table) {
		m.fences.written(m, table, key, before, after)
	}
}

// checkVersion: I2, the version of a row never falls, nor that of any item in it. Where a mapping
// was replaced, a version may vanish with its row's mapping: the former mapping and the present one
// may store it in different columns, and both write until the sweep begins. The end of the run is
// judged instead.
func (m *Migration) checkVersion(key string, before, after *model.Row) {
	before.Columns(func(family, qualifier string, _ int64, _ string) {
		if family != sink.LiveFamily && family != sink.GoneFamily || !strings.HasPrefix(qualifier, sink.VersionColumn) {
			return
		}
		if was, is := heldIn(before, qualifier), heldIn(after, qualifier); is < was && !(is == "" && m.Supersedes) {
			m.violate("I2: version %s of %q fell from %s to %s", qualifier, key, was, is)
		}
	})
}

func held(r *model.Row) string { return heldIn(r, sink.VersionColumn) }

// heldIn returns the version in a version column, live or tombstone.
func heldIn(r *model.Row, column string) string {
	live, _ := r.Value(sink.LiveFamily, column)
	gone, _ := r.Value(sink.GoneFamily, column)
	return max(live, gone)
}

// checkShard checks I3, I4 and I6 for the row of a shard.
func (m *Migration) checkShard(key string, before, after *model.Row) {
	was, existed := decoded[shardRecord](before)
	if !existed {
		m.rows++
		m.born[key] = m.rows
		return
	}
	is, exists := decoded[shardRecord](after)
	if !exists {
		if !was.Finished() {
			m.violate("I4: the row of shard %s vanished in state %s", was.ID, was.State)
		}
		return
	}
	reopened := was.State == checkpoint.Gap && is.State == checkpoint.Waiting
	if reopened && !(is.FirstRead.IsZero() && is.Position.IsZero() && is.CoveredTo.Equal(was.DoneAt)) {
		m.violate("I5: shard %s is reopened as if it had been read at %s, up to %s, after %s", is.ID, is.FirstRead, is.Position, is.CoveredTo)
	}
	if !reopened && is.Position.Compare(was.Position) < 0 {
		m.violate("I6: the checkpoint of %s moved back from %s to %s", was.ID, was.Position, is.Position)
	}
	if was.State == checkpoint.Done && is.State != checkpoint.Done {
		m.violate("I4: shard %s is %s after it was done", was.ID, is.State)
	}
	if is.Epoch < was.Epoch || is.Generation < was.Generation {
		m.violate("I6: epoch or generation of %s fell", was.ID)
	}
	if was.State == checkpoint.Waiting && is.State == checkpoint.Reading {
		m.checkParent(is.Shard)
	}
	if is.Position.Compare(was.Position) > 0 {
		m.checkApplied(is.Shard, was.Position)
		if adopted := m.State().Adopted; is.Generation < adopted {
			m.violate("I1: shard %s was committed in generation %d after %d had been adopted", is.ID, is.Generation, adopted)
		}
	}
}

// checkParent: I4, a shard begins only when its parent, if the ledger knows it, is finished.
func (m *Migration) checkParent(s checkpoint.Shard) {
	for _, p := range m.Shards() {
		// An orphan may begin before its parent, because the parent may be listed too late.
		orphan := m.born[m.shardKey(s)] < m.born[m.shardKey(p)]
		if p.Label == s.Label && p.ID == s.Parent && !p.Finished() && !p.Ended() && !orphan {
			m.violate("I4: shard %s was begun while its parent is %s", s.ID, p.State)
		}
	}
}

func (m *Migration) shardKey(s checkpoint.Shard) string {
	return "default/shard/" + m.Source.Name + "/" + s.Label + "/" + s.ID
}

// checkApplied: I3, everything up to a checkpoint is applied. It checks the changes after the
// previous checkpoint. The row of each changed item must hold at least the change's version. A
// parked item's row holds it as a tombstone. Changes before the cut are excluded, until the shard
// has one after it (H84).
func (m *Migration) checkApplied(s checkpoint.Shard, from cdc.SequenceNumber) {
	shard := m.Source.Shard(s.Label, s.ID)
	if m.FromTopic || shard == nil || m.Target.Tables[m.Mapping.Table] == nil {
		return
	}
	cut, kept := later(m.State().Cut, s.Cut), false
	for i, r := range shard.Records[:shard.After(s.Position)] {
		c := r.Change
		kept = kept || !c.Time.Before(cut)
		if i < shard.After(from) || c.Expired && m.Outlives || isCanary(c.Keys) {
			continue
		}
		if kept && s.Dropping {
			m.violate("I3: shard %s drops changes after it has had one that is kept", s.ID)
		}
		if aged := m.TombstoneAge > 0 && m.World.Now().Sub(c.Time) > m.TombstoneAge; !kept || aged || i < shard.Trimmed || !r.At.After(m.targetLost()) {
			continue
		}
		image := c.New
		if !image.Exists() {
			image = c.Old
		}
		rows, err := m.Mapping.Addresses(image)
		if err != nil {
			continue
		}
		for _, row := range rows {
			if m.Bared[row.Row] { // including replicator's version
				continue
			}
			if heldIn(m.Target.Row(row.Table, row.Row), versionColumn(row.Owner)) < string(versionOf(s, c.Sequence)) {
				m.violate("I3: checkpoint of %s is at %s, but the change %s is not applied", s.ID, s.Position, c.Sequence)
			}
		}
	}
}

// versionOf returns the version of a shard's change. The changes of one commit were read under one
// lease, and so in one generation.
func versionOf(s checkpoint.Shard, change cdc.SequenceNumber) transform.Version {
	return transform.NewVersion(s.Generation, s.Hop, change, transform.CountExact)
}
