package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func testConfig() *config.Config {
	return &config.Config{Name: "acme", Tables: []config.Table{{From: "Orders", To: "orders"}}, Target: config.Target{Project: "p", Instance: "i"}, State: config.State{Lease: 15 * time.Second, Table: "state"}}
}

// judged returns the document of a migration of one table that is being cut over.
func judged() *status.Document {
	shard := checkpoint.Shard{Source: "Orders", ID: "s-2", Parent: "s-1", Label: "L", State: checkpoint.Reading, Owner: "w-a", CaughtUp: true, ReadAt: noon, AppliedTo: noon, FirstRead: noon.Add(-time.Hour), Generation: 7}
	shard.WrittenAt, shard.Applied = noon, 4711
	parent := checkpoint.Shard{Source: "Orders", ID: "s-1", Label: "L", State: checkpoint.Done, DoneAt: noon.Add(-time.Hour), Generation: 7}
	state := checkpoint.TableState{Source: "Orders", Label: "L", Generation: 7, Adopted: 7, Listed: 7, Base: 7, GapCount: 1, Gaps: []checkpoint.DeclaredGap{{At: noon.Add(-20 * time.Hour), Reason: "GetRecords: trimmed"}},
		Load: checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: noon.Add(-3 * time.Hour), DoneAt: noon.Add(-2 * time.Hour), SweptAt: noon.Add(-time.Hour)}}
	state.Verify.Result = checkpoint.VerifyResult{Number: 4, EndedAt: noon.Add(-time.Minute), Generation: 7, Sample: 0.01, VerifyCounts: checkpoint.VerifyCounts{Compared: 100, Missing: 2}}
	state.Verify.Full = checkpoint.VerifyResult{Number: 3, EndedAt: noon.Add(-time.Hour), Generation: 7, VerifyCounts: checkpoint.VerifyCounts{Compared: 9000}}
	c := checkpoint.Cutover{Attempt: 2, Step: checkpoint.CutoverDrain, CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"Orders"}}, FreezeBegunAt: noon.Add(-10 * time.Second), Trouble: "<b>waits</b>",
		Timeline: []checkpoint.CutoverEvent{{At: noon.Add(-70 * time.Second), Step: "requested", Text: "requested by alice", By: "alice"}, {At: noon.Add(-10 * time.Second), Step: "freeze", Text: "gates are ready"}},
		Hooks: []checkpoint.CutoverHook{{Name: "freeze_writes", Began: noon.Add(-9 * time.Second), Ended: noon.Add(-7 * time.Second), Outcome: "quiet", Output: "SECRET"},
			{Name: "switch", Began: noon, Outcome: ""}, {Name: "unfreeze_writes", Began: noon, Ended: noon, Outcome: "refused"}},
		GivenUp: []checkpoint.CutoverTry{{Attempt: 1, Reason: "a shard was split", FreezeBegunAt: noon.Add(-time.Hour), UnfrozenAt: noon.Add(-time.Hour + 8*time.Second)}},
		Gates:   []checkpoint.CutoverGate{{Name: "lag", Table: "Orders", Ready: true, Figure: "held 2m"}}}
	in := &status.Input{Cfg: testConfig(), Tables: testConfig().Tables, Begun: true, Cutovers: checkpoint.Cutovers{c},
		Inputs: []status.TableInput{{Found: true, State: state, Shards: []checkpoint.Shard{parent, shard}, Parked: 1}}}
	return in.Judge(func(string) (string, bool) { return "", false }, "", noon)
}

// stores are the stores of a migration, which count scans and may fail.
type stores struct {
	lot
	store checkpoint.Store
}

func (s *stores) Ledger(string) checkpoint.Store { return s.store }
func (s *stores) Records(string) sink.Records    { return &s.lot }

type lot struct {
	sinktest.Records
	scans int
	err   error
}

func (s *lot) Scan(ctx context.Context, prefix string, keysOnly bool, f func(string, []byte) error) error {
	s.scans++
	if s.err != nil {
		return s.err
	}
	return s.Records.Scan(ctx, prefix, keysOnly, f)
}

// recorded returns a ledger with two hours of the table Orders.
func recorded(t *testing.T) checkpoint.Store {
	t.Helper()
	store := &checkpointtest.Memory{}
	l, err := checkpoint.Open(t.Context(), store, "acme", checkpoint.Options{Worker: "w", ID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for from, part := range map[time.Time]checkpoint.HourPart{noon.Add(-2 * time.Hour): {Until: noon.Add(-time.Hour), Changes: 1500, State: "parked", Parked: 2}, noon.Add(-time.Hour): {Until: noon, Lag: new(3.0), State: "in_sync"},
		noon.Add(-30 * time.Hour): {Until: noon.Add(-29 * time.Hour), State: "stalled"}} {
		if err := l.NoteHour(t.Context(), "Orders", from, part); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// park parks an item of the table Orders.
func (s *stores) park(t *testing.T, key string) {
	t.Helper()
	keys := attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String(key)}})
	record := transform.Parked{Source: "Orders", Key: key, Version: transform.NewVersion(7, 500000, cdc.SequenceOf(1), 0), Reason: "the row key is <empty>", Change: cdc.Change{Event: cdc.Remove, Time: noon, Sequence: cdc.SequenceOf(1), Keys: keys}}
	if err := sink.NewParking(&s.lot, "acme").Park(t.Context(), record); err != nil {
		t.Fatal(err)
	}
}

// get requests a page below the first one.
func get(t *testing.T, h http.Handler, path string) (code int, text string, header http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String(), w.Header()
}

// Each page shows its record with values for programs. Names that the migration lacks are not found.
func TestPages(t *testing.T) {
	b := New("v1.2.3", func(int) []admin.Event { return nil })
	s := &stores{store: recorded(t)}
	h := b.Pages(&Ledger{Config: testConfig(), Target: s})
	if code, text, _ := get(t, h, "/tables/Orders"); code != http.StatusServiceUnavailable {
		t.Errorf("before the first reading: %d, %s", code, text)
	}
	s.park(t, "secret-key")
	b.Show(judged(), true, noon)
	for path, wants := range map[string][]string{
		"/tables/Orders": {`<h1>Orders</h1>`, `id="verdict" data-value="cutover" data-severity="info"`, `Cutover since 11:59 UTC: the application&#39;s writes are frozen`, `id="up" href="../"`,
			`id="lag" data-value="0"`, `id="generation" data-value="7"`, `id="gaps" data-value="1">1, the last at 2026-11-01 16:00:00 UTC: GetRecords: trimmed`, `href="Orders/parked">List of 1 parked items`,
			`id="verify-0-missing" data-value="2"`, `id="verify-1-compared" data-value="9000"`, `2 rows differ`, `last of all items`, `href="Orders/shards/s-2"`, `id="verify-rows" href="Orders/verify"`, `<span id="version">replicator v1.2.3</span>`,
			`id="history" data-value="2"`, `<title>11:00 UTC: 3.0s</title>`, `<title>10:00 UTC: 1.5k</title>`, `text-anchor="middle">06:00</text>`, `text-anchor="end">2k</text>`,
			`<th scope="row">2026-11-02 11:00</th><td class="number">3.0s</td><td class="number">-</td><td class="number">0</td>`},
		"/tables/Orders/parked": {`<h1>Parked items of Orders</h1>`, `id="parked" data-value="1"`, sink.HashOf("secret-key"), `REMOVE`, `2026-11-02 12:00:00`, `the row key is &lt;empty&gt;`, `href="../../"`},
		"/tables/Orders/shards/s-2": {`<h1>Shard s-2</h1>`, `id="owner" data-value="w-a">w-a`, `id="changes" data-value="4711"`, `id="parent" data-value="s-1">Parent: <a href="s-1">`, `Children: none`, `■</span> reading`,
			`id="read_at" data-value="2026-11-02T12:00:00Z">2026-11-02 12:00:00 UTC`, `id="done_at" data-value="">-`},
		"/tables/Orders/shards/s-1": {`Parent: none`, `Children: <a href="s-2">s-2</a>`},
		"/cutovers/Orders": {`<h1>Cutover of Orders</h1>`, `drain, writes are frozen`, `&lt;b&gt;waits&lt;/b&gt;`, `requested by alice`, `<td>alice</td><td class="number">1m00s</td>`, `<td>freeze</td><td>gates are ready</td>`,
			`<td>freeze_writes</td><td><span class="good"><span aria-hidden="true">✓</span> quiet</span></td><td class="number">2.0s</td>`, `◐</span> running`, `✗</span> refused`,
			`a shard was split</td><td class="number">8.0s`, `held 2m`, `id="hooks" data-value="3"`},
	} {
		code, text, header := get(t, h, path)
		if code != http.StatusOK || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d, %v", path, code, header)
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", path, want)
			}
		}
		if strings.Contains(text, "SECRET") || strings.Contains(text, "secret-key") || strings.Contains(text, "<script") {
			t.Errorf("%s shows what it must not: %s", path, text)
		}
	}
	for _, path := range []string{"/tables/Bills", "/tables/Bills/parked", "/tables/Orders/shards/s-9", "/tables/Bills/shards/s-1", "/cutovers/Bills", "/tables/"} {
		if code, _, _ := get(t, h, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if s.scans != 1 {
		t.Errorf("%d scans for one list", s.scans)
	}
}

// A list is read when it is requested, and at most once per second. A list of too many items says
// so, and a failure is shown.
func TestPagesReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("v1.2.3", func(int) []admin.Event { return nil })
		s := &stores{}
		h := b.Pages(&Ledger{Config: testConfig(), Target: s})
		for n := range mostParked {
			s.park(t, strings.Repeat("k", n+1))
		}
		b.Show(judged(), true, noon)
		if s.scans != 0 {
			t.Error("it is read before a request")
		}
		if _, text, _ := get(t, h, "/tables/Orders/parked"); strings.Contains(text, `id="more"`) {
			t.Error("a whole list lacks some items")
		}
		s.park(t, "one more")
		for range 3 {
			get(t, h, "/tables/Orders/parked")
		}
		if s.scans != 1 {
			t.Errorf("%d scans within a second", s.scans)
		}
		time.Sleep(time.Second)
		if _, text, _ := get(t, h, "/tables/Orders/parked"); s.scans != 2 || !strings.Contains(text, `id="more"`) || !strings.Contains(text, `data-value="200"`) {
			t.Errorf("%d scans after a second; %d bytes", s.scans, len(text))
		}
		time.Sleep(time.Second)
		s.err = errors.New("denied")
		if code, text, _ := get(t, h, "/tables/Orders/parked"); code != http.StatusServiceUnavailable || !strings.Contains(text, "cannot read parked items in table state") {
			t.Errorf("a failure: %d, %s", code, text)
		}
	})
}

// A chart has a bar for each known hour, higher for a higher figure, and axes with times and values. A
// figure that is zero is a line.
func TestAChart(t *testing.T) {
	hour := func(ago int, lag *float64) checkpoint.Hour {
		return checkpoint.Hour{From: noon.Add(-time.Duration(ago) * time.Hour), HourPart: checkpoint.HourPart{Lag: lag}}
	}
	p := pastOf([]checkpoint.Hour{hour(40, new(900.0)), hour(23, new(0.0)), hour(2, nil), hour(1, new(30.0)), hour(0, new(60.0))}, noon.Add(59*time.Minute))
	c := p.Charts[0]
	if len(c.Bars) != 3 || c.Bars[0].X != plotLeft+barGap/2.0 || c.Bars[0].Height != 1 || c.Bars[2].Height != plotHeight || c.Bars[1].Height != plotHeight/2 || c.Bars[2].X+c.Bars[2].Width > plotLeft+plotWidth {
		t.Errorf("bars %+v", c.Bars)
	}
	if c.Bars[2].Y+c.Bars[2].Height != plotTop+plotHeight || c.Bars[2].Y < plotTop {
		t.Errorf("the highest bar leaves the plot: %+v", c.Bars[2])
	}
	var times []string
	for _, tick := range c.Times {
		times = append(times, tick.Text)
	}
	if got := strings.Join(times, " "); got != "18:00 00:00 06:00 12:00" {
		t.Errorf("times %s", got)
	}
	if c.Values[0].Text != "0.0s" || c.Values[0].At != plotTop+plotHeight || c.Values[2].At != plotTop {
		t.Errorf("values %+v", c.Values)
	}
	if len(p.Hours) != 4 || p.Hours[0].At != "2026-11-02 12:00" || p.Hours[2].Lag != "-" {
		t.Errorf("the list: %+v", p.Hours)
	}
	if none := pastOf(nil, noon); none.Charts != nil || none.Hours != nil {
		t.Errorf("without hours: %+v", none)
	}
	for highest, want := range map[float64]float64{0: 1, 0.4: 1, 1: 1, 1.2: 2, 60: 60, 61: 70, 86_000: 90_000} {
		if got := roundUp(highest); got != want {
			t.Errorf("the axis of %v ends at %v, want %v", highest, got, want)
		}
	}
}
