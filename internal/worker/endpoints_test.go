package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/status"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// TestSecondWorkerFindsAPortOfItsOwn: if the default address is in use, any free port serves; if a
// configured one is, that is an error.
func TestSecondWorkerFindsAPortOfItsOwn(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const minimal = "version: 1\ntarget:\n  project: my-project\n  instance: my-instance\ntables:\n  - from: Orders\n"
	none := func(string) (string, bool) { return "", false }

	cfg, err := config.Parse("replicator.yaml", []byte(minimal), none)
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTP.Listen = taken.Addr().String() // as if that were the default
	l, err := listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Addr().String(); got == taken.Addr().String() || !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("listens on %s", got)
	} else if warned := movedTo(cfg, got); !strings.Contains(warned, got) || !strings.Contains(warned, cfg.HTTP.Listen+" is in use") {
		t.Errorf("it warns %q", warned)
	}
	if warned := movedTo(cfg, cfg.HTTP.Listen); warned != "" {
		t.Errorf("the default address is free, and it warns %q", warned)
	}

	cfg, err = config.Parse("replicator.yaml", []byte(minimal+"http:\n  listen: "+taken.Addr().String()+"\n"), none)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(cfg); err == nil {
		t.Error("a chosen address that is taken is no error")
	}
	if warned := movedTo(cfg, "127.0.0.1:1"); warned != "" {
		t.Errorf("of a chosen address it warns %q", warned)
	}
}

// refusing is a listener that accepts no connection.
type refusing struct{ failure error }

func (r refusing) Accept() (net.Conn, error) { return nil, r.failure }

func (refusing) Close() error { return nil }

func (refusing) Addr() net.Addr { return &net.UnixAddr{Name: "refusing"} }

// Failed endpoints are reported immediately, and again when the run ends. The run then counts as
// failed, because it could not be observed. The surveys continue.
func TestARunTellsThatItsEndpointsFailed(t *testing.T) {
	w, _ := connected(t)
	w.AdoptRows = true // the test writes its own rows
	log := aloud{slog.DiscardHandler, make(chan string, 1000)}
	w.Log = slog.New(log)
	// A run that reports nothing must not run forever.
	ctx, stop := context.WithTimeout(t.Context(), 40*time.Second)
	defer stop()
	failure, ended := errors.New("too many open files"), make(chan error, 1)
	go func() { ended <- w.replicate(ctx, refusing{failure}) }()
	log.await(ctx, t, "stopped serving HTTP")
	for number := range uint64(2) { // the first survey may have begun before they failed
		parkedAndHealed(t, w, 1+2*number)
		log.await(ctx, t, "resolved")
	}
	stop()
	var told *diag.Error
	if err := <-ended; !errors.As(err, &told) || told.Code != diag.CannotListen || !errors.Is(told.Err, failure) {
		t.Errorf("ended with %v", err)
	}
}

// TestNextStepsOfAWorkerFindItsConfiguration: the next steps at its endpoint name the
// configuration, like those of status.
func TestNextStepsOfAWorkerFindItsConfiguration(t *testing.T) {
	w, _ := connected(t)
	w.Hints = " -c orders.yaml"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.serve(ctx, l, silentObserver()) }()
	answer, err := http.Get("http://" + l.Addr().String() + "/api/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var m status.Document
	if err := json.NewDecoder(answer.Body).Decode(&m); err != nil || len(m.NextSteps) != 1 || m.NextSteps[0].Command != "replicator run -c orders.yaml" {
		t.Errorf("%+v, %v", m.NextSteps, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// An address that is in use or invalid is refused before anything begins, as `run` refuses it.
func TestCheckListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, cause := range map[string]string{taken.Addr().String(): "is in use", "127.0.0.1": "missing port", "127.0.0.1:0": ""} {
		err := CheckListen(address)
		if diag.Has(err, diag.CannotListen) != (cause != "") || err != nil && !strings.Contains(err.Error(), cause) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
