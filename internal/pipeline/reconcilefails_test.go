package pipeline

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

func TestAPassEndsWithWhatItFindsOut(t *testing.T) {
	for name, step := range map[string]func(ctx context.Context, k *rig, state checkpoint.TableState) error{
		"a complete pass": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			return reconcilerOf(k).complete(until(ctx))
		},
		"a small pass": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			return reconcilerOf(k).small(until(ctx))
		},
		"a look at the source": func(ctx context.Context, k *rig, _ checkpoint.TableState) error { return k.table().sameSource(ctx) },
		"a pass of a named table that was dropped": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			k.Database = dropped{}
			return reconcilerOf(k).complete(until(ctx))
		},
		"a new stream": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			k.Database = heldUpBy("arn2", "label2")
			k.Open = func(arn string) cdc.Source {
				if arn == "arn" {
					return endedStream{}
				}
				return &pagedStream{pages: [][]cdc.Shard{{{ID: "n"}}}}
			}
			return reconcilerOf(k).complete(until(ctx))
		},
		"a stream that is gone": func(ctx context.Context, k *rig, state checkpoint.TableState) error {
			k.Open = func(string) cdc.Source { return endedStream{} }
			_, err := reconcilerOf(k).list(until(ctx), state)
			return err
		},
		"a shard whose parent nobody has listed": func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			k.Open = func(string) cdc.Source {
				return &pagedStream{pages: [][]cdc.Shard{{{ID: "open"}, {ID: "x", Parent: "nobody"}}}}
			}
			return reconcilerOf(k).complete(until(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) { callsFail(t, nil, step) })
	}
	t.Run("a target that was lost", func(t *testing.T) {
		callsFail(t, func(ctx context.Context, l *checkpoint.Ledger) error {
			_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.WitnessBeat = 5; return nil })
			return err
		}, func(ctx context.Context, k *rig, _ checkpoint.TableState) error {
			return k.table().witnesses.beat(until(ctx))
		})
	})
}
