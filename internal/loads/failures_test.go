package loads

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
)

// Whichever answer of the source is missing, a command that depends on it fails and requests
// nothing. It never decides with an empty answer.
func TestNoMissingAnswerOfTheSourceIsOverlooked(t *testing.T) {
	from, to := noon.Add(-2*time.Hour), noon.Add(-time.Hour)
	for name, c := range map[string]struct {
		request Request
		dry     bool
	}{
		"a dry run of a scan":   {Request{}, true},
		"a dry run of a redo":   {Request{Action: ActionRedo}, true},
		"exports":               {Request{From: []string{at + "full", at + "w"}}, false},
		"a dry run of exports":  {Request{From: []string{at + "full", at + "w"}}, true},
		"windows":               {Request{Repair: true, From: []string{at + "w"}}, false},
		"a requested export":    {Request{Wish: true, From: []string{"s3://bucket/p"}}, false},
		"a dry run of the same": {Request{Wish: true, From: []string{"s3://bucket/p"}}, true},
	} {
		for failing := 1; ; failing++ {
			calls := 0
			play(t, "{}", func(ctx context.Context, s *scene) {
				s.begin(ctx)
				s.update(ctx, func(t *checkpoint.TableState) { t.Base = t.Generation }) // so that windows can repair the gap
				s.older(ctx, 30*time.Minute)
				s.update(ctx, func(t *checkpoint.TableState) {
					t.LostFrom, t.AdoptedAt = noon.Add(-90*time.Minute), to.Add(-10*time.Minute)
				})
				o := s.operator("Orders")
				o.source.failing = failing
				o.source.recovery = backfill.Recovery{On: true, From: noon.Add(-72 * time.Hour)}
				o.source.exports[at+"full"], o.source.exports[at+"w"] = full(from), window(from, to)
				r := c.request
				if r.Action == "" {
					r.Action = ActionStart
				}
				o.DryRun = c.dry
				err := o.Steer(ctx, r)
				calls = o.source.calls
				if failed := calls >= failing; failed != (err != nil) {
					t.Errorf("%s: call %d of %d fails: %v", name, failing, calls, err)
				}
				if load := s.state(ctx).Load; err != nil && (len(load.Exports()) > 0 || load.Request.Wanted()) {
					t.Errorf("%s: call %d fails, and a load was requested: %+v", name, failing, load)
				}
			})
			if calls < failing {
				if calls == 0 {
					t.Errorf("%s: the source was never asked", name)
				}
				break
			}
		}
	}
}

// Whichever read of the ledger fails, a request fails. The command never says that a load was
// requested if it does not know that.
func TestNoFailedReadOfTheLedgerIsOverlooked(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		dry     bool
	}{
		"a scan":             {Request{Action: ActionStart}, false},
		"a dry run":          {Request{Action: ActionStart}, true},
		"a pause":            {Request{Action: ActionPause}, false},
		"a redo":             {Request{Action: ActionRedo}, false},
		"exports":            {Request{Action: ActionStart, From: []string{at + "full"}}, false},
		"a requested export": {Request{Action: ActionStart, Wish: true, From: []string{"s3://bucket/p"}}, false},
	} {
		play(t, "{}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.older(ctx, time.Hour)
			if c.request.Action == ActionPause {
				s.steer(ctx, Request{Action: ActionStart})
			}
			before := s.state(ctx)
			for fails := 1; ; fails++ {
				o, reads := s.operator("Orders"), 0
				o.DryRun = c.dry
				o.source.exports[at+"full"] = full(noon.Add(-time.Minute))
				s.store.OnRead = func(context.Context, string) error {
					if reads++; reads == fails {
						return checkpoint.ErrLedgerExchanged
					}
					return nil
				}
				err := o.Steer(ctx, c.request)
				s.store.OnRead = nil
				if (err != nil) != (reads >= fails) {
					t.Errorf("%s: read %d of %d fails: %v", name, fails, reads, err)
				}
				if reads < fails {
					return
				}
				s.update(ctx, func(t *checkpoint.TableState) { *t = before })
			}
		})
	}
}

// broken is an output that cannot be written.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// A command whose document cannot be written fails, in text and in JSON. A script would otherwise
// read half a document.
func TestADocumentThatCannotBeWritten(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		for _, output := range []string{"", "json"} {
			for name, run := range map[string]func(o *desked) error{
				"a look":    func(o *desked) error { return o.Show(ctx) },
				"a dry run": func(o *desked) error { o.DryRun = true; return o.Steer(ctx, Request{Action: ActionStart}) },
				"a limit":   func(o *desked) error { return o.Steer(ctx, Request{Action: ActionThrottle, Reset: true}) },
			} {
				o := s.operator("Orders")
				o.Output, o.Console.Stdout = output, broken{}
				if err := run(o); err == nil {
					t.Errorf("%s with the output %q does not fail", name, output)
				}
			}
		}
		d := s.read(ctx).judge(cost.Default(), "", noon)
		if err := d.render(broken{}); err == nil {
			t.Error("the text")
		}
		if d.left = errors.New("left"); d.render(&failsAt{1}) == nil {
			t.Error("the text after a switch")
		}
		if d.DryRun = true; d.render(broken{}) == nil {
			t.Error("the text of a dry run")
		}
	})
}

// failsAt is an output that fails after a number of writes.
type failsAt struct{ writes int }

func (f *failsAt) Write(p []byte) (int, error) {
	if f.writes--; f.writes < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(p), nil
}
