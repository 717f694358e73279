package switchover

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
)

// freezing is a Freezing that uses clients.
type freezing struct {
	*tablepolicy.DynamoDB
	source *preflight.Source
	probe  *dynamodb.Client

	mu  sync.Mutex
	own string // ARN of the own role; "" if it is not known yet
}

func newFreezing(cfg *config.Config, s *preflight.Source) *freezing {
	return &freezing{DynamoDB: tablepolicy.NewDynamoDB(s.Client()), source: s, probe: s.ClientAs(cfg.Cutover.ProbeRole), own: cfg.Source.Role()}
}

func (f *freezing) Prober(d backfill.Description) tablepolicy.Prober {
	return tablepolicy.NewProbes(f.probe, d.Name, tablepolicy.KeyOf(d))
}

func (f *freezing) Own(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own == "" {
		own, err := f.source.Caller(ctx)
		if err != nil {
			return "", err
		}
		f.own = own
	}
	return f.own, nil
}
