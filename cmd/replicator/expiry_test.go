package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// TestItemsThatExpireElsewhere: of a global table only the region that removes an expired item marks that in its stream. Elsewhere expire: keep
// cannot hold, and is told.
func TestItemsThatExpireElsewhere(t *testing.T) {
	for _, c := range []struct {
		expire   string
		replicas []string
		told     bool
	}{
		{"keep", []string{"eu-west-1", "us-east-2"}, true},
		{"keep", nil, false},
		{"follow_deletes", []string{"eu-west-1"}, false}, // each delete is one, whoever made it
		{"gc", []string{"eu-west-1"}, false},
	} {
		table := config.Table{From: "Sessions", To: "sessions", TTL: config.TTL{Attribute: "until", Expire: c.expire},
			Families: []config.Family{{Name: "d", Rule: "maxage=30d"}}}
		m, err := table.Mapping([]transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
		if err != nil {
			t.Fatal(err)
		}
		found := preflight.Table{Config: table, Mapping: m, Description: backfill.Description{Name: "Sessions", Replicas: c.replicas}}
		var log bytes.Buffer
		w := &worker{log: slog.New(slog.NewTextHandler(&log, nil))}
		w.warnExpiry(found)
		if told := strings.Contains(log.String(), "code=R1254"); told != c.told {
			t.Errorf("expire: %s with replicas %v is told: %v", c.expire, c.replicas, told)
		}
		if c.told && !strings.Contains(log.String(), "eu-west-1, us-east-2") {
			t.Errorf("told without the regions: %s", log.String())
		}
	}
}
