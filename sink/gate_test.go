package sink_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// answers is a target whose answer to each request the test determines.
type answers func(ctx context.Context) error

func (a answers) Apply(ctx context.Context, _ *sink.Request) (bool, error) { return true, a(ctx) }

// gated returns a gate, and a function that makes one attempt to write a row through it.
func gated(t *testing.T, mark sink.Mark, table sink.Table) (*sink.Gate, func(ctx context.Context) error) {
	t.Helper()
	gate := sink.NewGate(func(context.Context, map[string]sink.Mark) error { return nil })
	read := func(context.Context, string) (sink.Mark, error) { return mark, nil }
	stamps, err := sink.Prove(t.Context(), gate, []string{"t"}, read, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return gate, func(ctx context.Context) error {
		m := put(1, "a=1")
		_, err := sink.Execute(ctx, stamps, table, nil, &m)
		return err
	}
}

// The process's right is recorded before the proof reads whether the tables are halted. Without the
// record there is no right.
func TestProveRecordsBeforeTheRightIsProved(t *testing.T) {
	order, refused := "", errors.New("no answer")
	var failed error
	gate := sink.NewGate(func(_ context.Context, marks map[string]sink.Mark) error {
		if marks["t"].Number != 7 || marks["u"].Number != 7 {
			t.Errorf("%+v", marks)
		}
		order += "record "
		return failed
	})
	read := func(context.Context, string) (sink.Mark, error) {
		order += "read "
		return sink.Mark{Family: "f", Number: 7}, nil
	}
	right := func(context.Context) error { order += "right"; return nil }
	if _, err := sink.Prove(t.Context(), gate, []string{"t", "u"}, read, right); err != nil || order != "read read record right" {
		t.Errorf("%q, %v", order, err)
	}
	order, failed = "", refused
	if _, err := sink.Prove(t.Context(), gate, []string{"t", "u"}, read, right); !errors.Is(err, refused) || order != "read read record " {
		t.Errorf("%q, %v", order, err)
	}
}

// A request stays in doubt forever unless the service answered it. The answer to a repetition
// changes nothing. The highest number in doubt is kept.
func TestGateRemembersRequestsWithoutAnAnswer(t *testing.T) {
	failure := func(r sink.Reason) error { return &sink.Error{Op: "CheckAndMutateRow", Reason: r} }
	for name, c := range map[string]struct {
		mark   sink.Mark
		answer error
		want   sink.Traffic
	}{
		"done":                {sink.Mark{Family: "f", Number: 7}, nil, sink.Traffic{}},
		"throttled":           {sink.Mark{Family: "f", Number: 7}, failure(sink.Throttled), sink.Traffic{}},
		"denied":              {sink.Mark{Family: "f", Number: 7}, failure(sink.Denied), sink.Traffic{}},
		"no such family":      {sink.Mark{Family: "f", Number: 7}, failure(sink.Permanent), sink.Traffic{}},
		"rejected":            {sink.Mark{Family: "f", Number: 7}, failure(sink.Rejected), sink.Traffic{}},
		"unknown":             {sink.Mark{Family: "f", Number: 7}, failure(sink.Unknown), sink.Traffic{Doubt: 7}},
		"an error of its own": {sink.Mark{Family: "f", Number: 7}, errors.New("broken"), sink.Traffic{Doubt: 7}},
		"without a fence":     {sink.Mark{Withheld: true, Number: 7}, failure(sink.Unknown), sink.Traffic{Unfenced: true}},
	} {
		answer := c.answer
		gate, write := gated(t, c.mark, answers(func(context.Context) error { return answer }))
		for range 2 {
			_ = write(t.Context())
			answer = nil // the answer to the repetition
		}
		if got := gate.Traffic("t"); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got := gate.Traffic("u"); got != (sink.Traffic{}) {
			t.Errorf("%s: another table: %+v", name, got)
		}
	}
	mark := sink.Mark{Family: "f", Number: 7}
	gate := sink.NewGate(func(context.Context, map[string]sink.Mark) error { return nil })
	prove := func() sink.Stamps {
		t.Helper()
		read := func(context.Context, string) (sink.Mark, error) { return mark, nil }
		stamps, err := sink.Prove(t.Context(), gate, []string{"t"}, read, func(context.Context) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return stamps
	}
	former := prove()
	mark.Number = 8
	for i, stamps := range []sink.Stamps{former, prove(), former} {
		m := put(1, "a=1")
		_, _ = sink.Execute(t.Context(), stamps, answers(func(context.Context) error { return failure(sink.Unknown) }), nil, &m)
		if want := []uint64{7, 8, 8}[i]; gate.Traffic("t").Doubt != want {
			t.Errorf("request %d: %+v, want a doubt under %d", i, gate.Traffic("t"), want)
		}
	}
}

// A request whose context has ended is not sent, so it is not in doubt.
func TestGateDoesNotDoubtWhatWasNotSent(t *testing.T) {
	sent := false
	gate, write := gated(t, sink.Mark{Family: "f", Number: 7}, answers(func(context.Context) error { sent = true; return nil }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := write(ctx); !sink.Is(err, sink.Unknown) || sent || gate.Traffic("t") != (sink.Traffic{}) {
		t.Errorf("sent: %t, %+v, %v", sent, gate.Traffic("t"), err)
	}
}

// Behind a closed gate no request is sent, and requests in flight are awaited.
func TestClosedGateSendsNothing(t *testing.T) {
	sent := 0
	var write func(ctx context.Context) error
	var gate *sink.Gate
	table := answers(func(ctx context.Context) error {
		if sent++; sent > 1 {
			return nil
		}
		gate.Close("t") // while this request is in flight
		if err := write(ctx); !errors.Is(err, sink.ErrFenced) || sink.Repeatable(err) || sent != 1 || !gate.Traffic("t").InFlight {
			t.Errorf("%d requests are sent, %+v, %v", sent, gate.Traffic("t"), err)
		}
		return nil
	})
	gate, write = gated(t, sink.Mark{Family: "f", Number: 7}, table)
	if err := write(t.Context()); err != nil || gate.Traffic("t") != (sink.Traffic{}) {
		t.Errorf("%+v, %v", gate.Traffic("t"), err)
	}
	gate.Open("t")
	if err := write(t.Context()); err != nil || sent != 2 {
		t.Errorf("%d requests are sent, %v", sent, err)
	}
	gate.Close("u")
	if err := write(t.Context()); err != nil || sent != 3 {
		t.Errorf("another table is closed, and %d requests are sent, %v", sent, err)
	}
	gate.Close("u", "t")
	if err := write(t.Context()); !errors.Is(err, sink.ErrFenced) || sent != 3 {
		t.Errorf("both are closed, and %d requests are sent, %v", sent, err)
	}
	gate.Open("u", "t")
	if err := write(t.Context()); err != nil || sent != 4 {
		t.Errorf("both are open, and %d requests are sent, %v", sent, err)
	}
}
