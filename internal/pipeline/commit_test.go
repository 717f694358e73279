package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// A shard that is caught up is read every three seconds, but only the renewals of its lease write
// its row, with its progress. Otherwise thousands of idle shards would each write to the ledger as
// often.
func TestAQuietShardIsSeldomCommitted(t *testing.T) {
	source, writes := &rolled{}, 0
	store := &checkpointtest.Memory{OnSwap: func(_ context.Context, key string, execute func() bool) (bool, error) {
		if strings.HasSuffix(key, "/shard/Orders/L/c") {
			writes++
		}
		return execute(), nil
	}}
	o := clusterOptions(t, source, nil)
	play(t, store, time.Hour, o, begun)
	renewals := int(time.Hour / (5 * time.Second)) // a third of a lease
	if source.read < 1200 || source.read > 1300 || writes < renewals*9/10 || writes > renewals+20 {
		t.Errorf("in an hour the shard was read %d times, and its row was written %d times for %d renewals", source.read, writes, renewals)
	}
}
