package main

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// What a stream still holds may be written under the least age of tombstones, by a worker whose clock is two hours ahead and that was throttled for
// half a day; and an image that may be written is younger than every tombstone that would refuse it, by a clock that is as much behind.
func TestH81_LeastTombstoneAge(t *testing.T) {
	field, ok := reflect.TypeFor[config.State]().FieldByName("TombstoneAge")
	days, err := strconv.Atoi(strings.TrimSuffix(field.Tag.Get("min"), "d"))
	if !ok || err != nil {
		t.Fatal(field, err)
	}
	const clockError, delay = 2 * time.Hour, 12 * time.Hour
	least := time.Duration(days) * 24 * time.Hour
	if oldest := least - imageMargin; oldest < cdc.Retention+clockError+delay {
		t.Errorf("images of more than %s are parked", oldest)
	}
	if imageMargin < clockError+delay {
		t.Errorf("an image may be as old as a tombstone less %s", imageMargin)
	}
}
