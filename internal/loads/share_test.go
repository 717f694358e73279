package loads

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
)

// capacities are tables with their provisioned read capacity.
type capacities map[string]int64

func (d capacities) Describe(_ context.Context, table string) (backfill.Description, error) {
	units, ok := d[table]
	if !ok {
		return backfill.Description{}, errors.New("denied")
	}
	return backfill.Description{ReadCapacity: units}, nil
}

// A percentage limits nothing for a table without provisioned capacity. throttle says so for the
// tables that it changes.
func TestSharesThatLimitNothing(t *testing.T) {
	tables := capacities{"Provisioned": 100, "OnDemand": 0, "Refused": 0}
	decided := []Decided{{Source: "Provisioned", Action: ActionThrottle}, {Source: "OnDemand", Action: ActionThrottle},
		{Source: "Refused", Action: actionRefused}, {Source: "Denied", Action: ActionThrottle}}
	found := idleShares(context.Background(), tables, "25%", decided)
	if len(found) != 1 || !found[0].Warning || !strings.Contains(found[0].What, "--max-read-capacity: 25% does not limit the load of table OnDemand") {
		t.Errorf("%v", found)
	}
	if found := idleShares(context.Background(), tables, "500", decided); len(found) != 0 {
		t.Errorf("read units are a limit of any table: %v", found)
	}
}
