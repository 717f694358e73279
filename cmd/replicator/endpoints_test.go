package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// refusing is a listener that takes no connection, and tells when the server has given up.
type refusing struct {
	failure error
	gaveUp  func()
}

func (r refusing) Accept() (net.Conn, error) { return nil, r.failure }

func (r refusing) Close() error {
	r.gaveUp()
	return nil
}

func (refusing) Addr() net.Addr { return &net.UnixAddr{Name: "refusing"} }

// A run whose endpoints failed did not end well, though its pipeline did: nobody could see it.
func TestARunTellsThatItsEndpointsFailed(t *testing.T) {
	cfg, to, s := connectedTarget(t, ordersConfig)
	s.cloud.routed("c1")
	for _, variable := range s.environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	from, err := connectSource(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	described, err := from.tables.Describe(t.Context(), "Orders")
	if err != nil {
		t.Fatal(err)
	}
	m, err := transform.NewMapping("Orders", cfg.Tables[0].TargetNames(), "d", []transform.KeyAttribute{{Name: "id", Type: cdc.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{program: &program{env: nothingSet, stdout: io.Discard, stderr: io.Discard}, cfg: cfg, log: slog.New(slog.DiscardHandler),
		lines: backfill.NewRenderer(io.Discard, nil), id: "w", source: from, target: to,
		found: probed{cluster: "c1", tables: []probedTable{{config: cfg.Tables[0], description: described, mapping: m}}}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failure := errors.New("too many open files")
	err = w.run(ctx, refusing{failure, stop})
	var told *diag.Error
	if !errors.As(err, &told) || told.Code != diag.CannotListen || !errors.Is(told.Err, failure) {
		t.Errorf("ended with %v", err)
	}
}
