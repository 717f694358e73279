package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// TestSurveysThatFailAreToldOnce, and that they work again as well.
func TestSurveysThatFailAreToldOnce(t *testing.T) {
	var out bytes.Buffer
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	b := blindness{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: plain}))}
	now := noon
	for i, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{preflight.ErrReadTime, `level=WARN msg="cannot read the ledger for the metrics: headroom and last poll are those of the last reading, or missing" error="no answer within 20s"`},
		{preflight.ErrReadTime, ""},
		{errors.New("another"), ""},
		{nil, `level=INFO msg="reads the ledger for the metrics again" took=15s`},
		{nil, ""},
		{errors.New("another"), `level=WARN msg="cannot read the ledger for the metrics: headroom and last poll are those of the last reading, or missing" error=another`},
	} {
		out.Reset()
		b.note(c.err, now)
		if got := strings.TrimSpace(out.String()); got != c.want {
			t.Errorf("survey %d: told %q, want %q", i, got, c.want)
		}
		now = now.Add(5 * time.Second)
	}
}

// A survey looks after what is parked, and forgets what a later change has healed: nobody else does, and it would count for ever.
func TestASurveyForgetsWhatIsHealed(t *testing.T) {
	cfg, to, s := connectedTarget(t, ordersConfig)
	ledger := begunIn(t, "c1", cfg, to, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a survey that never looks must not run for ever
	defer cancel()
	if _, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Generation = 7; return nil }); err != nil {
		t.Fatal(err)
	}
	m, err := preflight.MapTable(cfg.Tables[0], []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	parking := parkedAndHealed(t, cfg, to, m, 1)

	log := aloud{slog.DiscardHandler, make(chan string, 10)}
	w := &worker{program: &program{Console: terminal.Console{Env: nothingSet}}, cfg: cfg, log: slog.New(log), target: to,
		found: preflight.Found{Tables: []preflight.Table{{Config: cfg.Tables[0], Mapping: m}}}}
	surveying, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.survey(surveying, silentObserver(), parking)
	}()
	log.await(ctx, t, "resolved")
	end()
	<-ended
	if n, err := parking.CountOf(t.Context(), "Orders"); err != nil || n != 0 {
		t.Errorf("%d are parked, %v", n, err)
	}
}

// What runs beside a survey is run again once it has ended, and waited for in the end: it must not use clients that are closed.
func TestBesideAgainAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beside, wait := oneBeside()
		ran := 0
		for range 2 {
			beside(func() { ran++ })
			synctest.Wait()
		}
		end, waited := make(chan struct{}), false
		beside(func() { <-end })
		go func() { wait(); waited = true }()
		synctest.Wait()
		if ran != 2 || waited {
			t.Errorf("ran %d times; the end of what runs is waited for: %v", ran, !waited)
		}
		close(end)
		synctest.Wait()
		if !waited {
			t.Error("what has ended is waited for")
		}
	})
}
