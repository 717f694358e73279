package sink_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// poisoned returns an image of a tenant with a value, and with a column that no row can have.
func poisoned(key, tenant, value string) attribute.Item {
	long := strings.Repeat("n", transform.MaxQualifierBytes+1)
	return attribute.NewItem(append(image(key, tenant, value).Attributes(), attribute.Attribute{Name: long, Value: attribute.Null()}))
}

// Several records of one item that heal together are each removed and reported once.
func TestRecordsOfOneItemHealTogether(t *testing.T) {
	s := newTenants(t)
	s.write(became(1, attribute.Item{}, poisoned("k", "t", "1")))
	s.write(became(2, poisoned("k", "t", "1"), poisoned("k", "t", "2")))
	s.write(became(3, poisoned("k", "t", "2"), image("k", "t", "3")))
	s.expect("healed", "k1 k2")
	if resolved, left, err := s.parking.Resolve(context.Background(), s.mapping, s.table); resolved != 2 || left != 0 || err != nil {
		t.Errorf("%d resolved, %d left: %v", resolved, left, err)
	}
}

var errRemoval = errors.New("not removed")

// stubborn is a record store in which removals fail and a list breaks off after some records.
type stubborn struct {
	*sinktest.Records
	removals error
	listed   int
}

func (s *stubborn) Delete(ctx context.Context, key string) error {
	if s.removals != nil {
		return s.removals
	}
	return s.Records.Delete(ctx, key)
}

func (s *stubborn) Scan(ctx context.Context, prefix string, keysOnly bool, f func(string, []byte) error) error {
	n := 0
	return s.Records.Scan(ctx, prefix, keysOnly, func(key string, data []byte) error {
		if s.listed > 0 && n == s.listed {
			return errUnlisted
		}
		n++
		return f(key, data)
	})
}

// A record that could not be removed stays, and is not reported as resolved.
func TestRecordThatCannotBeRemovedIsLeft(t *testing.T) {
	s := newTenants(t)
	s.write(became(1, attribute.Item{}, poisoned("k", "t", "1")))
	s.write(became(2, poisoned("k", "t", "1"), image("k", "t", "2")))
	parking := sink.NewParking(&stubborn{Records: s.records, removals: errRemoval}, "m")
	if resolved, left, err := parking.Resolve(context.Background(), s.mapping, s.table); resolved != 0 || left != 1 || !errors.Is(err, errRemoval) {
		t.Errorf("%d resolved, %d left: %v", resolved, left, err)
	}
}

// If a list breaks off, Supersede fails: otherwise the caller would believe that all obsolete
// records were found.
func TestSupersedeFailsWithHalfALook(t *testing.T) {
	s := newTenants(t)
	records := &stubborn{Records: s.records}
	parking := sink.NewParking(records, "m")
	for i := uint64(1); i <= 2; i++ {
		bad := s.fold(became(i, attribute.Item{}, image("k", "", "v")))
		if err := parking.Park(context.Background(), bad.Parked[0]); err != nil {
			t.Fatal(err)
		}
	}
	item := s.mapping.ItemKey(image("k", "", ""))
	records.listed = 1
	if err := parking.Supersede(context.Background(), "Orders", item, version(3)); !errors.Is(err, errUnlisted) {
		t.Error(err)
	}
	records.listed = 0
	if err := parking.Supersede(context.Background(), "Orders", item, version(3)); err != nil {
		t.Error(err)
	}
	s.expect("superseded", "")
}

// A negative limit tolerates nothing: the first parked item is stored, and ends the write.
func TestNoParkedItemIsTolerated(t *testing.T) {
	parking := newLot()
	w := sink.NewWriter(sink.Options{Table: memory(), Parking: parking, MaxParked: -1})
	b := fold("a", "bad")
	if err := w.Write(context.Background(), sink.Unfenced(), &b); !errors.Is(err, sink.ErrParkedLimit) || len(parking.list(t)) != 1 {
		t.Error(err)
	}
	good := fold("a", "b")
	if err := w.Write(context.Background(), sink.Unfenced(), &good); err != nil {
		t.Error(err)
	}
}

// slowLot answers too late, with an error that a retry may fix, like Bigtable.
type slowLot struct{ sink.ParkingLot }

func (slowLot) Park(ctx context.Context, _ transform.Parked) error {
	_ = task.NewEvent(ctx).Wait(ctx) // wait for its end
	return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "DeadlineExceeded"}
}

// A slow parking lot ends no migration: its own error can be retried, unlike the end of the
// caller's context. If the caller's time is up, Write returns that reason.
func TestSlowParkingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sink.NewWriter(sink.Options{Parking: slowLot{}, Timeout: 7 * time.Second, Table: memory()})
		b := fold("bad")
		if err := w.Write(t.Context(), sink.Unfenced(), &b); !sink.Repeatable(err) || len(b.Parked) != 1 {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Write(ctx, sink.Unfenced(), &b); !errors.Is(err, context.DeadlineExceeded) || len(b.Parked) != 1 {
			t.Error(err)
		}
	})
}
