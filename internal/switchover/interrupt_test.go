package switchover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// While the ledger does not take the cancellation of a command that drives and is interrupted, the
// command says nothing of one and goes on to ask: else the driver would go on to the switch of a
// cutover that its operator has ended.
func TestAnInterruptWhileTheLedgerIsAway(t *testing.T) {
	playScene(t, func(s *scene) {
		ctx, interrupt := context.WithCancelCause(s.Ctx)
		s.World.Go("interrupt", func(context.Context) {
			for s.Cutover().Step != checkpoint.CutoverDrain {
				s.Sleep(100 * time.Millisecond)
			}
			back := s.Now().Add(10 * time.Second)
			s.Store.OnSwap = func(_ context.Context, key string, do func() bool) (bool, error) {
				if s.Now().Before(back) && strings.HasSuffix(key, "/cutover") {
					if strings.Contains(s.stderr.String(), "interrupted") {
						t.Error("it says that the cutover is cancelled")
					}
					return false, errors.New("away")
				}
				return do(), nil
			}
			interrupt(errors.New("interrupted"))
		})
		d, code := s.run(ctx, func(ctx context.Context, o *Operator) error { return o.Start(ctx, keep) })
		if d.Step != "cancelled" || code != diag.CutoverCancelled || hooksOf(s.calls) != "freeze_writes unfreeze_writes" || strings.Count(s.stderr.String(), "interrupted:") != 1 {
			t.Errorf("%s: %s after %v", code, d.Step, s.calls)
		}
		s.nobodyDrives()
	})
}
