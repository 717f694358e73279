package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// An error that no retry can fix ends the process, whichever task meets it. Tasks write, write for
// the second time, or note and acknowledge. If a task ended alone, its messages would stay
// unacknowledged until the others have used up all room, and then all would wait.
func TestAnErrorOfEachTaskEndsTheProcess(t *testing.T) {
	for kind, of := range map[string]error{"orderly": checkpoint.ErrPaused, "fatal": checkpoint.ErrForeignPipeline, "of neither kind": sink.ErrFenced} {
		for by, fail := range map[string]func(s *scene){
			"a write":        func(s *scene) { s.unproved(5*time.Second, of) },
			"a second write": func(s *scene) { s.Tables[0].Late = 15 * time.Second; s.unproved(10*time.Second, of) },
			"a note": func(s *scene) {
				s.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, of }
			},
			"an acknowledgement": func(s *scene) { s.Subscription = refusing{s, of} },
			"a pull":             func(s *scene) { s.Subscription = unpulled{s, of} },
		} {
			playScene(t, func(s *scene) {
				fail(s)
				s.Pulls = 3
				if s.message(1, 7); by == "a write" {
					later := s.waiting
					s.waiting = nil
					s.after(8*time.Second, func() { s.waiting = later })
				}
				err := s.ends(10 * time.Minute)
				if !errors.Is(err, of) || s.took() > time.Minute || slices.Contains(s.told, "ack d1") {
					t.Errorf("%s, %s: after %s %v, %q", by, kind, s.took(), err, s.told)
				}
			})
		}
	}
}

// unproved makes each proof of the right to write fail after a while.
func (s *scene) unproved(after time.Duration, err error) {
	s.store.OnRead = func(context.Context, string) error {
		if s.took() > after {
			return err
		}
		return nil
	}
}

// refusing is a subscription that rejects acknowledgements.
type refusing struct {
	*scene
	err error
}

func (r refusing) Ack(context.Context, []string) error { return r.err }

// unpulled is a subscription that returns no messages.
type unpulled struct {
	*scene
	err error
}

func (u unpulled) Pull(context.Context, int) ([]relay.Delivery, error) { return nil, u.err }

// Where a clean stop is safe, in-flight messages are written, noted and acknowledged. Where it is
// not, nothing more is.
func TestACleanStopFinishesWhatIsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		of   error
		told []string
	}{"orderly": {checkpoint.ErrPaused, []string{"note", "ack d1"}}, "fatal": {checkpoint.ErrForeignPipeline, nil}} {
		playScene(t, func(s *scene) {
			s.Pulls, s.Timing.Pass = 2, time.Second
			s.message(1, 7)
			s.answer = func(ctx context.Context, _ *sink.Request) error { return task.Sleep(ctx, 15*time.Second) }
			s.after(5*time.Second, func() { s.message(2, 7) })
			s.store.OnRead = func(context.Context, string) error {
				if s.took() > 4*time.Second && s.took() < 10*time.Second {
					return c.of
				}
				return nil
			}
			if err := s.ends(10 * time.Minute); !errors.Is(err, c.of) || !slices.Equal(s.told, c.told) || s.took() > 25*time.Second {
				t.Errorf("%s: after %s %v, %q", name, s.took(), err, s.told)
			}
		})
	}
}

// An applier works only on tables of its mode. It changes no table's mode, not even of one that it
// is configured for. Otherwise a worker that writes by itself would leave its changes to appliers.
func TestAnApplierKeepsTheModeOfItsTables(t *testing.T) {
	for _, mode := range []checkpoint.Mode{checkpoint.Direct, checkpoint.Both} {
		for name, later := range map[string]bool{"as it begins": false, "while it runs": true} {
			playScene(t, func(s *scene) {
				leave := func() { s.change(func(state *checkpoint.TableState) { state.Apply = mode }) }
				writes := 0
				if s.message(1, 7); later {
					writes = 1
					s.after(10*time.Second, func() { leave(); s.message(2, 7) })
				} else {
					leave()
				}
				err := s.ends(10 * time.Minute)
				state, _, read := s.Ledger.Table(s.ctx, "Orders")
				s.must(read)
				if !errors.Is(err, checkpoint.ErrMode) || state.Apply != mode || state.Generation != 7 || s.writes != writes || s.took() > time.Minute || s.noted(2) {
					t.Errorf("%s, mode %s: after %s %v, %d writes, then of mode %s in generation %d", name, mode, s.took(), err, s.writes, state.Apply, state.Generation)
				}
			})
		}
	}
}

// A stop does not interrupt a note and its acknowledgement, because otherwise an applied message
// would come again.
func TestAStopBreaksOffNoAcknowledgement(t *testing.T) {
	playScene(t, func(s *scene) {
		s.message(1, 7)
		s.store.OnSwap = func(ctx context.Context, key string, do func() bool) (bool, error) {
			if strings.Contains(key, "/applied/") {
				if err := task.Sleep(ctx, 10*time.Second); err != nil {
					return false, err
				}
				s.told = append(s.told, "note")
			}
			return do(), nil
		}
		s.applies(5 * time.Second)
		if !slices.Equal(s.told, []string{"note", "ack d1"}) || s.took() > 15*time.Second {
			t.Errorf("after %s %q", s.took(), s.told)
		}
	})
}

// Once the application has left the source, the process stops for that reason. It pulls nothing
// more, and leaves held messages of a halted table to the subscription.
func TestAnApplierEndsOnceItsTablesAreLeft(t *testing.T) {
	for name, waiting := range map[string]bool{"idle": false, "with a message of a halted table": true} {
		playScene(t, func(s *scene) {
			s.change(func(state *checkpoint.TableState) { state.Halt.On, state.Halt.Switched = true, true })
			if waiting {
				s.message(1, 7)
			}
			ctx, stop := context.WithCancelCause(s.ctx)
			defer stop(nil)
			last := time.Duration(0)
			s.meanwhile = func(after time.Duration) { last = after }
			s.Pulls = 2
			s.after(10*time.Second, func() { stop(checkpoint.ErrCutOver) })
			s.began = task.Mono(s.ctx)
			err := Run(ctx, s.Options)
			if !errors.Is(err, checkpoint.ErrCutOver) || s.took() > 40*time.Second || last > 11*time.Second || len(s.told) > 0 || s.writes > 0 {
				t.Errorf("%s: after %s %v, the last pull after %s, %q, %d writes", name, s.took(), err, last, s.told, s.writes)
			}
		})
	}
}
