package load

import (
	"context"
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

func TestALoadEndsWithWhatItFindsOut(t *testing.T) {
	t.Run("a load that begins", func(t *testing.T) {
		enginetest.CallsFail(t, func(ctx context.Context, l *checkpoint.Ledger) error {
			_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
				s.Adopted, s.Load.AskedAt = s.Generation, enginetest.ListingsBegin
				return nil
			})
			return err
		}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) error {
			return loadsOf(k).conductor.seal(engine.Until(ctx), engine.View{State: state})
		})
	})
	t.Run("a load that ends", func(t *testing.T) {
		enginetest.CallsFail(t, func(ctx context.Context, l *checkpoint.Ledger) error { // in the next generation, of which nothing is lost
			_, errNext := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
				s.Generation, s.Load = 8, checkpoint.Load{Generation: 8, Number: 1, Parts: 1, StartedAt: enginetest.ListingsBegin}
				return nil
			})
			_, errAdopt := l.Adopt(ctx, "Orders")
			part, err := l.TakePart(ctx, checkpoint.Part{Source: "Orders", Generation: 8, Number: 1, Phase: checkpoint.PhaseCopy, Total: 1})
			if err = errors.Join(errNext, errAdopt, err); err != nil {
				return err
			}
			return part.Finish(ctx, checkpoint.PartProgress{Items: 7})
		}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) error {
			return loadsOf(k).conductor.complete(engine.Until(ctx), state, unpaced{})
		})
	})
}

// unpaced stores no pace.
type unpaced struct{}

func (unpaced) SavePace(context.Context, checkpoint.Pace) error { return nil }
