package checkpoint_test

import (
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// H148: a process that reads its items in one region no longer reads or changes the record of a
// table that follows another region. Processes that read no items are not affected.
func TestH148_AProcessOfTheFormerRegion(t *testing.T) {
	const here, there = "arn:aws:dynamodb:us-east-1:1:table/Orders", "arn:aws:dynamodb:eu-west-1:1:table/Orders"
	ctx, store := t.Context(), &checkpointtest.Memory{}
	open := func(worker string) *checkpoint.Ledger {
		l, err := checkpoint.Open(ctx, store, "default", checkpoint.Options{Worker: worker, ID: "ledger"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	worker, operator := open("worker"), open("operator")
	worker.ReadsFrom("Orders", here)
	follow := func(l *checkpoint.Ledger, arn, label string) error {
		_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Generation++
			s.Follow(arn+"/stream/"+label, label)
			return nil
		})
		return err
	}
	for _, err := range []error{follow(worker, here, "L"), follow(worker, here, "L2"), follow(operator, there, "M")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var moved *checkpoint.SourceError
	if _, _, err := worker.Table(ctx, "Orders"); !errors.As(err, &moved) || moved.Table != "Orders" || moved.Found != here || moved.Followed != there+"/stream/M" {
		t.Errorf("the record is read: %v", err)
	}
	moved = nil
	if err := follow(worker, here, "L3"); !errors.As(err, &moved) {
		t.Errorf("the record is changed: %v", err)
	}
	if s, _, err := operator.Table(ctx, "Orders"); err != nil || s.Label != "M" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, _, err := worker.Table(ctx, "Parts"); err != nil {
		t.Errorf("another table: %v", err)
	}
	if err := follow(operator, here, "L"); err != nil {
		t.Fatal(err)
	}
	if s, _, err := worker.Table(ctx, "Orders"); err != nil || s.Label != "L" {
		t.Errorf("back again: %+v, %v", s, err)
	}
}

// The region of an ARN.
func TestRegionOf(t *testing.T) {
	for arn, want := range map[string]string{"arn:aws:dynamodb:eu-west-1:1:table/T/stream/2026-11-01T00:00:00.000": "eu-west-1", "": "", "Orders": "", "arn:aws:s3:::bucket": ""} {
		if got := checkpoint.RegionOf(arn); got != want {
			t.Errorf("%s: %q", arn, got)
		}
	}
}
