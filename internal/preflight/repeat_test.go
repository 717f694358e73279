package preflight

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A probe retries temporary failures until its time is up, and reports the last answer.
func TestH141_AProbeRepeatsWhatMayPass(t *testing.T) {
	throttled, denied := errors.New("throttled"), errors.New("denied")
	helps := func(err error) bool { return errors.Is(err, throttled) }
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	says := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for name, c := range map[string]struct {
		answers []func(context.Context) error // the last one is repeated
		want    error
		asked   int // number of requests; 0: more than five
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

// The last answer counts, even if the probe's time ended during another attempt. Without any answer
// the error says so.
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

// A slow request is retried for no longer than ProbeTime, and then its answer is reported.
func TestALongQuestionIsNotRepeatedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, asked := &Prober{Out: io.Discard}, 0
		began := time.Now()
		p.Ask(t.Context(), time.Minute, "items", func(ctx context.Context) (string, error) {
			asked++
			return "", ExplainSource("cannot read items", "Orders", &cdc.Error{Op: "Scan", Reason: cdc.Throttled, Err: errors.New("Rate exceeded")})
		})
		if took := time.Since(began); took < ProbeTime || took > ProbeTime+2*longWait || asked < 5 {
			t.Errorf("asked %d times in %s", asked, took)
		}
		if len(p.Failed) != 1 || !strings.Contains(p.Failed[0].Error(), "throttled: Rate exceeded") {
			t.Errorf("%v", p.Failed)
		}
		slow := func(ctx context.Context) (string, error) { return "late", task.Sleep(ctx, 20*time.Second) }
		if answer, err := AskSource(t.Context(), slow); answer != "late" || err != nil {
			t.Errorf("an attempt that takes longer: %q, %v", answer, err)
		}
	})
}

// creation is an admin whose attempts end as listed; the last one is repeated.
type creation struct {
	attempts []error
	made     []sink.Made
	asked    int
}

func (c *creation) Prepare(context.Context, []sink.TableSpec, bool) (sink.Made, error) {
	n := min(c.asked, len(c.attempts)-1)
	c.asked++
	return c.made[min(n, len(c.made)-1)], c.attempts[n]
}

// The creation of a table is retried while that may help, even if an earlier attempt may have
// created it. The result lists what each attempt created.
func TestH141_ACreationIsRepeated(t *testing.T) {
	var (
		busy   = &sink.Error{Op: "CreateTable", Reason: sink.Throttled, Code: "ResourceExhausted", Text: "quota"}
		lost   = &sink.Error{Op: "CreateTable", Reason: sink.Unknown, Code: "Unavailable"}
		denied = &sink.Error{Op: "CreateTable", Reason: sink.Denied, Code: "PermissionDenied"}
		unfit  = &sink.SchemaError{Problem: sink.WrongAge, Table: "t", Family: "d"}
		none   = []sink.Made{{}}
	)
	for name, c := range map[string]struct {
		creation
		want  error
		least int
		most  int
		told  string
	}{
		"at once":                       {creation{[]error{nil}, []sink.Made{{Tables: []string{"t"}}}, 0}, nil, 1, 1, "t"},
		"throttled for a moment":        {creation{[]error{busy, busy, nil}, []sink.Made{{}, {}, {Tables: []string{"t"}}}, 0}, nil, 3, 3, "t"},
		"of unknown outcome, and there": {creation{[]error{lost, nil}, none, 0}, nil, 2, 2, ""},
		"of unknown outcome, and unfit": {creation{[]error{lost, unfit}, none, 0}, unfit, 2, 2, ""},
		"a family after another":        {creation{[]error{busy, nil}, []sink.Made{{Families: []string{"t:a"}}, {Families: []string{"t:b"}}}, 0}, nil, 2, 2, "t:a t:b"},
		"denied":                        {creation{[]error{denied}, none, 0}, denied, 1, 1, ""},
		"throttled all the time":        {creation{[]error{busy}, none, 0}, busy, 5, 20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				made, err := create(t.Context(), &c.creation, sink.TableSpec{Name: "t"})
				if !errors.Is(err, c.want) || c.asked < c.least || c.asked > c.most || time.Since(began) > ProbeTime+2*longWait {
					t.Errorf("%v after %d attempts and %s", err, c.asked, time.Since(began))
				}
				if told := strings.Join(slices.Concat(made.Tables, made.Families), " "); told != c.told {
					t.Errorf("made %q, want %q", told, c.told)
				}
			})
		})
	}
}
