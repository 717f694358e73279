package sim

import (
	"slices"
	"sort"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// checkApplied: I3, everything up to a checkpoint is applied, looked at as far as it lies after the one before: the row of each item changed in the shard up to it holds at least
// the change's version. Items that were parked hold it as well, as a tombstone.
func (m *Migration) checkApplied(s checkpoint.Shard, from cdc.SequenceNumber) {
	shard := m.Source.shard(s.Label, s.ID)
	if shard == nil || m.Target.tables[m.Mapping.Table] == nil {
		return
	}
	table := m.State()
	kept := !table.Cut.IsZero() && slices.ContainsFunc(shard.records, func(r record) bool {
		return r.change.Sequence.Compare(from) <= 0 && !r.change.Time.Before(table.Cut)
	})
	for i := shard.after(from); i < len(shard.records); i++ {
		r := &shard.records[i]
		c := r.change
		if c.Sequence.Compare(s.Position) > 0 {
			break
		}
		if c.Expired && m.Outlives {
			continue
		}
		if kept = kept || !c.Time.Before(table.Cut); kept && s.Dropping {
			m.violate("I3: shard %s drops changes after it has had one that is kept", s.ID)
		}
		if !kept || !r.at.After(m.Target.lost) {
			continue // from before the cut, as everything before it in the shard (H84)
		}
		began := later(table.Load.StartedAt, table.Since)
		if i < shard.trimmed && (table.NeedsLoad || table.Cut.IsZero() && (began.IsZero() || r.at.Before(began))) {
			continue // lost, and declared (I5), or the business of the load that begins later, or from before the start
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
			// What one commit adds was read under one lease, and so in one generation. Rows of the stream before may hold higher hops.
			want := string(transform.NewVersion(s.Generation, s.Hop, c.Sequence, transform.CountExact))
			column := sink.VersionColumn
			if row.Owner != "" {
				column += ":" + row.Owner
			}
			if heldIn(m.Target.Row(row.Table, row.Row), column) < want && !m.tombstoneGone(c) {
				m.violate("I3: checkpoint of %s is at %s, but the change %s is not applied", s.ID, s.Position, c.Sequence)
			}
		}
	}
}

// tombstoneGone tells whether a remove is so old that its trace may have been collected.
func (m *Migration) tombstoneGone(c cdc.Change) bool {
	return m.TombstoneAge > 0 && m.World.Now().Sub(c.Time) > m.TombstoneAge
}

// after is the index of the first record after a change.
func (s *Shard) after(n cdc.SequenceNumber) int {
	return sort.Search(len(s.records), func(i int) bool { return s.records[i].change.Sequence.Compare(n) > 0 })
}

func (t *Table) shard(label, id string) *Shard {
	if stream := t.streamOf(label); stream != nil {
		return stream.Shard(id)
	}
	return nil
}

// streamOf is the stream with a label; nil if the table never had it.
func (t *Table) streamOf(label string) *Stream {
	for _, s := range t.Streams {
		if s.Label == label {
			return s
		}
	}
	return nil
}
