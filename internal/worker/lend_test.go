package worker

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A process that is not a worker opens the clients of a worker, and copies a part of a load. A load
// has no such process without a coordinator, and none in a target that was recreated.
func TestPartsAreCopiedWithoutAWorker(t *testing.T) {
	w, _ := connected(t)
	ledger := begin(t, w)
	if err := w.source.Canary.Put(t.Context(), "Orders", attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})); err != nil {
		t.Fatal(err)
	}
	cfg := w.Config
	o := LendOptions{Config: cfg, Console: &terminal.Console{Env: nothingSet, Stdout: io.Discard, Stderr: io.Discard}, Log: slog.New(slog.DiscardHandler),
		Allowed: environment.Allowed{Emulator: true}, Table: "Orders", As: "beam/job/host"}
	d := w.found.Tables[0].Description
	state, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
		s.StreamARN, s.Generation, s.MappingHash = d.StreamARN, 1, cfg.Hash(cfg.Tables[0])
		s.Load = checkpoint.Load{Generation: 1, Number: 1, Parts: 2, TableID: d.ID, StartedAt: time.Now()}
		return nil
	})
	if err == nil {
		err = (&fence.Fence{Ledger: ledger, Families: w.target.Admin}).Open(t.Context(), "Orders")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLending(t.Context(), o); !diag.Has(err, diag.LoadRefused) {
		t.Errorf("without a coordinator: %v", err)
	}
	lease, err := ledger.CoordinatorLease(t.Context(), "Orders")
	if err == nil {
		_, err = ledger.TakeCoordinatorLease(t.Context(), lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLending(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	order, _ := load.RunningCopy(state)
	bounds := load.Lending{Patience: time.Minute, AtMost: time.Minute, Report: 10 * time.Millisecond}
	lender, err := l.Lender(t.Context(), order, bounds)
	if err != nil {
		t.Fatal(err)
	}
	copied := int64(0)
	for index := range order.Parts {
		outcome, err := lender.Copy(t.Context(), index, func(items int64) { copied += items })
		if outcome != load.Done || err != nil {
			t.Errorf("part %d: %s: %v", index, outcome, err)
		}
	}
	rows := 0
	if err := w.target.Data.ReadRows(t.Context(), "Orders", sink.Range{}, func(sink.Row) error { rows++; return nil }); err != nil || rows != 1 || copied != 1 {
		t.Errorf("%d rows, %d items: %v", rows, copied, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if writers, err := ledger.Writers(t.Context()); len(writers) != 0 || err != nil {
		t.Errorf("%+v: %v", writers, err)
	}
	if _, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error { s.WitnessBeat = 7; return nil }); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLending(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lender(t.Context(), order, bounds); !errors.Is(err, load.ErrTarget) {
		t.Errorf("in a target that was recreated: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
