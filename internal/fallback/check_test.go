package fallback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// asked are both services, as a check sees them.
type asked struct {
	kept              time.Duration
	profile, describe error
	partitions        []checkpoint.KeyRange
	read              error         // of the change stream
	closes            int           // how often the partition is closed before it is read on
	beats             bool          // whether the witness row comes
	window            time.Duration // 0: none
	ahead             time.Duration // how much the clock of this host is ahead
	denied            []string
	failed            error

	reads []Place
}

func (a *asked) ChangeStream(context.Context, string) (time.Duration, error) {
	return a.kept, a.describe
}
func (a *asked) Profile(context.Context) (sink.Profile, error) { return sink.Profile{}, a.profile }

func (a *asked) Partitions(context.Context, string) ([]checkpoint.KeyRange, error) {
	return a.partitions, nil
}

func (a *asked) Read(ctx context.Context, _ string, from Place, _ time.Duration, take func(Record) error) error {
	a.reads = append(a.reads, from)
	if a.read != nil {
		return a.read
	}
	if a.closes > 0 {
		a.closes--
		return take(Record{Closed: true})
	}
	other, witness := "other", transform.WitnessKeyOf("Orders")
	for {
		for _, record := range []Record{{Token: "heartbeat"}, {Key: &other}, {Key: &witness}} {
			if record.Key == &witness && !a.beats {
				continue
			}
			if err := take(record); err != nil {
				return err
			}
		}
		if err := task.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (a *asked) Accepts(ctx context.Context, _ string, signed time.Time) (bool, error) {
	age := task.Now(ctx).Sub(signed) + a.ahead
	return a.window == 0 || age <= a.window, a.failed
}

func (a *asked) Denied(context.Context, string, attribute.Item) ([]string, error) {
	return a.denied, nil
}

// Each reason against a way back is found, with a figure and a cure. What shows nothing is an error.
func TestCheck(t *testing.T) {
	const day, minute = 24 * time.Hour, time.Minute
	witness := transform.WitnessKeyOf("Orders")
	all := []checkpoint.KeyRange{{End: witness}, {Start: witness}}
	unfit := &sink.ProfileError{Problem: 2, Instance: "i", Profile: "p"}
	for name, c := range map[string]struct {
		asked    asked
		problems []string // figure → cure
		window   time.Duration
		fails    string
	}{
		"possible":          {asked{kept: 3 * day, beats: true, window: 5 * minute}, nil, 5 * minute, ""},
		"long window":       {asked{kept: 7 * day, beats: true, window: 15 * minute}, nil, 16 * minute, ""},
		"closed partitions": {asked{kept: 7 * day, beats: true, window: 5 * minute, closes: 2}, nil, 5 * minute, ""},
		"no stream":         {asked{beats: true, window: 5 * minute}, []string{"table orders has no change stream → replicator plan --apply"}, 5 * minute, ""},
		"short retention":   {asked{kept: 2 * day, beats: true, window: 5 * minute}, []string{"keeps records for 2d, which is less than 3d → gcloud "}, 5 * minute, ""},
		"new stream":        {asked{kept: 7 * day, read: fmt.Errorf("%w: before", ErrLost), window: 5 * minute}, []string{"cannot be read from 2m ago on → if it was enabled a moment ago, try again in 4m"}, 5 * minute, ""},
		"no worker":         {asked{kept: 7 * day, window: 5 * minute}, []string{"no heartbeat of replicator came through the change stream of table orders within 30s → replicator run"}, 5 * minute, ""},
		"no bound":          {asked{kept: 7 * day, beats: true}, []string{"does not bound late writes → use an endpoint"}, 0, ""},
		"clocks":            {asked{kept: 7 * day, beats: true, window: 5 * minute, ahead: 4 * minute}, []string{"clocks of this host and of the source differ → correct the clock"}, 0, ""},
		"denied":            {asked{kept: 7 * day, beats: true, window: 5 * minute, denied: []string{"dynamodb:UpdateItem"}}, []string{"may not do dynamodb:UpdateItem on table Orders → grant"}, 5 * minute, ""},
		"profile":           {asked{kept: 7 * day, beats: true, window: 5 * minute, profile: unfit}, []string{"routes to more than one cluster → use an app profile"}, 5 * minute, ""},
		"several":           {asked{window: 0, denied: []string{"a", "b"}, profile: unfit}, []string{"routes → ", "no change stream → ", "late writes → ", "do a, b on → "}, 0, ""},
		"unreadable":        {asked{kept: 7 * day, read: errors.New("broken"), window: 5 * minute}, nil, 0, "read the change stream of table orders: broken"},
		"unknown stream":    {asked{describe: errors.New("broken")}, nil, 0, "describe table orders: broken"},
		"unknown profile":   {asked{profile: errors.New("broken")}, nil, 0, "broken"},
		"unknown window":    {asked{kept: 7 * day, beats: true, window: minute, failed: errors.New("broken")}, nil, 0, "measure the source's signature window: broken"},
	} {
		world := virtual.NewWorld(1, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), false)
		err := world.Run(time.Hour, func(ctx context.Context) {
			a := c.asked
			a.partitions = all
			began := task.Now(ctx)
			check := &Check{Source: "Orders", Table: "orders", Key: AnyKey([]transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}), Changes: &a, Target: &a, Items: &a,
				Now: func(ctx context.Context) (time.Time, error) { return task.Now(ctx), nil }}
			found, err := check.Run(ctx)
			if c.fails != "" {
				if err == nil || err.Error() != c.fails {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var wait time.Duration
			if c.window > 0 {
				wait = c.window + 3*minute
			}
			if found.Window != c.window || found.Wait != wait || !found.From.Equal(began.Add(-2*minute)) || len(found.Problems) != len(c.problems) {
				t.Errorf("%s: %+v", name, found)
				return
			}
			for i, p := range found.Problems {
				figure, cure, _ := strings.Cut(c.problems[i], " → ")
				for _, word := range strings.Fields(figure) {
					if !strings.Contains(p.Figure, word) {
						t.Errorf("%s: figure %q, want %q", name, p.Figure, figure)
						break
					}
				}
				if !strings.HasPrefix(p.Cure, cure) || p.Cure == "" {
					t.Errorf("%s: cure %q, want %q", name, p.Cure, cure)
				}
			}
			for _, at := range a.reads {
				if at.Start > witness || !at.From.Equal(found.From) || len(at.Tokens) > 0 || at.Start == "" {
					t.Errorf("%s: reads %+v, where the witness is not", name, at)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A check whose command ends says so, and blames no worker.
func TestCheckThatEnds(t *testing.T) {
	world := virtual.NewWorld(1, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), false)
	err := world.Run(time.Hour, func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		a := &asked{kept: 7 * 24 * time.Hour, partitions: []checkpoint.KeyRange{{}}}
		world.Go("end", func(ctx context.Context) {
			_ = task.Sleep(ctx, time.Second)
			cancel()
		})
		check := &Check{Source: "Orders", Table: "orders", Changes: a, Target: a, Items: a, Now: func(ctx context.Context) (time.Time, error) { return task.Now(ctx), nil }}
		if found, err := check.Run(ctx); err == nil || len(found.Problems) > 0 {
			t.Errorf("%+v, %v", found, err)
		}
		check.Now = func(context.Context) (time.Time, error) { return time.Time{}, errors.New("silent") }
		if _, err := check.Run(ctx); err == nil || err.Error() != "ask the source for its time: silent" {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnyKeyFitsTheSchema(t *testing.T) {
	keys := []transform.KeyAttribute{{Name: "a", Type: attribute.KindN}, {Name: "b", Type: attribute.KindB}}
	var got []attribute.Kind
	for _, k := range keys {
		v, _ := AnyKey(keys).Get(k.Name)
		got = append(got, v.Kind())
	}
	if v, ok := AnyKey([]transform.KeyAttribute{{Name: "c", Type: attribute.KindS}}).Get("c"); !slices.Equal(got, []attribute.Kind{attribute.KindN, attribute.KindB}) || !ok || v.Kind() != attribute.KindS {
		t.Errorf("%v, %v", got, v)
	}
}

// A change of a witness row concerns no item. It is neither parked nor carried.
func TestWitnessesAreNoItems(t *testing.T) {
	m, err := transform.NewMapping("Orders", "orders", "cf", []transform.KeyAttribute{{Name: "id", Type: attribute.KindB}})
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[string]Compared{transform.WitnessKeyOf("Orders"): {Equal: true}, transform.WitnessKeyOf("Parts"): {Equal: true}, strings.Repeat("x", 3000): {Reason: noItem}} {
		if got := Compare(Inverse{Mapping: m}, row, nil, attribute.Item{}, false, time.Time{}); got.Equal != want.Equal || got.Reason != want.Reason {
			t.Errorf("%.20q: %+v", row, got)
		}
	}
}
