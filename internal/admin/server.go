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

// Options configures the endpoints.
type Options struct {
	// Clock gives the time at which the facts of Health are judged. Health is nil in a process that
	// replicates nothing. Without Health, /healthz and /readyz are not served.
	Clock  func() time.Time
	Health *Health
	// Metrics is nil in a process without metrics.
	Metrics *Metrics
	// Status returns the document of /api/v1/status, which is encoded as JSON. If it fails, the
	// caller sees the text of the error.
	Status func(ctx context.Context) (any, error)
	// Events is the feed of /api/v1/events; nil for none.
	Events *Feed
	// Page serves the web page at /, and Live serves the updates of the page. If nil, there is no
	// page.
	Page, Live http.Handler
	// Pages serves the pages below that page; nil for none.
	Pages http.Handler
	// Host reports whether a request with this Host header is allowed. If Host is nil, any header
	// is allowed. See Hosts.
	Host func(host string) bool
	// Profile enables /debug/pprof/. Profiles show stacks and allocations, but not the contents of
	// memory. So profiles contain no item data. A profile slows the process down. So profiles must
	// be enabled by a flag, and the listener must be on the loopback.
	Profile bool
}

// Handler serves these paths:
//
//	/healthz        200 while the main loop makes passes, else 503 to request a restart
//	/readyz         200 while the process does its work, else 503
//	/metrics        for Prometheus
//	/               the page for people
//	/tables/        pages of a table, its parked items, the findings of its verify and its shards
//	/cutovers/      pages of a group's cutover
//	/pipelines      the pipelines of the state table
//	/api/v1/page    updates of the page: server-sent events
//	/api/v1/status  JSON
//	/api/v1/events  server-sent events
//	/debug/pprof/   if enabled
//
// All are read-only. Only the command line can change anything, so every change needs the clouds'
// own permissions.
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
			_, _ = io.WriteString(w, v.String()) // an error means that the caller has disconnected
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
	if o.Pages != nil {
		for _, path := range []string{"/tables/", "/cutovers/", "/pipelines"} {
			mux.Handle("GET "+path, o.Pages)
		}
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

// foreign reports whether a page of another site sent the request. It relies on headers that
// browsers send. Other clients do not send these headers.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	from, err := url.Parse(origin)
	return err != nil || from.Host != r.Host
}

// Time limits of the server. Requests are small, and answers take little time. The exception is a
// CPU profile, which takes 30 seconds.
const (
	readWithin  = 10 * time.Second
	writeWithin = time.Minute
	idleWithin  = 2 * time.Minute
	closeWithin = 5 * time.Second
	headerBytes = 16 << 10
)

// Serve answers requests on l until ctx ends. Then it gives running requests a few seconds to
// finish, and closes l. It returns nil if ctx ended. Otherwise it returns the error that ended it.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: h, ReadTimeout: readWithin, WriteTimeout: writeWithin, IdleTimeout: idleWithin, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // for example, broken connections
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
		_ = server.Close() // ends the requests that did not finish in time
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
