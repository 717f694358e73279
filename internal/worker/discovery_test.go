package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// account is a DynamoDB of tables with one key attribute, id. Some tables cannot be described for
// now.
type account struct {
	backfill.API
	tables    []string
	throttled func(table string) bool
	described []string
	created   map[string]time.Time
}

func (a *account) ListTables(context.Context, *dynamodb.ListTablesInput, ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error) {
	return &dynamodb.ListTablesOutput{TableNames: a.tables}, nil
}

func (a *account) DescribeTable(_ context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	name := aws.ToString(in.TableName)
	a.described = append(a.described, name)
	if a.throttled(name) {
		return nil, &smithy.OperationError{ServiceID: dynamodb.ServiceID, OperationName: "DescribeTable", Err: &smithy.GenericAPIError{Code: "ThrottlingException"}}
	}
	return &dynamodb.DescribeTableOutput{Table: &types.TableDescription{
		TableName: in.TableName, TableStatus: types.TableStatusActive, CreationDateTime: aws.Time(a.created[name]),
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
	}}, nil
}

const monthly = `version: 1
target: { project: p, instance: i }
tables:
  - from: Log_{year:4}_{month:2}
    to: logs
    families: { r: maxversions=1 }
    rules:
      - row_key: "{$year}{$month}#{id}"
        columns: { "*": r }
  - from: Orders
`

// discoveryOf returns a discovery for the monthly configuration in an account, with its own ledger.
func discoveryOf(t *testing.T, a *account) *discovery {
	t.Helper()
	cfg, err := config.Parse("replicator.yaml", []byte(monthly), nothingSet)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "discovery", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	return &discovery{worker: &Worker{Options: Options{Config: cfg}, source: &preflight.Source{Tables: backfill.NewTables(a)}}, ledger: ledger}
}

func sources(found engine.Discovery) (names []string) {
	for _, t := range found.Tables {
		names = append(names, t.Mapping.Source)
	}
	return names
}

// TestATableThatCannotBeDescribed: such a table delays and loses no other. Each look returns the
// tables that are not followed, with an error for the rest.
func TestATableThatCannotBeDescribed(t *testing.T) {
	const first, second, third = "Log_2015_01", "Log_2015_02", "Log_2015_03"
	bad := ""
	a := &account{tables: []string{first, second, third, "Orders", "Other"}, throttled: func(table string) bool { return table == bad }}
	d := discoveryOf(t, a)
	followed := map[string]bool{}
	for i, c := range []struct {
		bad  string
		join bool // the found tables are followed from then on
		want []string
	}{
		{bad: second, want: []string{first, third}},
		{bad: second, join: true, want: []string{first, third}},
		{bad: second},
		{join: true, want: []string{second}},
		{},
	} {
		bad = c.bad
		got, err := d.find(t.Context(), func(source string) bool { return followed[source] })
		if !slices.Equal(sources(got), c.want) || len(got.Refused) > 0 {
			t.Errorf("look %d: found %v, want %v; refused %v", i, sources(got), c.want, got.Refused)
		}
		if (err != nil) != (c.bad != "") || err != nil && (!cdc.Is(err, cdc.Throttled) || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("look %d: %v", i, err)
		}
		for _, t := range got.Tables {
			followed[t.Mapping.Source] = c.join
		}
	}
	if len(d.worker.mappings()) != 3 {
		t.Errorf("mappings %v", d.worker.mappings())
	}
}

// TestATableThatIsDropped: a dropped table is suspended unless it is followed, because then its
// coordinator decides. That also holds if another table cannot be described.
func TestATableThatIsDropped(t *testing.T) {
	const dropped, kept, bad = "Log_2015_01", "Log_2015_02", "Log_2015_03"
	d := discoveryOf(t, &account{tables: []string{bad}, throttled: func(string) bool { return true }})
	for _, source := range []string{dropped, kept} {
		if _, err := d.ledger.UpdateTable(t.Context(), source, func(*checkpoint.TableState) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.find(t.Context(), func(source string) bool { return source == kept })
	if err == nil || len(got.Tables) > 0 || !slices.Equal(got.Refused, []engine.Refusal{{Table: dropped, Reason: engine.GoneReason}}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestH75_ATableYoungerThanTheStart: with the start "now", such a table joins like the others and
// counts as a table whose changes must be complete.
func TestH75_ATableYoungerThanTheStart(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	const old, young = "Log_2015_01", "Log_2015_02"
	a := &account{tables: []string{old, young}, throttled: func(string) bool { return false }}
	a.created = map[string]time.Time{old: start.Add(-time.Hour), young: start.Add(time.Hour)}
	d := discoveryOf(t, a)
	for i := range d.worker.Config.Tables {
		d.worker.Config.Tables[i].Start = config.StartNow
	}
	if _, err := d.ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error { s.Cut = start; return nil }); err != nil {
		t.Fatal(err)
	}
	// A table that needs no load.
	if _, err := d.ledger.UpdateTable(t.Context(), "Copied", func(*checkpoint.TableState) error { return nil }); err != nil {
		t.Fatal(err)
	}
	got, err := d.find(t.Context(), func(string) bool { return false })
	if err != nil || len(got.Tables) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, found := range got.Tables {
		if !found.FromNow || found.Young != (found.Mapping.Source == young) {
			t.Errorf("%s: from now on %v, young %v", found.Mapping.Source, found.FromNow, found.Young)
		}
	}
}

// TestDiscoverEvery: the shortest interval of all patterns decides how often all are looked for;
// named tables have no interval.
func TestDiscoverEvery(t *testing.T) {
	every := func(each ...time.Duration) time.Duration {
		cfg := &config.Config{}
		for _, d := range each {
			cfg.Tables = append(cfg.Tables, config.Table{DiscoverEvery: d})
		}
		return discoverEvery(cfg)
	}
	for _, each := range [][]time.Duration{{0, time.Minute, time.Hour}, {time.Hour, time.Minute, 0}, {time.Minute}} {
		if got := every(each...); got != time.Minute {
			t.Errorf("of %v every %s", each, got)
		}
	}
}

// TestManyTablesThatCannotBeDescribed are reported in a few words. After a stop, no further request
// is sent.
func TestManyTablesThatCannotBeDescribed(t *testing.T) {
	a := &account{}
	for year := range 1000 {
		a.tables = append(a.tables, fmt.Sprintf("Log_%04d_01", year))
	}
	a.throttled = func(string) bool { return true }
	nobody := func(string) bool { return false }
	_, err := discoveryOf(t, a).find(t.Context(), nobody)
	if err == nil || !cdc.Is(err, cdc.Throttled) || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "997 tables more") || len(a.described) != 1000 {
		t.Errorf("%d described: %v", len(a.described), err)
	}
	a.described = nil
	ctx, cancel := context.WithCancel(t.Context())
	a.throttled = func(string) bool { cancel(); return true }
	if _, err := discoveryOf(t, a).find(ctx, nobody); err == nil || errors.Is(err, preflight.ErrReadTime) || len(a.described) != 1 {
		t.Errorf("%d described: %v", len(a.described), err)
	}
}

// A table that appears later is followed from its beginning, whatever start says, because all its
// items are newer than the start.
func TestBornAfterTheStart(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	states := []checkpoint.TableState{{}, {Cut: start}}
	if !bornAfter(start.Add(time.Minute), states) || bornAfter(start.Add(-time.Minute), states) || bornAfter(start, states[:1]) {
		t.Error("a table's birth is misjudged")
	}
}

// fewOf leaves out no error if there are only a few.
func TestFewErrorsAreAllTold(t *testing.T) {
	errs := []error{errors.New("a"), errors.New("b"), errors.New("c")}
	if got := fewOf(errs); got == nil || got.Error() != "a\nb\nc" {
		t.Errorf("%q", got)
	}
	if fewOf(nil) != nil {
		t.Error("no errors are one")
	}
}

// TestItemsThatExpireElsewhere: of a global table, only the region that removes an expired item
// marks this in its stream. In other regions expire: keep cannot work, and a warning says so.
func TestItemsThatExpireElsewhere(t *testing.T) {
	for _, c := range []struct {
		expire   string
		replicas []string
		told     bool
	}{
		{"keep", []string{"eu-west-1", "us-east-2"}, true},
		{"keep", nil, false},
		{"follow_deletes", []string{"eu-west-1"}, false}, // every delete is one, whoever made it
		{"gc", []string{"eu-west-1"}, false},
	} {
		table := config.Table{From: "Sessions", To: "sessions", TTL: config.TTL{Attribute: "until", Expire: c.expire},
			Families: []config.Family{{Name: "d", Rule: "maxage=30d"}}}
		m, err := table.Mapping([]transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
		if err != nil {
			t.Fatal(err)
		}
		found := preflight.Table{Config: table, Mapping: m, Description: backfill.Description{Name: "Sessions", Replicas: c.replicas}}
		var log bytes.Buffer
		w := &Worker{Options: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		w.warnExpiry(found)
		if told := strings.Contains(log.String(), "code=R1254"); told != c.told {
			t.Errorf("expire: %s with replicas %v is told: %v", c.expire, c.replicas, told)
		}
		if c.told && !strings.Contains(log.String(), "eu-west-1, us-east-2") {
			t.Errorf("told without the regions: %s", log.String())
		}
	}
}
