package pipeline

import (
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// What Run refuses because of the ledger is reported before anything is created.
func TestH99_ARunIsRefusedByItsLedger(t *testing.T) {
	const here, elsewhere = "arn:aws:dynamodb:us-east-1:1:table/T/stream/L", "arn:aws:dynamodb:eu-west-1:1:table/T/stream/L"
	var source *checkpoint.SourceError
	for name, c := range map[string]struct {
		state  checkpoint.TableState
		accept bool
		fits   func(error) bool
	}{
		"not begun":           {checkpoint.TableState{}, false, func(err error) bool { return err == nil }},
		"no generation yet":   {checkpoint.TableState{MappingHash: "other"}, false, func(err error) bool { return err == nil }},
		"as it was":           {checkpoint.TableState{Generation: 1, MappingHash: "hash", StreamARN: here}, false, func(err error) bool { return err == nil }},
		"another mapping":     {checkpoint.TableState{Generation: 1, MappingHash: "other", StreamARN: here}, false, func(err error) bool { return errors.Is(err, checkpoint.ErrMappingChanged) }},
		"which is accepted":   {checkpoint.TableState{Generation: 1, MappingHash: "other", StreamARN: here}, true, func(err error) bool { return err == nil }},
		"another source":      {checkpoint.TableState{Generation: 1, MappingHash: "hash", StreamARN: elsewhere}, true, func(err error) bool { return errors.As(err, &source) }},
		"in both, the source": {checkpoint.TableState{Generation: 1, MappingHash: "other", StreamARN: elsewhere}, false, func(err error) bool { return errors.As(err, &source) }},
	} {
		if err := CheckState(c.state, backfill.Description{Name: "T", StreamARN: here}, "hash", c.accept); !c.fits(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
