package fallback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Check finds out, before a cutover freezes the application, whether the items of one table can
// follow its rows. It changes nothing in either table.
type Check struct {
	Source, Table string
	// Key is the key of any item of the source table. No item needs to have it.
	Key     attribute.Item
	Changes Changes
	// Target describes the target table and the app profile.
	Target interface {
		// ChangeStream returns how long the change stream of a table keeps its records; 0 for none.
		ChangeStream(ctx context.Context, table string) (time.Duration, error)
		// Profile returns *sink.ProfileError if the app profile cannot be used.
		Profile(ctx context.Context) (sink.Profile, error)
	}
	// Items makes requests to the source. DynamoDB implements it.
	Items interface {
		Accepts(ctx context.Context, table string, signed time.Time) (bool, error)
		// Denied returns the actions of a leader that this process may not do.
		Denied(ctx context.Context, table string, key attribute.Item) ([]string, error)
	}
	// Now asks the source for its time.
	Now     func(ctx context.Context) (time.Time, error)
	Timings Timings
}

// Checked is what a check has found out.
type Checked struct {
	// Window is how long the source accepts a signed request. Wait is how long a request whose
	// outcome is unknown may still change an item after it was signed. Both are 0 if unknown.
	Window, Wait time.Duration
	// From is the time from which the change stream was read. A leader can begin there.
	From time.Time
	// Problems are the reasons why the items cannot follow the rows now.
	Problems []Problem
}

// Problem is a reason why items cannot follow rows now. The figure says what was found, and the cure
// what helps.
type Problem struct{ Figure, Cure string }

// Run makes all checks. The error is that of a request that shows nothing, and may pass.
func (c *Check) Run(ctx context.Context) (Checked, error) {
	t := c.Timings.orDefault()
	now, err := c.Now(ctx)
	if err != nil {
		return Checked{}, fmt.Errorf("ask the source for its time: %w", err)
	}
	// Bigtable's clock may be behind that of the source. Then the start is in its future, and the
	// check fails.
	found := Checked{From: now.Add(-t.Lookback).UTC()}
	for _, step := range []func(ctx context.Context, t Timings, now time.Time, found *Checked) error{c.profile, c.stream, c.window, c.rights} {
		if err := step(ctx, t, now, &found); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (f *Checked) add(cure, figure string, args ...any) {
	f.Problems = append(f.Problems, Problem{fmt.Sprintf(figure, args...), cure})
}

// profile checks that the app profile routes to one cluster. Behind another profile a row that is
// read may be older than the change that was reported.
func (c *Check) profile(ctx context.Context, _ Timings, _ time.Time, found *Checked) error {
	_, err := c.Target.Profile(ctx)
	if unfit := (*sink.ProfileError)(nil); errors.As(err, &unfit) {
		found.add("use an app profile that routes to one cluster and allows single-row transactions", "%s", unfit)
		return nil
	}
	return err
}

// stream checks that the change stream keeps its records long enough, and that it can be read now.
func (c *Check) stream(ctx context.Context, t Timings, _ time.Time, found *Checked) error {
	const enable = "replicator plan --apply with cutover.keep_fallback, which enables it"
	kept, err := c.Target.ChangeStream(ctx, c.Table)
	switch {
	case err != nil:
		return fmt.Errorf("describe table %s: %w", c.Table, err)
	case kept == 0:
		found.add(enable, "table %s has no change stream", c.Table)
		return nil
	case kept < t.Kept:
		found.add("gcloud bigtable instances tables update "+c.Table+" --instance=INSTANCE --change-stream-retention-period=7d", "the change stream of table %s keeps records for %s, which is less than %s", c.Table, timespan.Format(kept), timespan.Format(t.Kept))
	}
	limited, cancel := task.WithTimeout(ctx, t.Seen)
	defer cancel()
	switch err := c.seeWitness(limited, t, found.From); {
	case err == nil:
	case errors.Is(err, ErrLost):
		found.add("if it was enabled a moment ago, try again in "+timespan.Format(2*t.Lookback), "the change stream of table %s cannot be read from %s ago on: %v", c.Table, timespan.Format(t.Lookback), err)
	case ctx.Err() == nil && limited.Err() != nil:
		found.add("replicator run, whose workers write that row; if one runs, try again in "+timespan.Format(t.Lookback), "no heartbeat of replicator came through the change stream of table %s within %s", c.Table, timespan.Format(t.Seen))
	default:
		return fmt.Errorf("read the change stream of table %s: %w", c.Table, err)
	}
	return nil
}

// errSeen ends the reading of a change stream at the record of the witness row.
var errSeen = errors.New("the witness row was seen")

// seeWitness reads the change stream from a time on, until it delivers a change of the witness row.
// Workers write that row regularly. If the partition is closed meanwhile, the partitions of then are
// read from the same time on.
func (c *Check) seeWitness(ctx context.Context, t Timings, from time.Time) error {
	witness := transform.WitnessKeyOf(c.Source)
	for {
		all, err := c.Changes.Partitions(ctx, c.Table)
		if err != nil {
			return err
		}
		for _, kr := range all {
			if witness < kr.Start || kr.End != "" && witness >= kr.End {
				continue
			}
			err = c.Changes.Read(ctx, c.Table, Place{KeyRange: kr, From: from}, t.Heartbeat, func(r Record) error {
				switch {
				case r.Closed:
					return errClosed
				case r.Key != nil && *r.Key == witness:
					return errSeen
				}
				return nil
			})
			if errors.Is(err, errSeen) {
				return nil
			}
		}
		if err != nil && !errors.Is(err, errClosed) {
			return err
		}
		if err := task.Sleep(ctx, t.Retry); err != nil {
			return err
		}
	}
}

// window measures how long the source accepts a signed request. Without a bound, a request that was
// lost could overwrite an item at any time.
func (c *Check) window(ctx context.Context, t Timings, now time.Time, found *Checked) error {
	began := task.Mono(ctx)
	window, err := t.Ages.window(func(age time.Duration) (bool, error) {
		return c.Items.Accepts(ctx, c.Source, now.Add(task.Mono(ctx)-began-age))
	})
	switch {
	case errors.Is(err, errNoWindow):
		found.add("use an endpoint of DynamoDB itself", "%v", err)
	case errors.Is(err, errClocks):
		found.add("correct the clock of this host, for example with NTP", "%v", err)
	case err != nil:
		return err
	default:
		found.Window, found.Wait = window, t.Wait(window)
	}
	return nil
}

// rights checks that this process may write items.
func (c *Check) rights(ctx context.Context, _ Timings, _ time.Time, found *Checked) error {
	denied, err := c.Items.Denied(ctx, c.Source, c.Key)
	if err != nil {
		return fmt.Errorf("ask whether items of table %s may be written: %w", c.Source, err)
	}
	if len(denied) > 0 {
		found.add("grant what replicator plan --print-iam aws prints", "this identity may not do %s on table %s", strings.Join(denied, ", "), c.Source)
	}
	return nil
}

// AnyKey returns a key of a table with the given primary key.
func AnyKey(primaryKey []transform.KeyAttribute) attribute.Item {
	var list []attribute.Attribute
	for _, k := range primaryKey {
		v := attribute.String("replicator")
		switch k.Type {
		case attribute.KindN:
			v, _ = attribute.Number("0")
		case attribute.KindB:
			v = attribute.Binary([]byte("replicator"))
		}
		list = append(list, attribute.Attribute{Name: k.Name, Value: v})
	}
	return attribute.NewItem(list)
}
