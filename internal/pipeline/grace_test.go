package pipeline

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A stop while the ledger does not answer ends with the grace, and as a clean stop. Clients report
// a cancelled call in their own words, but that is no error of the process.
func TestStopEndsWithTheGrace(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := &checkpointtest.Memory{}
	ledger, err := checkpoint.Open(ctx, store, "grace", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	store.OnRead = func(ctx context.Context, prefix string) error {
		if strings.Contains(prefix, "/keeper/") {
			stop() // the call is in flight when the stop is requested
			<-ctx.Done()
			return errors.New("rpc error: code = Canceled")
		}
		return nil
	}
	m := enginetest.OrdersMapping(t)
	err = Run(ctx, engine.Options{
		Ledger: ledger, Floors: &engine.Floors{}, Tables: []engine.Spec{{Mapping: m}}, Timing: engine.Timing{Grace: time.Millisecond},
	})
	if err != nil {
		t.Errorf("a stop ended with %v", err)
	}
}

// A page that is being written when a stop is requested has the whole grace. Once it is durable,
// its position is committed, its lease released, and the process ends. A page that takes longer is
// abandoned exactly when the grace ends.
func TestAPageInHandHasTheGrace(t *testing.T) {
	const stopped, grace = time.Minute, 20 * time.Second
	for name, c := range map[string]struct {
		answered, ended time.Duration
		position        cdc.SequenceNumber
		owner           string
	}{
		"within it": {stopped + grace - time.Second, stopped + grace - time.Second, cdc.SequenceOf(1), ""},
		"after it":  {stopped + grace + time.Second, stopped + grace, cdc.SequenceNumber{}, "w"},
	} {
		o := crowd(t, newBacklog(1), enginetest.Targets{Answered: c.answered}, "Orders")
		var ledger *checkpoint.Ledger
		prepare := func(ctx context.Context, l *checkpoint.Ledger) error {
			ledger = l
			return enginetest.Behind(1, "Orders")(ctx, l)
		}
		runs(t, &checkpointtest.Memory{}, stopped, o, prepare, func(ctx context.Context, err error) {
			now := task.Mono(ctx)
			shards, errShards := ledger.Shards(ctx, "Orders")
			if err != nil || errShards != nil || len(shards) != 1 || now < c.ended || now > c.ended+time.Second {
				t.Fatalf("%s: ended after %s, %v, %v", name, now, err, errShards)
			}
			if s := shards[0]; s.Position.Compare(c.position) != 0 || s.Owner != c.owner {
				t.Errorf("%s: at %q, held by %q", name, s.Position, s.Owner)
			}
		})
	}
}

// A stop immediately ends a read that hangs, because its page would still have to be written.
func TestAReadThatHangsHasNoGrace(t *testing.T) {
	o := crowd(t, newBacklog(1), enginetest.Targets{}, "Orders")
	o.Open = func(string) cdc.Source { return hanging{newBacklog(1)} }
	runs(t, &checkpointtest.Memory{}, time.Minute, o, enginetest.Behind(1, "Orders"), func(ctx context.Context, err error) {
		if now := task.Mono(ctx); err != nil || now > time.Minute+time.Second {
			t.Errorf("ended after %s, %v", now, err)
		}
	})
}

// hanging is a backlog that never returns a page.
type hanging struct{ *backlog }

func (hanging) Read(ctx context.Context, _ cdc.Iterator) (cdc.Page, error) {
	return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable, Err: task.NewEvent(ctx).Wait(ctx)}
}

// TestPagesStateTheGrace: pages, manifests and the unit name the duration of a clean stop. They
// allow that time, the time that the endpoints need, and the time that a relay waits for its topic.
func TestPagesStateTheGrace(t *testing.T) {
	grace := engine.Timing{}.OrDefault(15 * time.Second).Grace
	stated := regexp.MustCompile(`(?:clean stop|SIGTERM)[^|]{0,200}?\b(\d+) (?:s|seconds)\b`)
	given := regexp.MustCompile(`(?:TimeoutStopSec=|terminationGracePeriodSeconds: )(\d+)`)
	const others = 5*time.Second + 30*time.Second
	for path, limits := range map[string]int{
		"deploy/README.md": 0, "docs/how-to/kubernetes.md": 0, "docs/how-to/restart-and-upgrade.md": 0, "docs/runbooks/continuous-sync.md": 0,
		"deploy/systemd/replicator.service": 1, "deploy/kubernetes/base/deployment.yaml": 1, "deploy/kubernetes/overlays/load/job.yaml": 1,
	} {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		said := stated.FindAllStringSubmatch(strings.Join(strings.Fields(string(text)), " "), -1)
		if len(said) == 0 && path != "deploy/kubernetes/overlays/load/job.yaml" {
			t.Errorf("%s does not say how long a clean stop takes", path)
		}
		for _, m := range said {
			if m[1] != strconv.Itoa(int(grace.Seconds())) {
				t.Errorf("%s: a clean stop takes %s, not %s s: %s", path, grace, m[1], m[0])
			}
		}
		ends := given.FindAllStringSubmatch(string(text), -1)
		if len(ends) != limits {
			t.Errorf("%s: %d limits, want %d", path, len(ends), limits)
		}
		for _, m := range ends {
			if seconds, err := strconv.Atoi(m[1]); err != nil || time.Duration(seconds)*time.Second < grace+others {
				t.Errorf("%s: %s is less than %s", path, m[0], grace+others)
			}
		}
	}
}
