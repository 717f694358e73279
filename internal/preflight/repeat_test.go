package preflight

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// A probe repeats what may pass until its time is up, and keeps the last thing that it was told.
func TestAProbeRepeatsWhatMayPass(t *testing.T) {
	throttled, denied := errors.New("throttled"), errors.New("denied")
	helps := func(err error) bool { return errors.Is(err, throttled) }
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	says := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for name, c := range map[string]struct {
		answers []func(context.Context) error // the last one again and again
		want    error
		asked   int // 0: more than five times
	}{
		"it passes":                   {[]func(context.Context) error{says(throttled), says(throttled), says(nil)}, nil, 3},
		"it stays":                    {[]func(context.Context) error{says(throttled)}, throttled, 0},
		"it would not pass":           {[]func(context.Context) error{says(denied)}, denied, 1},
		"it turns out to be another":  {[]func(context.Context) error{says(throttled), says(denied)}, denied, 2},
		"nothing is said":             {[]func(context.Context) error{silent}, context.DeadlineExceeded, 1},
		"the time is up while asking": {[]func(context.Context) error{says(throttled), silent}, throttled, 2},
		"an answer at the last moment": {[]func(context.Context) error{says(throttled), func(ctx context.Context) error {
			_ = silent(ctx)
			return nil
		}}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), ProbeTime)
				defer cancel()
				began, asked := time.Now(), 0
				err := repeat(ctx, helps, func(ctx context.Context) error {
					asked++
					return c.answers[min(asked, len(c.answers))-1](ctx)
				})
				if !errors.Is(err, c.want) || c.asked > 0 && asked != c.asked || c.asked == 0 && (asked <= 5 || asked > 20) {
					t.Errorf("%v after %d attempts, want %v after %d", err, asked, c.want, c.asked)
				}
				if took := time.Since(began); took > ProbeTime {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// The last answer counts, although the time of the probe ended while it asked again. Without an
// answer it says so.
func TestAProbeTellsWhatWasSaid(t *testing.T) {
	busy := &sink.Error{Op: "GetTable", Reason: sink.Throttled, Code: "ResourceExhausted", Text: "busy"}
	silent := &sink.Error{Op: "GetTable", Code: "DeadlineExceeded"}
	for want, first := range map[string]error{"throttled (ResourceExhausted): busy": busy, "no answer within 5s": silent} {
		synctest.Test(t, func(t *testing.T) {
			p, asked := &Prober{Out: io.Discard}, 0
			p.Ask(t.Context(), ProbeTime, "table", func(ctx context.Context) (string, error) {
				return "", ExplainTarget("cannot read the table", repeat(ctx, mayPass, func(ctx context.Context) error {
					if asked++; asked == 1 && first == busy {
						return busy
					}
					<-ctx.Done()
					return silent
				}))
			})
			if len(p.Failed) != 1 || !strings.Contains(p.Failed[0].Error(), want) {
				t.Errorf("%v, want %q", p.Failed, want)
			}
		})
	}
}
