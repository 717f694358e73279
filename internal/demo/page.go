package demo

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/dashboard"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// pageEvery is how often the page reads the ledger. A worker reads the ledger only every five
// seconds, but viewers of the demo should see each change immediately.
const pageEvery = 500 * time.Millisecond

// page is the status page of a demo. The demo's own process serves it, and reads only the ledger.
// So the page works even when no worker runs.
type page struct {
	board  *dashboard.Board
	feed   *admin.Feed
	config *config.Config
	target status.Target
	env    config.Lookup
}

// openPage serves the status page of the migration on a free port of the loopback, until the
// returned function is called. It narrates the address.
func (d *demo) openPage() (closing func(), err error) {
	env := lookup(childEnvironment(d.Environment, d.dir, d.services))
	cfg, err := config.Load(d.config, env)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", anyPort)
	if err != nil {
		return nil, fmt.Errorf("status page: %w", err)
	}
	feed := admin.NewFeed(time.Now)
	p := &page{board: dashboard.New(build.This().Version, feed.Recent), feed: feed, config: cfg, env: env,
		target: &preflight.Target{Table: d.services.rows, Data: d.services.rows}}
	d.url = "http://" + listener.Addr().String() + "/"
	d.say("status page: %s", d.url)
	return p.serve(listener), nil
}

// serve answers requests and updates the page from the ledger, until the returned function is
// called.
func (p *page) serve(listener net.Listener) (closing func()) {
	ctx, cancel := context.WithCancel(context.Background())
	handler := admin.Handler(admin.Options{Page: p.board.Page(), Live: p.board.Live(), Events: p.feed,
		Pages: p.board.Pages(&dashboard.Ledger{Config: p.config, Target: p.target}),
		Host:  admin.Hosts(listener.Addr().String(), listener.Addr(), ""),
		Status: func(ctx context.Context) (any, error) {
			return status.Gather(ctx, p.config, p.target, p.env, "", time.Now())
		}})
	var both sync.WaitGroup
	// The demo also works without its page.
	both.Go(func() { _ = admin.Serve(ctx, listener, handler, slog.New(slog.DiscardHandler)) })
	both.Go(func() { p.follow(ctx) })
	return func() {
		p.feed.Close() // the server waits for event streams, and these never end by themselves
		p.board.Close()
		cancel()
		both.Wait()
	}
}

// follow updates the page until ctx ends.
func (p *page) follow(ctx context.Context) {
	ticker := time.NewTicker(pageEvery)
	defer ticker.Stop()
	for survey := (status.Survey{}); ; {
		l, err := status.Read(ctx, p.config, p.target, "")
		if m, happened := survey.Take(l, err, p.env, "", time.Now()); m != nil && ctx.Err() == nil {
			for _, e := range happened {
				p.feed.Publish(e)
			}
			p.board.Show(m, err == nil, survey.ReadAt())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// lookup finds variables in an environment in the form of os.Environ.
func lookup(environment []string) config.Lookup {
	return func(name string) (string, bool) {
		for _, entry := range slices.Backward(environment) {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}
