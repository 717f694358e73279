package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/dashboard"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// site serves the page of a board as a worker does.
type site struct {
	*httptest.Server
	board *dashboard.Board
	// silent drops the events for pages, and refuses makes /api/v1/page refuse requests.
	silent, refuses atomic.Bool
}

// happened returns the events that the pages list.
func happened(int) []admin.Event {
	items := int64(41_200_000)
	return []admin.Event{
		{Kind: admin.EventThrottled, At: at.Add(-20 * time.Second), Table: "VideoApp", Worker: "worker-a", Reason: "target CPU 74% > 70%", Seconds: 3},
		{Kind: admin.EventShardStarted, At: at.Add(-3 * time.Minute), Table: "VideoApp", Shard: "shardId-00000001793612345678-9d41c2e7"},
		{Kind: admin.EventShardDone, At: at.Add(-3 * time.Minute), Table: "VideoApp", Shard: "shardId-00000001793598765432-52b7aa10"},
		{Kind: admin.EventCopyProgress, At: at.Add(-5 * time.Minute), Table: "VideoApp", Items: &items},
		{Kind: admin.EventWorkerCame, At: at.Add(-40 * time.Minute), Worker: "worker-b"},
		{Kind: admin.EventPhase, At: at.Add(-41 * time.Minute), Phase: "copy"},
	}
}

func serve(t *testing.T) *site {
	t.Helper()
	s := &site{board: dashboard.New("v1.2.3", happened)}
	inner := admin.Handler(admin.Options{Clock: time.Now, Health: admin.NewHealth(time.Now), Metrics: admin.NewMetrics("orders", admin.Build{}), Page: s.board.Page(), Live: s.board.Live(), Pages: s.board.Pages(ledgerOf(t)),
		Status: func(context.Context) (any, error) { return map[string]string{}, nil }})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.refuses.Load() && r.URL.Path == "/api/v1/page" {
			http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(&mutable{w, s}, r)
	}))
	t.Cleanup(func() {
		s.board.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// ledgerOf returns a ledger with some parked items of the table VideoApp.
func ledgerOf(t *testing.T) *dashboard.Ledger {
	t.Helper()
	to := stores{&sinktest.Records{}, &checkpointtest.Memory{}}
	hours, err := checkpoint.Open(t.Context(), to.ledger, "acme-2026", checkpoint.Options{Worker: "worker-a", ID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 23 {
		from := at.Truncate(time.Hour).Add(-time.Duration(n+1) * time.Hour)
		part := checkpoint.HourPart{Until: from.Add(time.Hour), Lag: new(0.4 + float64(n*n%37)), Headroom: new(86000.0 - float64(n)), Changes: uint64(40_000 + n*n*700), State: "in_sync"}
		if n == 7 { // an outage
			part.State, part.Parked, part.Lag, part.Headroom = "stalled", 3, new(2400.0), new(83000.0)
		}
		if err := hours.NoteHour(t.Context(), "VideoApp", from, part); err != nil {
			t.Fatal(err)
		}
	}
	for n := range uint64(3) {
		key := fmt.Sprintf("k%d", n)
		change := cdc.Change{Event: cdc.Modify, Time: at, Sequence: cdc.SequenceOf(n + 1), Keys: attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(key)}})}
		change.New = change.Keys
		record := transform.Parked{Source: "VideoApp", Key: key, Version: transform.NewVersion(7, 500000, change.Sequence, 0), Reason: "the row key is longer than 4096 bytes, which is the limit of Bigtable", Change: change}
		if err := sink.NewParking(to.records, "acme-2026").Park(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	found(t, hours, "VideoApp")
	for n := range 12 { // other pipelines, one of them lost
		name := fmt.Sprintf("team-%02d", n)
		if n == 3 {
			write(t, to.ledger, name+"/table/A_rather_long_name_of_a_source_table", `{"format":2}`)
			continue
		}
		if _, err := checkpoint.Open(t.Context(), to.ledger, name, checkpoint.Options{Worker: "worker-" + name, ID: name}); err != nil {
			t.Fatal(err)
		}
		write(t, to.ledger, name+"/table/Orders", fmt.Sprintf(`{"format":%d,"source":"Orders","generation":3,"pause":{"since":"2026-11-02T08:00:00Z","reason":"index rebuild, CHG-4711"}}`, 2+97*(n%2)))
	}
	return &dashboard.Ledger{Config: &config.Config{Name: "acme-2026", State: config.State{Table: "replicator_state", Lease: 15 * time.Second}}, Target: to}
}

// found records three findings of the last verify of a table.
func found(t *testing.T, l *checkpoint.Ledger, source string) {
	t.Helper()
	mapping, err := transform.NewMapping(source, "video_app", "d", []transform.KeyAttribute{{Name: "PK", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := l.UpdateTable(t.Context(), source, func(s *checkpoint.TableState) error {
		s.Generation, s.Mapping = 7, mapping.Describe()
		s.Verify.Number = 4
		s.Verify.Result = checkpoint.VerifyResult{Number: 4, Recheck: "r", EndedAt: at.Add(-time.Minute), Generation: 7, VerifyCounts: checkpoint.VerifyCounts{Compared: 136_000_000, Missing: 2, InFlight: 1}}
		return nil
	})
	var findings []verify.Finding
	for n, kind := range []verify.Kind{verify.Missing, verify.Missing, verify.InFlight} {
		keys := attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(fmt.Sprintf("k%d", n))}})
		findings = append(findings, verify.Finding{Kind: kind, Table: "video_app", Row: fmt.Sprintf("k%d", n), Keys: keys, Reason: "the row was written by an older version of the mapping"})
	}
	if err == nil {
		err = verify.KeepRecheck(t.Context(), l, state, "r", findings)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a row of a ledger as another program would.
func write(t *testing.T, store checkpoint.Store, key, data string) {
	t.Helper()
	if done, err := store.Swap(t.Context(), key, 0, 1, []byte(data)); err != nil || !done {
		t.Fatalf("%s: %t, %v", key, done, err)
	}
}

// stores are the stores of a migration.
type stores struct {
	records *sinktest.Records
	ledger  checkpoint.Store
}

func (s stores) Ledger(string) checkpoint.Store { return s.ledger }
func (s stores) Records(string) sink.Records    { return s.records }

// mutable is a response that can stop sending without ending.
type mutable struct {
	http.ResponseWriter
	site *site
}

func (m *mutable) Write(text []byte) (int, error) {
	if m.site.silent.Load() {
		return len(text), nil
	}
	return m.ResponseWriter.Write(text)
}

func (m *mutable) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// show gives a document to the pages, as after a read of the ledger.
func (s *site) show(m *status.Document) { s.board.Show(m, true, m.At) }

// showLong shows a document as the last of a quarter of an hour.
func (s *site) showLong(m *status.Document) {
	const readings = 60
	for i := range readings {
		earlier := *m
		earlier.At = m.At.Add(-time.Duration(readings-i) * 15 * time.Second)
		earlier.Tables = append([]status.Table(nil), m.Tables...)
		for j := range earlier.Tables {
			t := &earlier.Tables[j]
			wave := 1 + 0.4*float64((i*7+j)%5) - 0.3*float64((i*3)%4)
			t.LagSeconds, t.ChangesPerSecond = scaled(t.LagSeconds, wave), scaled(t.ChangesPerSecond, 2-wave/2)
		}
		s.show(&earlier)
	}
	s.show(m)
}

func scaled(figure *float64, by float64) *float64 {
	if figure == nil {
		return nil
	}
	product := *figure * by
	return &product
}
