package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// routed has the default app profile route to a cluster.
func (c *cloud) routed(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.clusters = true, []string{cluster}
	c.profiles = map[string]*adminpb.AppProfile{"projects/p/instances/i/appProfiles/default": {RoutingPolicy: &adminpb.AppProfile_SingleClusterRouting_{
		SingleClusterRouting: &adminpb.AppProfile_SingleClusterRouting{ClusterId: cluster, AllowTransactionalWrites: true}}}}
}

// connectedTarget is the target of a configuration in the embedded services, with its tables.
func connectedTarget(t *testing.T, text string) (*config.Config, *preflight.Target, *embedded) {
	t.Helper()
	s := servicesWithOrders(t)
	t.Setenv("BIGTABLE_EMULATOR_HOST", s.bigtable.Addr)
	cfg, err := config.Parse("replicator.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	to, err := preflight.ConnectTarget(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	if _, err := to.Admin.Prepare(t.Context(), preflight.Specs(cfg), true); err != nil {
		t.Fatal(err)
	}
	return cfg, to, s
}

const ordersConfig = `version: 1
target: { project: p, instance: i }
tables: [{ from: Orders }]
`

// begunIn is the ledger of a migration that was begun in a cluster, to which the app profile routes.
func begunIn(t *testing.T, cluster string, cfg *config.Config, to *preflight.Target, s *embedded) *checkpoint.Ledger {
	t.Helper()
	s.cloud.routed(cluster)
	ledger, err := checkpoint.Open(t.Context(), preflight.LedgerStore(to, cfg), cfg.Name, checkpoint.Options{Worker: "w", ID: "l", Lease: cfg.State.Lease})
	if err == nil {
		err = ledger.CheckCluster(t.Context(), cluster)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

// An app profile that is led to another cluster while a worker runs is noticed by whoever asks then, and not told from memory: by the
// pipeline, by the probe, and by a retry.
func TestH46_TheClusterIsAskedForAnew(t *testing.T) {
	cfg, to, s := connectedTarget(t, ordersConfig)
	ledger := begunIn(t, "c1", cfg, to, s)
	w := &worker{program: &program{}, cfg: cfg, target: to, source: &preflight.Source{}, found: preflight.Found{Cluster: "c1"}}
	ask := w.options(ledger, nil, silentObserver()).Cluster
	d := &parked.Decision{Cfg: cfg, Target: to}
	for _, cluster := range []string{"c1", "c2"} {
		s.cloud.routed(cluster)
		if got, err := ask(t.Context()); got != cluster || err != nil {
			t.Errorf("the pipeline is told %q, %v", got, err)
		}
		p := &preflight.Prober{Cfg: cfg, Target: to}
		if _, err := p.Profile(t.Context()); err != nil || p.Found.Cluster != cluster {
			t.Errorf("the probe found %q, %v", p.Found.Cluster, err)
		}
		if err := d.SameCluster(t.Context(), ledger); (err == nil) != (cluster == "c1") || err != nil && !errors.Is(err, checkpoint.ErrClusterChanged) {
			t.Errorf("a retry into %s: %v", cluster, err)
		}
	}
	s.cloud.mu.Lock()
	clear(s.cloud.profiles)
	s.cloud.mu.Unlock()
	var profile *sink.ProfileError
	if err := d.SameCluster(t.Context(), ledger); !errors.As(err, &profile) {
		t.Errorf("a retry by a profile that is gone, which may lead anywhere: %v", err)
	}
}

// What the probe found is held against the ledger before a run begins, whatever the pipeline is told later, which asks beside its tables.
func TestH46_NothingBeginsInAnotherCluster(t *testing.T) {
	cfg, to, s := connectedTarget(t, ordersConfig)
	begunIn(t, "c1", cfg, to, s)
	quiet := &program{Console: terminal.Console{Env: func(string) (string, bool) { return "", false }, Stdout: io.Discard, Stderr: io.Discard}}
	w := &worker{program: quiet, cfg: cfg, log: slog.New(slog.DiscardHandler), lines: backfill.NewRenderer(io.Discard, nil), id: "w",
		target: to, source: &preflight.Source{}, found: preflight.Found{Cluster: "c2"}, flags: runFlags{once: true, idle: time.Second}}
	if err := w.run(t.Context(), nil); !errors.Is(err, checkpoint.ErrClusterChanged) {
		t.Errorf("%v", err)
	}
}

func silentObserver() *observer {
	return newObserver("w", admin.NewMetrics(admin.Build{}), admin.NewHealth(time.Now), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), nil)
}

// An image is put by a run's writer only if it is younger than tombstones by the margin: the tombstone that would refuse it is there still.
func TestH81_ARunParksWhatIsAlmostAsOldAsTombstones(t *testing.T) {
	cfg, to, _ := connectedTarget(t, ordersConfig)
	m, err := preflight.MapTable(cfg.Tables[0], []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	parking := sink.NewParking(to.Data.Records(cfg.State.Table), cfg.Name)
	w := &worker{program: &program{}, cfg: cfg, target: to, source: &preflight.Source{}}
	writer := w.options(nil, parking, silentObserver()).Writer
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
	for i, age := range []time.Duration{cfg.State.TombstoneAge - imageMargin + time.Hour, cfg.State.TombstoneAge - imageMargin - time.Hour} {
		b := transform.Fold(m, []cdc.Change{{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: time.Now().Add(-age), Keys: item, New: item}},
			transform.Stamp{Generation: 1, Hop: 1})
		if err := writer.Write(t.Context(), sink.Unfenced(), &b); err != nil {
			t.Fatal(err)
		}
		// The older one comes first, and is the only one that is parked.
		var noted []string
		if err := parking.List(t.Context(), "Orders", func(_ sink.Ref, p transform.Parked) error {
			noted = append(noted, p.Change.Sequence.String())
			return nil
		}); err != nil || strings.Join(noted, " ") != "1" {
			t.Errorf("%s old: parked %q, %v", age, noted, err)
		}
	}
}

// A retry mends the rows that the old and the new images of all parked changes of an item name, and resolves all of these.
func TestARetryIsOfAllThatAnItemHasParked(t *testing.T) {
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	image := func(tenant string) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "tenant", Value: attribute.String(tenant)}})
	}
	table := &sinktest.Memory{}
	table.Create("t", "d", sink.LiveFamily, sink.GoneFamily)
	lot := sink.NewParking(&sinktest.Records{}, "default")
	d := &parked.Decision{Log: slog.New(slog.DiscardHandler), Lot: lot}
	var records []parked.Record
	for i, tenants := range [][2]string{{"left", "passed"}, {"passed", "bad"}} {
		change := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: time.Unix(1_795_170_000, 0), Keys: m.Keys(image("")), Old: image(tenants[0]), New: image(tenants[1])}
		version := transform.NewVersion(1, 1, change.Sequence, transform.CountExact)
		record := transform.Parked{Source: "Orders", Key: m.ItemKey(change.Keys), Version: version, Reason: "r", Change: change}
		if err := lot.Park(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		records = append(records, parked.Record{Ref: sink.RefOf(record), Parked: record})
		left := transform.Fold(m, []cdc.Change{{Event: cdc.Insert, Sequence: change.Sequence, Time: change.Time, Keys: change.Keys, New: change.Old}}, transform.Stamp{Generation: 1, Hop: 1})
		request := sink.Guard(left.Rows[0])
		if _, err := table.Apply(t.Context(), &request); err != nil {
			t.Fatal(err)
		}
	}
	// The item is where no record says, so that a first attempt finds it gone from there, and a second one looks.
	r := &sink.Repairer{Mapping: m, Rows: table, Table: table,
		Item:       func(context.Context, attribute.Item) (attribute.Item, bool, error) { return image("now"), true, nil },
		Current:    func(context.Context) (uint32, error) { return 1, nil },
		Fence:      sinktest.NoFence,
		Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil }}
	if got, err := d.RetryItem(t.Context(), r, records); err != nil || got.Outcome != parked.OutcomeStored || got.Records != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	var live []string
	if err := table.ReadRows(t.Context(), "t", sink.Range{}, func(row sink.Row) error {
		if row.Version != "" {
			live = append(live, row.Key)
		}
		return nil
	}); err != nil || strings.Join(live, " ") != "now#a" {
		t.Errorf("live: %q, %v", live, err)
	}
	if n, err := lot.CountOf(t.Context(), "Orders"); n != 0 || err != nil {
		t.Errorf("%d are parked still, %v", n, err)
	}
}

// A retry of many items ends where another mapping begins.
func TestRetryEndsWithTheMapping(t *testing.T) {
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "default", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hash string
		want error
	}{{"former", nil}, {"other", checkpoint.ErrMappingChanged}} {
		state, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.MappingHash, s.Generation = c.hash, s.Generation+1
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if now, err := parked.UnderMapping(t.Context(), ledger, "Orders", "former"); now.Generation != state.Generation || !errors.Is(err, c.want) {
			t.Errorf("under %s: generation %d, %v", c.hash, now.Generation, err)
		}
	}
}
