package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

const text = `
version: 1
name: shop
target: { project: p, instance: i }
tables: [{ from: Orders }]
notify:
  heartbeat: https://beat.example/secret
  to:
    - { url: "https://a.example/secret" }
    - { url: "https://b.example/secret", format: pagerduty, secret_env: KEY }
`

func environment(name string) (string, bool) {
	value, set := map[string]string{"KEY": "key", "OTHER": "other"}[name]
	return value, set
}

// office is a pipeline in virtual time, with its processes and the receivers of its notifications.
type office struct {
	*testing.T
	world *virtual.World
	store *checkpointtest.Memory
	cfg   *config.Config
	calls []string                       // of receivers that accepted
	beats []time.Duration                // when the heartbeat was asked
	take  func(host string) (status int) // the answer of a receiver; nil: 200. 0 is no answer
	// refuse reports whether a call with this body is answered with the status refusal; nil: none is.
	refuse  func(body string) bool
	refusal int
	state   func() status.TableInput // of each table
	count   map[string]int           // by receiver and outcome
	log     strings.Builder
	unread  bool // no process can read the status
}

// play runs a script in virtual time.
func play(t *testing.T, script func(ctx context.Context, o *office)) {
	t.Helper()
	playWith(t, text, script)
}

// playWith runs a script in virtual time, with a configuration.
func playWith(t *testing.T, text string, script func(ctx context.Context, o *office)) {
	t.Helper()
	o := &office{T: t, world: virtual.NewWorld(1, noon, true), store: &checkpointtest.Memory{}, count: map[string]int{}}
	o.state = func() status.TableInput { return status.TableInput{} }
	var err error
	if o.cfg, err = config.Parse("replicator.yaml", []byte(text), environment); err != nil {
		t.Fatal(err)
	}
	if err := o.world.Run(200*time.Hour, func(ctx context.Context) { script(ctx, o) }); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(o.log.String(), "secret") {
		t.Errorf("the log shows a secret:\n%s", o.log.String())
	}
}

// RoundTrip is the network with all receivers.
func (o *office) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := http.StatusOK
	if o.take != nil {
		answer = o.take(request.URL.Host)
	}
	if answer == 0 { // until the call's timeout
		return nil, task.Sleep(request.Context(), time.Hour)
	}
	if request.URL.Host == "beat.example" {
		o.beats = append(o.beats, o.world.Elapsed())
	} else if body, err := io.ReadAll(request.Body); err != nil {
		return nil, err
	} else if o.refuse != nil && o.refuse(string(body)) {
		answer = cmp.Or(o.refusal, http.StatusServiceUnavailable)
	} else if answer == http.StatusOK {
		o.calls = append(o.calls, request.URL.Host+" "+describe(body))
	}
	return &http.Response{StatusCode: answer, Body: io.NopCloser(strings.NewReader("")), Request: request}, nil
}

// describe returns kind and action of a body in both formats.
func describe(body []byte) string {
	var e Event
	if err := json.Unmarshal(body, &e); err == nil && e.Kind != "" {
		return e.Kind + " " + e.Action
	}
	var p pagerDuty
	if err := json.Unmarshal(body, &p); err != nil {
		return err.Error()
	}
	return p.Payload.Class + " " + p.Action
}

// process is a worker: it reads the status every 5 s, and sends when it holds the lease.
type process struct {
	*virtual.Process
	*Sender
	stop context.CancelFunc
	done task.Event
}

func (o *office) process(name string) *process {
	o.Helper()
	machine := o.world.NewProcess(name)
	ledger, err := checkpoint.Open(machine.Context(), o.store, "shop", checkpoint.Options{Worker: name, ID: "l", Lease: 15 * time.Second})
	if err != nil {
		o.Fatal(err)
	}
	p := &process{Process: machine, done: task.NewEvent(machine.Context())}
	p.Sender = New(Options{Config: o.cfg, Env: environment, Ledger: ledger, Log: slog.New(slog.NewTextHandler(&o.log, nil)), Transport: o,
		Count: func(receiver, outcome string) { o.count[receiver+" "+outcome]++ }})
	ctx, stop := context.WithCancel(machine.Context())
	p.stop = stop
	machine.Go("send", func() { p.Run(ctx); p.done.Set() })
	machine.Go("survey", func() {
		for ctx.Err() == nil {
			began := task.Mono(ctx)
			l := &status.Input{Cfg: o.cfg, Tables: o.cfg.Tables, Begun: true}
			for _, t := range o.cfg.Tables {
				in := o.state()
				in.State.Source = t.From
				l.Inputs = append(l.Inputs, in)
			}
			if o.unread {
				_ = task.Sleep(ctx, 5*time.Second)
				continue
			}
			p.Read(l.Judge(environment, "", task.Now(ctx)), began)
			_ = task.Sleep(ctx, 5*time.Second)
		}
	})
	return p
}

func (o *office) sleep(ctx context.Context, d time.Duration) {
	if err := task.Sleep(ctx, d); err != nil {
		o.Fatal(err)
	}
}

// expect compares the accepted calls since the last time, in any order.
func (o *office) expect(want ...string) {
	o.Helper()
	got := slices.Sorted(slices.Values(o.calls))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		o.Errorf("after %s: %q, want %q", o.world.Elapsed(), got, want)
	}
	o.calls = nil
}

func (o *office) parked(n int) {
	o.state = func() status.TableInput {
		return status.TableInput{Found: true, State: checkpoint.TableState{Source: "Orders"}, Parked: n}
	}
}

// Of two processes one sends. When it is killed or stopped, the other continues, and sends nothing
// again.
func TestOneProcessSends(t *testing.T) {
	play(t, func(ctx context.Context, o *office) {
		first, _ := o.process("a"), o.process("b")
		o.parked(1)
		o.sleep(ctx, 20*time.Second)
		o.expect("a.example parked begins", "b.example parked trigger")
		first.Kill()
		o.sleep(ctx, time.Minute)
		o.expect()
		o.parked(0)
		o.sleep(ctx, 2*time.Minute)
		o.expect("a.example parked ends", "b.example parked resolve")
		third := o.process("c")
		o.sleep(ctx, time.Minute)
		third.stop()
		o.parked(2)
		o.sleep(ctx, time.Minute)
		o.expect("a.example parked begins", "b.example parked trigger")
	})
}

// A process that stops releases the lease, so that another process continues at once.
func TestAStopReleasesTheLease(t *testing.T) {
	play(t, func(ctx context.Context, o *office) {
		first := o.process("a")
		o.sleep(ctx, 10*time.Second)
		first.stop()
		if err := first.done.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		o.process("b")
		o.parked(1)
		o.sleep(ctx, 10*time.Second)
		o.expect("a.example parked begins", "b.example parked trigger")
	})
}

// A receiver that does not answer is called again, later and later, and delays no other. What it
// missed arrives in order. A refusal is final.
func TestFailuresAreRetried(t *testing.T) {
	play(t, func(ctx context.Context, o *office) {
		calls := 0
		o.take = func(host string) int {
			if host != "a.example" {
				return http.StatusOK
			}
			calls++
			return []int{http.StatusRequestTimeout, 0, http.StatusInternalServerError, http.StatusTooManyRequests}[calls%4]
		}
		o.process("a")
		o.parked(1)
		o.sleep(ctx, 30*time.Second)
		o.expect("b.example parked trigger")
		o.parked(0)
		o.sleep(ctx, time.Hour)
		o.expect("b.example parked resolve")
		if calls < 12 || calls > 40 {
			t.Errorf("%d calls in an hour", calls)
		}
		o.take = nil
		o.sleep(ctx, longRest)
		if got := o.calls; !slices.Equal(got, []string{"a.example parked begins", "a.example parked ends"}) {
			t.Errorf("%q", got)
		}
		o.calls = nil
		o.take = func(host string) int { return http.StatusForbidden }
		o.parked(1)
		o.sleep(ctx, time.Hour)
		if o.count["1 refused"] != 1 || o.count["2 refused"] != 1 || o.count["1 sent"] != 2 || o.count["1 failed"] != calls {
			t.Errorf("%v", o.count)
		}
		// The log has one line when a failure begins, and one when it ends.
		if n := strings.Count(o.log.String(), "failed to send notifications"); n != 3 {
			t.Errorf("%d lines:\n%s", n, o.log.String())
		}
	})
}

// A notification that waits longer than a day is dropped, and so is one for a receiver that is no
// longer configured.
func TestOldNotificationsAreDropped(t *testing.T) {
	play(t, func(ctx context.Context, o *office) {
		o.take = func(host string) int { return http.StatusBadGateway }
		p := o.process("a")
		o.parked(1)
		o.sleep(ctx, mostAge)
		n, _, err := p.ledger.Notices(ctx)
		if err != nil || len(n.Unsent) != 1 || len(n.Unsent[0].To) != 2 {
			t.Fatalf("%+v, %v", n, err)
		}
		p.stop()
		o.cfg.Notify.To = o.cfg.Notify.To[:1]
		p = o.process("b")
		o.sleep(ctx, time.Minute)
		if n, _, err = p.ledger.Notices(ctx); err != nil || len(n.Unsent) != 0 || o.count["1 dropped"] != 1 || o.count["2 dropped"] != 0 {
			t.Errorf("%+v, %v, %v", n, err, o.count)
		}
	})
}

// A notification is written into the ledger before it is sent, and the lease is renewed before a call.
// While one of both fails, nothing is sent.
func TestNothingIsSentWithoutTheLedger(t *testing.T) {
	for _, failing := range []string{"shop/notices", "shop/keeper//notices"} {
		play(t, func(ctx context.Context, o *office) {
			broken := false
			o.store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
				if broken && key == failing {
					return false, errors.New("unavailable")
				}
				return execute(), nil
			}
			o.process("a")
			o.sleep(ctx, 10*time.Second)
			broken = true
			o.parked(1)
			o.sleep(ctx, time.Minute)
			o.expect()
			broken = false
			o.sleep(ctx, time.Minute)
			o.expect("a.example parked begins", "b.example parked trigger")
		})
	}
}

// receivers returns the receivers in the record, in the order of the configuration.
func (o *office) receivers(ctx context.Context, p *process) []checkpoint.NoticeReceiver {
	o.Helper()
	n, _, err := p.ledger.Notices(ctx)
	if err != nil || len(n.Receivers) != len(o.cfg.Notify.To)+1 {
		o.Fatalf("%+v, %v", n.Receivers, err)
	}
	return n.Receivers
}

// The record has the failures of each receiver, until it accepts a call.
func TestFailuresAreRecorded(t *testing.T) {
	play(t, func(ctx context.Context, o *office) {
		p := o.process("a")
		o.sleep(ctx, time.Minute)
		for _, r := range o.receivers(ctx, p) {
			if !r.FailingSince.IsZero() || r.Name == "" || r.Hash == "" {
				t.Errorf("%+v", r)
			}
		}
		o.take = func(host string) int {
			return map[string]int{"a.example": http.StatusForbidden, "b.example": http.StatusBadGateway, "beat.example": http.StatusBadGateway}[host]
		}
		o.parked(1)
		o.sleep(ctx, 2*time.Minute)
		o.parked(0)
		o.sleep(ctx, 30*time.Hour)
		n, _, _ := p.ledger.Notices(ctx)
		for i, want := range []checkpoint.NoticeReceiver{{Why: "HTTP status 403", Lost: 2}, {Why: "HTTP status 502", Lost: 2}, {Why: "HTTP status 502"}} {
			r := o.receivers(ctx, p)[i]
			if r.Why != want.Why || r.Lost != want.Lost || r.FailingSince.IsZero() {
				t.Errorf("%+v, want %+v", r, want)
			}
			if n.Waiting(r.Hash) != 0 {
				t.Errorf("%s waits for %d", r.Name, n.Waiting(r.Hash))
			}
		}
		o.take = nil
		o.parked(1)
		o.sleep(ctx, 10*time.Minute)
		for _, r := range o.receivers(ctx, p) {
			if !r.FailingSince.IsZero() || r.Why != "" || r.Lost != 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}

// Two receivers of PagerDuty have the same address. Each gets everything, and the failures of one do not
// keep a notification from the other. A receiver that is listed twice gets everything twice.
func TestReceiversWithTheSameAddress(t *testing.T) {
	const same = `
version: 1
name: shop
target: { project: p, instance: i }
tables: [{ from: Orders }]
notify:
  to:
    - { format: pagerduty, secret_env: KEY }
    - { format: pagerduty, secret_env: OTHER }
    - { url: "https://a.example/secret" }
    - { url: "https://a.example/secret" }
`
	playWith(t, same, func(ctx context.Context, o *office) {
		down := true
		o.refuse = func(body string) bool { return down && strings.Contains(body, `"routing_key":"other"`) }
		o.process("a")
		o.parked(1)
		o.sleep(ctx, 5*time.Minute)
		o.expect("events.pagerduty.com parked trigger", "a.example parked begins", "a.example parked begins")
		down = false
		o.sleep(ctx, 10*time.Minute)
		o.expect("events.pagerduty.com parked trigger")
	})
}

// PagerDuty takes one call for each table, and limits calls. Each table arrives, and no call is made
// twice. A call that is refused does not keep the next from it.
func TestManyTablesAtOnce(t *testing.T) {
	var many strings.Builder
	const tables = 60
	for i := range tables {
		fmt.Fprintf(&many, "\n  - { from: Table%d }", i)
	}
	playWith(t, strings.Replace(text, " [{ from: Orders }]", many.String(), 1), func(ctx context.Context, o *office) {
		var window time.Duration
		took := 0
		o.take = func(host string) int {
			if host != "b.example" {
				return http.StatusOK
			}
			if now := o.world.Elapsed(); now-window >= time.Minute {
				window, took = now, 0
			}
			if took++; took > 20 {
				return http.StatusTooManyRequests
			}
			return http.StatusOK
		}
		refused := 0
		o.refuse = func(body string) bool {
			if strings.Contains(body, `"component":"Table7"`) {
				refused++
			}
			return strings.Contains(body, `"component":"Table7"`)
		}
		o.refusal = http.StatusBadRequest
		o.process("a")
		o.parked(1)
		o.sleep(ctx, 20*time.Minute)
		got := map[string]int{}
		for _, call := range o.calls {
			got[call]++
		}
		if got["a.example parked begins"] != 1 || got["b.example parked trigger"] != tables-1 || refused != 1 || o.count["2 refused"] != 1 {
			t.Errorf("%v, %v, refused %d", got, o.count, refused)
		}
	})
}

// A receiver that is added while a condition lasts gets the condition, and no earlier step.
func TestANewReceiverGetsWhatLasts(t *testing.T) {
	play(t, func(ctx context.Context, o *office) {
		all := o.cfg.Notify.To
		o.cfg.Notify.To = all[:1]
		p := o.process("a")
		o.parked(1)
		o.sleep(ctx, time.Minute)
		o.expect("a.example parked begins")
		p.stop()
		o.cfg.Notify.To = all
		p = o.process("b")
		o.sleep(ctx, time.Minute)
		o.expect("b.example parked trigger")
		p.stop()
		o.process("c")
		o.sleep(ctx, time.Minute)
		o.expect()
	})
}

// The heartbeat is asked each minute by one process, as long as the state can be read.
func TestHeartbeat(t *testing.T) {
	play(t, func(ctx context.Context, o *office) {
		o.process("a")
		o.process("b")
		o.sleep(ctx, 10*time.Minute)
		if n := len(o.beats); n < 9 || n > 11 {
			t.Errorf("%d heartbeats in ten minutes", n)
		}
		before := len(o.beats)
		o.unread = true
		o.sleep(ctx, 10*time.Minute)
		if n := len(o.beats) - before; n > 1 {
			t.Errorf("%d heartbeats while the state cannot be read", n)
		}
		o.unread = false
		before = len(o.beats)
		o.take = func(host string) int { return http.StatusBadGateway }
		o.sleep(ctx, 3*time.Minute)
		o.take = nil
		o.sleep(ctx, 2*time.Minute)
		if log := o.log.String(); strings.Count(log, "failed to send heartbeats") != 1 || strings.Count(log, "recovered: send heartbeats") != 1 || o.count["heartbeat failed"] < 2 {
			t.Errorf("%d heartbeats, %v:\n%s", len(o.beats)-before, o.count, log)
		}
	})
}

// Without notifications there is no sender, and nothing happens.
func TestNoSender(t *testing.T) {
	s := New(Options{Config: &config.Config{}})
	s.Read(nil, 0)
	s.Run(t.Context())
	if s != nil {
		t.Error("there is a sender")
	}
}

// The record is written when something is new, not for each status that is read.
func TestAnUnchangedRecordIsNotWritten(t *testing.T) {
	play(t, func(ctx context.Context, _ *office) {
		sending := &term{Sender: &Sender{pipeline: "p", log: slog.New(slog.DiscardHandler)}, tracker: newTracker()}
		for i, want := range []bool{true, false, false} {
			sending.dirty = false
			if err := sending.look(ctx, &status.Document{At: time.Unix(int64(i), 0)}, i == 0); err != nil || sending.dirty != want {
				t.Errorf("look %d: the record is to be written: %v, %v", i, sending.dirty, err)
			}
		}
	})
}
