package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// inside is a listener with in-memory connections, so that the bubble's time stops while all of
// them wait.
type inside struct {
	connections chan net.Conn
	closed      chan bool
	once        sync.Once
}

func (l *inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *inside) Addr() net.Addr { return &net.UnixAddr{Name: "inside"} }

func (l *inside) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	l.connections <- there
	return here, nil
}

// A request that is in progress when the process ends has some seconds to finish.
func TestRequestsUnderWayHaveSeconds(t *testing.T) {
	for took, want := range map[time.Duration]string{closeWithin - time.Second: "\"slow\"\n", closeWithin + time.Second: ""} {
		synctest.Test(t, func(t *testing.T) {
			l := &inside{connections: make(chan net.Conn), closed: make(chan bool)}
			now := start
			o := options(&now)
			ctx, cancel := context.WithCancel(t.Context())
			o.Status = func(context.Context) (any, error) {
				cancel()
				time.Sleep(took)
				return "slow", nil
			}
			served := make(chan error, 1)
			go func() { served <- Serve(ctx, l, Handler(o), slog.New(slog.DiscardHandler)) }()
			client := http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}
			got := ""
			if r, err := client.Get("http://inside/api/v1/status"); err == nil {
				text, _ := io.ReadAll(r.Body) // an interrupted body is incomplete
				_ = r.Body.Close()
				got = string(text)
			}
			if got != want {
				t.Errorf("a request of %s: %q, want %q", took, got, want)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			time.Sleep(took) // until the abandoned handler has ended too
		})
	}
}

// broken is a listener that accepts no connection, and reports when the server has given up.
type broken struct {
	inside
	failure error
	gaveUp  func()
}

func (b *broken) Accept() (net.Conn, error) { return nil, b.failure }

func (b *broken) Close() error {
	b.gaveUp()
	return nil
}

// The reason why the endpoints failed is reported, even if they fail just as the process ends.
func TestAFailureOfTheEndpointsIsTold(t *testing.T) {
	failure := errors.New("too many open files")
	for name, ends := range map[string]bool{"while the process runs": false, "as it ends": true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := &broken{failure: failure, gaveUp: func() {
				if ends {
					cancel()
					synctest.Wait() // until the end is noticed
				}
			}}
			if err := Serve(ctx, l, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); !errors.Is(err, failure) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
