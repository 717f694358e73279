package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// TestH24_DoubtIsOfOneAnswer: what a table says against its stream is believed when it has said
// nothing else for long.
func TestH24_DoubtIsOfOneAnswer(t *testing.T) {
	var d doubt
	for i, c := range []struct {
		arn     string
		enabled bool
		minutes int
		want    bool
	}{{"b", true, 0, false}, {"b", true, 9, false}, {"c", true, 11, false}, {"c", false, 20, false}, {"c", false, 29, false}, {"c", false, 30, true}} {
		if got := d.lasts(backfill.Description{StreamARN: c.arn, StreamEnabled: c.enabled}, time.Duration(c.minutes)*time.Minute); got != c.want {
			t.Errorf("answer %d is believed: %v", i+1, got)
		}
	}
}

// heldUp is a table whose descriptions are looked at so long after they were given.
type heldUp struct {
	engine.Database
	told  backfill.Description
	stood time.Duration
}

func (d *heldUp) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	return d.told, task.Sleep(ctx, d.stood)
}

// TestH24_AnOldAnswerIsNoNewDoubt: of two answers of before the stream was replaced the second one
// is looked at an hour later, because the process stood still with it. That is one answer of a
// minute, and not an hour of the same.
func TestH24_AnOldAnswerIsNoNewDoubt(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	enginetest.Listed(t, &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "p"}}}}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		db := &heldUp{told: backfill.Description{Name: "Orders", StreamARN: "former", StreamLabel: "former", StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES"}}
		k.Mapping, k.Database = mapping, db
		for _, stood := range []time.Duration{0, time.Hour} {
			db.stood = stood
			if err := errors.Join(reconcilerOf(k).reconcileStream(engine.Until(ctx)), task.Sleep(ctx, time.Minute)); err != nil {
				t.Error(err)
			}
		}
		if now, _, err := k.Ledger.Table(ctx, "Orders"); err != nil || now.StreamARN != state.StreamARN || now.NeedsLoad {
			t.Errorf("the stream that is over is followed again: %+v, %v", now, err)
		}
	})
}

// endable is a stream that is at its end or not. Both are of one moment.
type endable struct {
	cdc.Source
	ended bool
}

func (s endable) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{Ended: s.ended}, nil
}

// TestAStreamFromEnabledToDisabledAndBack: a table's stream is followed until it is at its end,
// however the table calls it in between: a stream that is being disabled is not over, and one that
// is over does not go on because a late answer calls it enabled. A new stream is followed as soon
// as the one before it is over.
func TestAStreamFromEnabledToDisabledAndBack(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	type followed struct {
		arn   string
		ended bool
		gaps  int
	}
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Mapping = mapping
		ended := map[string]bool{}
		k.Open = func(arn string) cdc.Source { return endable{ended: ended[arn]} }
		for _, step := range []struct {
			name    string
			arn     string // which the table names, with its label
			label   string
			enabled bool
			over    string // the stream that is at its end from here on
			minutes int    // after the step before
			want    followed
		}{
			{"enabled", "arn", "label", true, "", 1, followed{"arn", false, 0}},
			{"disabling: the table has none, and the stream is not at its end", "arn", "label", false, "", 1, followed{"arn", false, 0}},
			{"still disabling", "arn", "label", false, "", 9, followed{"arn", false, 0}},
			{"disabled", "arn", "label", false, "arn", 0, followed{"arn", true, 1}},
			{"still disabled", "arn", "label", false, "", 60, followed{"arn", true, 1}},
			{"a late answer of before", "arn", "label", true, "", 60, followed{"arn", true, 1}},
			{"enabling: the table names a new stream", "new", "label 2", true, "", 1, followed{"new", false, 2}},
			{"enabled again", "new", "label 2", true, "", 1, followed{"new", false, 2}},
			{"a late answer that names the former stream", "arn", "label", true, "", 1, followed{"new", false, 2}},
			{"and one that names none", "arn", "label", false, "", 1, followed{"new", false, 2}},
			{"the table has none for long, whatever the stream says", "new", "label 2", false, "", 1, followed{"new", false, 2}},
			{"ten minutes later", "new", "label 2", false, "", 10, followed{"new", true, 3}},
			{"the same stream is enabled after all", "new", "label 2", true, "", 1, followed{"new", false, 3}},
			{"it is over, and the table does not know yet", "new", "label 2", true, "new", 1, followed{"new", false, 3}},
			{"an older stream is no new one though it is over", "arn", "label", true, "", 1, followed{"new", false, 3}},
			{"a third one is", "third", "label 3", true, "", 1, followed{"third", false, 4}},
		} {
			ended[step.over] = true
			if err := task.Sleep(ctx, time.Duration(step.minutes)*time.Minute); err != nil {
				t.Error(err)
				return
			}
			reconcilerOf(k).database = &heldUp{told: backfill.Description{
				Name: "Orders", StreamARN: step.arn, StreamLabel: step.label, StreamEnabled: step.enabled, ViewType: "NEW_AND_OLD_IMAGES"}}
			err := reconcilerOf(k).reconcileStream(engine.Until(ctx))
			now, _, errTable := k.Ledger.Table(ctx, "Orders")
			if got := (followed{now.StreamARN, now.StreamEnded, now.GapCount}); err != nil || errTable != nil || got != step.want {
				t.Errorf("%s: %+v, want %+v: %v", step.name, got, step.want, errors.Join(err, errTable))
			}
		}
	})
}

// TestH107_WhatANewStreamSays: between two streams of one table changes were lost. A table that is younger than the stream before is another one, and so
// may be one of which that is not known.
func TestH107_WhatANewStreamSays(t *testing.T) {
	enabled := time.Date(2026, 11, 1, 0, 0, 0, 500_000_000, time.UTC)
	state := checkpoint.TableState{Label: "2026-11-01T00:00:00.500"}
	for name, c := range map[string]struct {
		created time.Time
		state   checkpoint.TableState
		want    checkpoint.GapKind
	}{
		"older":                  {enabled.Add(-time.Millisecond), state, checkpoint.KindStream},
		"with its stream":        {enabled, state, checkpoint.KindStream},
		"younger":                {enabled.Add(time.Millisecond), state, checkpoint.KindCreatedAnew},
		"of no known age":        {time.Time{}, state, checkpoint.KindCreatedAnew},
		"a stream of no age":     {enabled, checkpoint.TableState{Label: "l1"}, checkpoint.KindCreatedAnew},
		"no stream was followed": {enabled, checkpoint.TableState{}, checkpoint.KindCreatedAnew},
	} {
		if got := lossOf(backfill.Description{CreatedAt: c.created}, c.state); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
