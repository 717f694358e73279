package checkpoint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/known"
)

// Two shards of a generation are trimmed. What the second one lost, which was behind, counts too
// once the first one's gap began a new generation, whether the second one's worker is gone or slow.
func TestASecondGapOfAGenerationIsNotLost(t *testing.T) {
	for slow, gaps := range map[bool]int{false: 1, true: 2} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			_, b := p.worker("b")
			create(t, ctx, a, shard("a", ""), shard("b", ""))
			_, err := a.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Base = s.Generation; return nil }) // loaded once
			check(t, err)
			trimmed := func(l *checkpoint.Ledger, id string, applied time.Time) checkpoint.DeclaredGap {
				held, to := take(t, ctx, l, id), at(7)
				to.EventTime, to.FirstRead = applied, begin
				check(t, held.Commit(ctx, to))
				l.Heard(ctx, begin.Add(30*time.Hour))
				check(t, held.Declare(ctx, checkpoint.Trimmed, "trimmed"))
				return checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: id, Reason: "trimmed"}
			}
			first, second := trimmed(a, "a", begin.Add(4*time.Hour)), trimmed(b, "b", begin.Add(time.Hour))
			state, err := a.Raise(ctx, source, 1, first, nil)
			check(t, err)
			behind := row(t, ctx, a, "b")
			declared := !behind.Undeclared(state)
			check(t, a.Reopen(ctx, behind, state)) // by the coordinator's next pass
			if slow {
				_, err := b.Raise(ctx, source, 1, second, nil)
				check(t, err)
			}
			state = table(t, ctx, a)
			want, late := begin.Add(time.Hour-checkpoint.Slack), begin.Add(3*time.Hour)
			known.Defect(t, 45, fmt.Sprintf("lost from 03:50, wanted 00:50; %d gaps noted; counted as declared: true; windows from 03:00 on are accepted: true", gaps),
				known.Expect(!state.LostFrom.After(want) && checkpoint.MendsFrom(state, late) != nil,
					"lost from %s, wanted %s; %d gaps noted; counted as declared: %t; windows from %s on are accepted: %t", state.LostFrom.Format("15:04"), want.Format("15:04"),
					len(state.Gaps), declared, late.Format("15:04"), checkpoint.MendsFrom(state, late) == nil))
		})
	}
}

// A gap of a shard whose messages wait in a topic begins with the first change that is not applied,
// not with the last that was published: windows of exports have to bring the others, too.
func TestAGapBeginsWithWhatWaitsInTheTopic(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		check(t, l.CheckMode(ctx, source, checkpoint.Topic, false))
		create(t, ctx, l, shard("s", ""))
		_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Base = s.Generation; return nil }) // loaded once
		check(t, err)
		held := take(t, ctx, l, "s")
		for n, hour := range []time.Duration{1, 4} {
			to := at(7 + n)
			to.EventTime, to.FirstRead, to.Applied = begin.Add(hour*time.Hour), begin, uint64(1+n)
			check(t, held.Commit(ctx, to))
		}
		if n := len(checkpoint.Unapplied(table(t, ctx, l), []checkpoint.Shard{row(t, ctx, l, "s")}, nil)); n != 1 {
			t.Fatalf("messages of %d shards wait", n)
		}
		l.Heard(ctx, begin.Add(30*time.Hour))
		check(t, held.Declare(ctx, checkpoint.Trimmed, "trimmed"))
		state, err := l.Raise(ctx, source, 1, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "s", Reason: "trimmed"}, nil)
		check(t, err)
		known.Defect(t, 45, "lost from 03:50, and what was published since 01:00 is not applied",
			known.Expect(!state.LostFrom.After(begin.Add(time.Hour)), "lost from %s, and what was published since 01:00 is not applied", state.LostFrom.Format("15:04")))
	})
}

// read counts the rows that a store gives.
type read struct {
	checkpoint.Store
	rows int
}

func (r *read) Read(ctx context.Context, prefix string) ([]checkpoint.Row, error) {
	rows, err := r.Store.Read(ctx, prefix)
	r.rows += len(rows)
	return rows, err
}

// A worker looks at a load every two seconds. It does not read the rows of parts each time that
// were done long ago: an export of a large table has some ten thousand.
func TestALookReadsNoPartsThatAreDone(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		const parts = 200
		store := &read{Store: p.store}
		l := openOn(t, ctx, store, "a", lease)
		state := loading(t, ctx, l, parts)
		watch := l.NewWatch()
		free, _ := look(t, ctx, l, watch)
		for _, part := range free {
			held, err := l.TakePart(ctx, part)
			check(t, err)
			check(t, held.Finish(ctx, checkpoint.PartProgress{Items: 1}))
		}
		look(t, ctx, l, watch)
		store.rows = 0
		_, err := l.Parts(ctx, state, checkpoint.PhaseCopy)
		check(t, err)
		known.Defect(t, 45, "200 rows are read for 200 parts that are done",
			known.Expect(store.rows < 20, "%d rows are read for %d parts that are done", store.rows, parts))
	})
}
