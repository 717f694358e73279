package backfill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// hanging does not answer until the caller's context ends, like a client that waits for
// credentials.
type hanging struct{ API }

var errCredentials = errors.New("waiting for credentials")

func (hanging) Scan(ctx context.Context, _ *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", errCredentials, ctx.Err())
}

// A call that hangs before its request is sent fails like any other, and is retried and reported.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := NewTables(hanging{}).Scan(t.Context(), "T", 0, 1, attribute.Item{}, 0)
		if took := time.Since(began); took != CallTime || CallTime <= requestTimeout {
			t.Errorf("ended after %s", took)
		}
		if !cdc.Is(err, cdc.Unavailable) || !errors.Is(err, errCredentials) || !strings.Contains(err.Error(), "no answer within 40s") {
			t.Errorf("got %v", err)
		}
	})
}
