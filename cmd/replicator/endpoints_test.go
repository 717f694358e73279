package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// refusing is a listener that takes no connection.
type refusing struct{ failure error }

func (r refusing) Accept() (net.Conn, error) { return nil, r.failure }

func (refusing) Close() error { return nil }

func (refusing) Addr() net.Addr { return &net.UnixAddr{Name: "refusing"} }

// Endpoints that fail are told at once, and again when the run ends, which did not end well then: nobody could see it. What is surveyed beside them goes on.
func TestARunTellsThatItsEndpointsFailed(t *testing.T) {
	cfg, to, s := connectedTarget(t, ordersConfig)
	s.cloud.routed("c1")
	for _, variable := range s.environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	from, err := preflight.ConnectSource(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	described, err := from.Tables.Describe(t.Context(), "Orders")
	if err != nil {
		t.Fatal(err)
	}
	m, err := preflight.MapTable(cfg.Tables[0], described.PrimaryKey)
	if err != nil {
		t.Fatal(err)
	}
	log := aloud{slog.DiscardHandler, make(chan string, 1000)}
	w := &worker{program: &program{Console: terminal.Console{Env: nothingSet, Stdout: io.Discard, Stderr: io.Discard}}, cfg: cfg, log: slog.New(log),
		lines: backfill.NewRenderer(io.Discard, nil), id: "w", source: from, target: to,
		found: preflight.Found{Cluster: "c1", Tables: []preflight.Table{{Config: cfg.Tables[0], Description: described, Mapping: m}}}}
	ctx, stop := context.WithTimeout(t.Context(), 40*time.Second) // a run that tells nothing must not go on for ever
	defer stop()
	failure, ended := errors.New("too many open files"), make(chan error, 1)
	go func() { ended <- w.run(ctx, refusing{failure}) }()
	log.await(ctx, t, "the HTTP endpoints failed")
	for number := range uint64(2) { // the first survey may have begun before they failed
		parkedAndHealed(t, cfg, to, m, 1+2*number)
		log.await(ctx, t, "resolved")
	}
	stop()
	var told *diag.Error
	if err := <-ended; !errors.As(err, &told) || told.Code != diag.CannotListen || !errors.Is(told.Err, failure) {
		t.Errorf("ended with %v", err)
	}
}
