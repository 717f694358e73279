package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/dashboard"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// listen opens the HTTP address. It is called before all other steps. Profiles require a loopback
// address.
func (w *Worker) listen() (net.Listener, error) {
	l, err := listen(w.Config)
	if err != nil || !w.Profile || admin.OnLoopback(l.Addr()) {
		return l, err
	}
	_ = l.Close() // no request was served yet
	return nil, diag.BadUsage("--pprof needs a loopback address, but "+l.Addr().String()+" is not one", "add --listen 127.0.0.1:0, or remove --pprof")
}

// listen listens on the configured address. If the default address is in use, for example by
// another worker on this machine, it uses any free loopback port and reports the port. It never
// replaces a configured address: a scraper of that address would then read the other worker.
func listen(cfg *config.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", cfg.HTTP.Listen)
	if err == nil {
		return l, nil
	}
	pos := cfg.Where("http.listen")
	taken := errors.Is(err, syscall.EADDRINUSE)
	if taken && pos == (diag.Position{}) {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	e := cannotListen(cfg.HTTP.Listen, err)
	e.Pos = pos
	if taken {
		e.Fix = "give each worker on a machine its own address, such as --listen 127.0.0.1:0 for any free port, or --listen off"
	}
	return nil, e
}

// cannotListen returns the error for an address on which the process cannot listen.
func cannotListen(address string, err error) *diag.Error {
	e := &diag.Error{Code: diag.CannotListen, What: "cannot listen on " + address, Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.Cause = "the address is in use, perhaps by another worker"
	}
	return e
}

// CheckListen checks that a worker can listen on an address. If not, it returns an error with the
// code CannotListen.
func CheckListen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		e := cannotListen(address, err)
		e.Fix = "give another address, such as --listen 127.0.0.1:8081, or remove --listen for any free port"
		return e
	}
	return l.Close()
}

// movedTo returns a warning if the default address was in use, so that the endpoints have another
// address. Otherwise it returns "".
func movedTo(cfg *config.Config, address string) string {
	if cfg.Where("http.listen") != (diag.Position{}) || address == cfg.HTTP.Listen {
		return ""
	}
	return fmt.Sprintf("%s is in use, perhaps by another worker; serving health, metrics and status at %s instead (change it with --listen or http.listen)", cfg.HTTP.Listen, address)
}

// announce logs the address of the HTTP endpoints.
func (w *Worker) announce(address net.Addr) {
	w.Log.Info(admin.ListeningMessage, admin.KeyAddress, address.String())
	if moved := movedTo(w.Config, address.String()); moved != "" {
		w.Log.Warn(moved)
	}
}

// serve serves the HTTP endpoints until ctx ends.
func (w *Worker) serve(ctx context.Context, listener net.Listener, o *observer) error {
	handler := admin.Handler(admin.Options{Clock: task.Clock(ctx), Health: o.health, Metrics: o.metrics, Events: o.feed, Profile: w.Profile, Page: o.board.Page(), Live: o.board.Live(),
		Pages:  o.board.Pages(&dashboard.Ledger{Config: w.Config, Target: w.target}),
		Host:   admin.Hosts(w.Config.HTTP.Listen, listener.Addr(), hostname()),
		Status: func(ctx context.Context) (any, error) { return w.status(ctx) }})
	err := admin.Serve(ctx, listener, handler, w.Log)
	if err != nil {
		w.Log.Error("stopped serving HTTP after an error; the migration continues, but page, health and metrics are unavailable until a restart", admin.KeyError, err)
	}
	return err
}
