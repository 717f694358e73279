package checkpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// TestH103_LostFromIsWrittenWithTheRaise: the row of a reopened shard says that it is covered up to
// the gap. The begin of the loss stays in the table's record, even if a slow worker declares the
// same gap again.
func TestH103_LostFromIsWrittenWithTheRaise(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		held := take(t, ctx, a, "s")
		applied := at(7)
		applied.EventTime, applied.FirstRead = begin.Add(time.Hour), begin
		check(t, held.Commit(ctx, applied))
		a.Heard(ctx, begin.Add(30*time.Hour))
		check(t, held.Declare(ctx, checkpoint.Trimmed, "trimmed"))
		gap := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "s", Reason: "trimmed"}
		want := begin.Add(time.Hour - checkpoint.Slack)
		state, err := a.Raise(ctx, source, 1, gap, nil)
		check(t, err)
		check(t, a.Reopen(ctx, row(t, ctx, a, "s"), state))
		for range 2 {
			if !state.LostFrom.Equal(want) || !state.Gaps[0].LostFrom.Equal(want) || state.Kind != checkpoint.KindStream || state.GapCount != 1 {
				t.Errorf("lost from %s, in %+v", state.LostFrom, state.Gaps)
			}
			state, err = a.Raise(ctx, source, 1, gap, nil)
			check(t, err)
		}
	})
}

func TestLostFrom(t *testing.T) {
	hours := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Hour) }
	less := -checkpoint.Slack
	read := func(s checkpoint.Shard, hour int) checkpoint.Shard {
		s.State, s.Position, s.EventTime = checkpoint.Reading, at(1).Position.After, hours(hour)
		return s
	}
	covered := shard("s", "p")
	covered.CoveredTo = hours(5)
	root := shard("s", "")
	root.FirstRead = hours(30)
	ended := read(shard("d", ""), 2)
	ended.State, ended.DoneAt = checkpoint.Done, hours(40)
	other := read(shard("o", ""), 1)
	other.Label = "l0"
	for name, c := range map[string]struct {
		shards []checkpoint.Shard
		listed checkpoint.Listings
		of     string
		want   time.Time
	}{
		"its last change":                   {[]checkpoint.Shard{read(shard("s", ""), 3), read(shard("t", ""), 2)}, checkpoint.Listings{}, "s", hours(3).Add(less)},
		"what its ancestors cover":          {[]checkpoint.Shard{covered}, checkpoint.Listings{}, "s", hours(5).Add(less)},
		"an ancestor that is being read":    {[]checkpoint.Shard{read(shard("p", ""), 4), shard("q", "p"), shard("s", "q")}, checkpoint.Listings{}, "s", hours(4).Add(less)},
		"an ancestor that is done":          {[]checkpoint.Shard{ended, shard("s", "d")}, checkpoint.Listings{Open: map[string]time.Time{"d": hours(3)}}, "s", hours(3).Add(2 * less)},
		"a root without changes":            {[]checkpoint.Shard{root}, checkpoint.Listings{}, "s", hours(30).Add(less - cdc.Retention)},
		"a root that was never read":        {[]checkpoint.Shard{shard("s", "")}, checkpoint.Listings{}, "s", time.Time{}},
		"done, its children never listed":   {[]checkpoint.Shard{read(shard("s", ""), 30), ended}, checkpoint.Listings{}, "s", hours(2).Add(less)},
		"done, its children surely known":   {[]checkpoint.Shard{read(shard("s", ""), 30), ended}, checkpoint.Listings{At: hours(65)}, "s", hours(30).Add(less)},
		"a shard without a row":             {[]checkpoint.Shard{read(shard("s", ""), 30), ended}, checkpoint.Listings{}, "x", hours(2).Add(less)},
		"the stream":                        {[]checkpoint.Shard{read(shard("s", ""), 3), read(shard("t", ""), 2), other}, checkpoint.Listings{}, "", hours(2).Add(less)},
		"the stream, with one that is mute": {[]checkpoint.Shard{read(shard("s", ""), 3), shard("t", "")}, checkpoint.Listings{}, "", time.Time{}},
		"rows in a circle":                  {[]checkpoint.Shard{shard("s", "t"), shard("t", "s")}, checkpoint.Listings{}, "s", time.Time{}},
	} {
		if got := checkpoint.LostFrom(following, c.shards, c.listed, nil, c.of); !got.Equal(c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestH107_TheWidestKindStays: windows can repair a gap of the stream only if nothing else was lost
// since the base, and if the begin of the loss is known.
func TestH107_TheWidestKindStays(t *testing.T) {
	known := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "a", LostFrom: begin}
	later := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "b", LostFrom: begin.Add(time.Hour)}
	unknown := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "c"}
	target := checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost}
	for name, c := range map[string]struct {
		gaps []checkpoint.DeclaredGap
		want checkpoint.GapKind
	}{
		"stream":             {[]checkpoint.DeclaredGap{later, known}, checkpoint.KindStream},
		"target, stream":     {[]checkpoint.DeclaredGap{target, known}, checkpoint.KindTargetLost},
		"stream, target":     {[]checkpoint.DeclaredGap{known, later, target}, checkpoint.KindTargetLost},
		"stream, since when": {[]checkpoint.DeclaredGap{known, unknown}, checkpoint.KindUnknown},
		"without a kind":     {[]checkpoint.DeclaredGap{known, {}}, checkpoint.KindUnknown},
	} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			create(t, ctx, a, shard("c", "")) // never read: its loss has no known begin
			var state checkpoint.TableState
			for _, gap := range c.gaps {
				var err error
				state, err = a.Raise(ctx, source, table(t, ctx, a).Generation, gap, nil)
				check(t, err)
			}
			if state.Kind != c.want || state.Kind == checkpoint.KindStream && !state.LostFrom.Equal(begin) {
				t.Errorf("%s: %s, from %s", name, state.Kind, state.LostFrom)
			}
		})
	}
}

// A gap from before the base does not count. A worker that declares it late must not request a load
// that the generation has already had.
func TestAGapOfBeforeTheBaseIsMended(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		state, err := a.Raise(ctx, source, 1, trimmed, nil)
		check(t, err)
		_, err = a.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
			s.Base, s.NeedsLoad, s.Kind = s.Generation, false, ""
			return nil
		})
		check(t, err)
		late, err := a.Raise(ctx, source, 1, checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost, Reason: "late"}, nil)
		check(t, err)
		if late.Generation != state.Generation || late.NeedsLoad || late.Kind != "" || late.GapCount != 2 {
			t.Errorf("after a late gap: %+v", late)
		}
	})
}

// Records of the former version keep their meaning.
func TestRecordsOfFormat1AreTakenOver(t *testing.T) {
	ctx := context.Background()
	for text, want := range map[string]struct {
		kind checkpoint.GapKind
		base uint32
	}{
		`"generation":7,"load":{"generation":7,"done_at":"2026-11-01T00:00:00Z"}`:    {"", 7},
		`"generation":7,"load":{"generation":7,"started_at":"2026-11-01T00:00:00Z"}`: {"", 0},
		`"generation":7`: {"", 0},
		`"generation":7,"needs_load":true,"gaps":[{"reason":"r","generation":6}],"gap_count":1,"load":{"generation":6,"done_at":"2026-11-01T00:00:00Z"}`: {checkpoint.KindUnknown, 0},
	} {
		_, l := ledgerHolding(t, ctx, "p/table/T", []byte(`{"format":1,"by":"x","n":1,"source":"T",`+text+`}`))
		one := table(t, ctx, l)
		all, err := l.Tables(ctx)
		check(t, err)
		written, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.MappingHash = "h"; return nil })
		check(t, err)
		for _, s := range []checkpoint.TableState{one, all[0], written, table(t, ctx, l)} {
			if s.Kind != want.kind || s.Base != want.base || s.MadeByUs || len(s.Gaps) > 0 && s.Gaps[0].Kind != checkpoint.KindUnknown {
				t.Errorf("%s is %+v", text, s)
			}
		}
	}
}
