package stream

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

func TestAPassEndsWithWhatItFindsOut(t *testing.T) {
	for name, step := range map[string]func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) error{
		"a complete pass": func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) error {
			return reconcilerOf(k).fullPass(engine.Until(ctx))
		},
		"a small pass": func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) error {
			return reconcilerOf(k).quickPass(engine.Until(ctx))
		},
		"a look at the source": func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) error {
			return k.Table().SameSource(ctx)
		},
		"a pass of a named table that was dropped": func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) error {
			k.Database = enginetest.Dropped{}
			return reconcilerOf(k).fullPass(engine.Until(ctx))
		},
		"a new stream": func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) error {
			k.Database = enginetest.HeldUpBy("arn2", "label2")
			k.Open = func(arn string) cdc.Source {
				if arn == "arn" {
					return enginetest.EndedStream{}
				}
				return &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "n"}}}}
			}
			return reconcilerOf(k).fullPass(engine.Until(ctx))
		},
		"a stream that is gone": func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) error {
			k.Open = func(string) cdc.Source { return enginetest.EndedStream{} }
			_, err := reconcilerOf(k).list(engine.Until(ctx), state)
			return err
		},
		"a shard whose parent nobody has listed": func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) error {
			k.Open = func(string) cdc.Source {
				return &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "open"}, {ID: "x", Parent: "nobody"}}}}
			}
			return reconcilerOf(k).fullPass(engine.Until(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) { enginetest.CallsFail(t, nil, step) })
	}
	t.Run("a target that was lost", func(t *testing.T) {
		enginetest.CallsFail(t, func(ctx context.Context, l *checkpoint.Ledger) error {
			_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.WitnessBeat = 5; return nil })
			return err
		}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) error {
			return k.Table().Witnesses.Beat(engine.Until(ctx))
		})
	})
}
