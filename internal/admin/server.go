package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"time"
)

// Options are what the endpoints serve.
type Options struct {
	// Clock judges the facts of Health, which is nil where no work is done: then nothing is asked for it.
	Clock  func() time.Time
	Health *Health
	// Metrics are nil where nothing is measured.
	Metrics *Metrics
	// Status gives the document of /api/v1/status, which is encoded as JSON. Its error's text is shown to the caller.
	Status func(ctx context.Context) (any, error)
	// Events is followed at /api/v1/events; nil for nothing to follow.
	Events *Feed
	// Page is the page for people at /, and Live what keeps it up to date; nil for none.
	Page, Live http.Handler
	// Host reports whether a request may have this Host header; nil for any. See Hosts.
	Host func(host string) bool
	// Profile serves /debug/pprof/. Profiles show stacks and allocations but never memory itself, so no item data; they cost
	// the process time, hence the flag, and are for a listener on the loopback.
	Profile bool
}

// Handler serves
//
//	/healthz        200 while the main loop turns, else 503: restart me
//	/readyz         200 while the process does its part, else 503
//	/metrics        for Prometheus
//	/               the page for people
//	/api/v1/page    what keeps it up to date: server-sent events
//	/api/v1/status  JSON
//	/api/v1/events  server-sent events
//	/debug/pprof/   if asked for
//
// All are read-only: actions need the command line and hence the clouds' own permissions.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	verdict := func(judge func(Facts, time.Time) Verdict) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			v := judge(o.Health.Facts(), o.Clock())
			status := http.StatusOK
			if !v.OK() {
				status = http.StatusServiceUnavailable
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, v.String()) // the caller went away: nobody is left to tell
		}
	}
	if o.Health != nil {
		mux.HandleFunc("GET /healthz", verdict(live))
		mux.HandleFunc("GET /readyz", verdict(Ready))
	}
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics.Handler())
	}
	mux.Handle("GET /api/v1/status", &sharedStatus{read: o.Status})
	if o.Events != nil {
		mux.Handle("GET /api/v1/events", o.Events)
	}
	if o.Page != nil {
		mux.Handle("GET /{$}", o.Page)
		mux.Handle("GET /api/v1/page", o.Live)
	}
	if o.Profile {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if o.Host != nil && !o.Host(r.Host) {
			http.Error(w, "this host name is not served: use an address, or name the host in http.listen", http.StatusForbidden)
			return
		}
		if foreign(r) {
			http.Error(w, "requests from pages of other sites are refused", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// foreign tells whether a page of another site makes the request, as its browser says. Who is no browser says nothing.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	from, err := url.Parse(origin)
	return err != nil || from.Host != r.Host
}

// Times of the server. Requests are small and answers quick, a CPU profile of 30 seconds aside.
const (
	readWithin  = 10 * time.Second
	writeWithin = time.Minute
	idleWithin  = 2 * time.Minute
	closeWithin = 5 * time.Second
	headerBytes = 16 << 10
)

// Serve answers on l until ctx ends, then lets the requests under way come to their end for a few seconds. It closes l. It returns
// nil after the end of ctx, otherwise why it could not go on.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: h, ReadTimeout: readWithin, WriteTimeout: writeWithin, IdleTimeout: idleWithin, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // broken connections of scrapers and scanners
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close() // what did not end by itself in time
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
