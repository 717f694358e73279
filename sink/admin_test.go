package sink_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const day = 24 * time.Hour

func TestPrepareCreatesWhatIsMissing(t *testing.T) {
	e := startEmulator(t)
	ctx := context.Background()
	target := sink.TargetSpec("t", 14*day, "d")
	target.SplitKeys = []string{"m"}
	specs := []sink.TableSpec{target, sink.StateSpec("state", "ledger")}
	_, err := e.admin.Prepare(ctx, specs, false)
	var schema *sink.SchemaError
	if !errors.As(err, &schema) || schema.Problem != sink.MissingTable || schema.Table != "t" {
		t.Fatal(err)
	}
	made, err := e.admin.Prepare(ctx, specs, true)
	if err != nil || !slices.Equal(made.Tables, []string{"t", "state"}) || len(made.Families) != 0 {
		t.Fatal(made, err)
	}
	for _, create := range []bool{true, false} { // the second time it is as it must be
		if made, err := e.admin.Prepare(ctx, specs, create); err != nil || len(made.Tables)+len(made.Families) != 0 {
			t.Fatal(made, err)
		}
	}
	specs[0] = sink.TargetSpec("t", 14*day, "d", "extra")
	_, err = e.admin.Prepare(ctx, specs, false)
	if !errors.As(err, &schema) || schema.Problem != sink.MissingFamily || schema.Family != "extra" || schema.Want != "maxversions=1" {
		t.Fatal(err)
	}
	if made, err := e.admin.Prepare(ctx, specs, true); err != nil || !slices.Equal(made.Families, []string{"t:extra"}) {
		t.Fatal(made, err)
	}
}

// H28: garbage collection rules that would collect versions, or tombstones too early, are refused
// at the start.
func TestH28_PrepareRefusesRulesThatEatVersions(t *testing.T) {
	versions, age := bigtable.MaxVersionsPolicy, bigtable.MaxAgePolicy
	e := startEmulator(t)
	ctx := context.Background()
	for i, c := range []struct {
		live, gone bigtable.GCPolicy
		problem    sink.Problem // 0: none
		have       string
	}{
		{versions(1), age(14 * day), 0, ""},
		{versions(3), age(14 * day), 0, ""},
		{bigtable.NoGcPolicy(), age(14 * day), 0, ""},
		{age(day), age(14 * day), sink.EatsVersions, "maxage=1d"},
		{bigtable.UnionPolicy(versions(1), age(day)), age(14 * day), sink.EatsVersions, "maxversions=1 || maxage=1d"},
		{bigtable.IntersectionPolicy(versions(1), bigtable.UnionPolicy(versions(2), age(day))), age(14 * day), sink.EatsVersions, "maxversions=1 && (maxversions=2 || maxage=1d)"},
		{versions(1), age(13 * day), sink.WrongAge, "maxage=13d"},
		{versions(1), age(15 * day), sink.WrongAge, "maxage=15d"},
		{versions(1), bigtable.NoGcPolicy(), sink.WrongAge, "never"},
		{versions(1), versions(1), sink.WrongAge, "maxversions=1"},
		{versions(1), bigtable.UnionPolicy(versions(1), age(14*day)), sink.WrongAge, "maxversions=1 || maxage=14d"},
	} {
		name := "t" + string(rune('a'+i))
		conf := &bigtable.TableConf{TableID: name, ColumnFamilies: map[string]bigtable.Family{
			"d": {GCPolicy: age(time.Hour)}, sink.LiveFamily: {GCPolicy: c.live}, sink.GoneFamily: {GCPolicy: c.gone}}}
		if err := e.rawAdmin(t).CreateTableFromConf(ctx, conf); err != nil {
			t.Fatal(err)
		}
		_, err := e.admin.Prepare(ctx, []sink.TableSpec{sink.TargetSpec(name, 14*day, "d")}, true)
		var schema *sink.SchemaError
		if c.problem == 0 && err != nil || c.problem != 0 && (!errors.As(err, &schema) || schema.Problem != c.problem || schema.Have != c.have || schema.Table != name) {
			t.Errorf("%v, %v: %v", c.live, c.gone, err)
		}
	}
}

// A declared rule equals an existing one in any order of its parts, and differs from other rules.
func TestPrepareComparesRulesByTheirMeaning(t *testing.T) {
	versions, age := bigtable.MaxVersionsPolicy, bigtable.MaxAgePolicy
	e := startEmulator(t)
	ctx := context.Background()
	family, err := transform.ParseFamily("d", "maxversions=1 || maxage=30d")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		found bigtable.GCPolicy
		have  string // "": the same
	}{
		"same":         {bigtable.UnionPolicy(versions(1), age(30*day)), ""},
		"other_order":  {bigtable.UnionPolicy(age(30*day), versions(1)), ""},
		"nested":       {bigtable.UnionPolicy(age(30*day), bigtable.UnionPolicy(versions(1), age(30*day))), ""},
		"intersection": {bigtable.IntersectionPolicy(versions(1), age(30*day)), "maxversions=1 && maxage=30d"},
		"other_age":    {bigtable.UnionPolicy(versions(1), age(36*time.Hour)), "maxversions=1 || maxage=36h"},
	} {
		spec := sink.TargetSpec(name, 14*day)
		declared := sink.DataFamilies([]transform.Family{family})
		declared[0].Check = sink.Same
		if err := e.rawAdmin(t).CreateTableFromConf(ctx, &bigtable.TableConf{TableID: name, ColumnFamilies: map[string]bigtable.Family{"d": {GCPolicy: c.found}}}); err != nil {
			t.Fatal(err)
		}
		spec.Families = append(declared, spec.Families...)
		_, err := e.admin.Prepare(ctx, []sink.TableSpec{spec}, true)
		var schema *sink.SchemaError
		if c.have == "" && err != nil || c.have != "" && (!errors.As(err, &schema) || schema.Problem != sink.WrongRule || schema.Have != c.have || schema.Want != "maxversions=1 || maxage=30d") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func (e *emulator) rawAdmin(t *testing.T) *bigtable.AdminClient {
	t.Helper()
	client, err := bigtable.NewAdminClient(context.Background(), "p", "i", e.dial())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// If another worker creates the same at the same time, that is no error.
func TestPrepareBesideAnotherWorker(t *testing.T) {
	e := startEmulator(t, grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		answer, err := handler(ctx, req)
		if err == nil && (strings.HasSuffix(info.FullMethod, "/CreateTable") || strings.HasSuffix(info.FullMethod, "/ModifyColumnFamilies")) {
			return handler(ctx, req) // executed, but another worker was first
		}
		return answer, err
	}))
	ctx := context.Background()
	for _, spec := range []sink.TableSpec{sink.TargetSpec("t", 14*day, "d"), sink.TargetSpec("t", 14*day, "d", "e")} {
		made, err := e.admin.Prepare(ctx, []sink.TableSpec{spec}, true)
		if err != nil || len(made.Tables)+len(made.Families) != 0 {
			t.Error(made, err)
		}
	}
}

// A worker with another configuration may have created the table first, so Prepare checks it like
// an existing one.
func TestPrepareLooksAtWhatAnotherWorkerMade(t *testing.T) {
	e := startEmulator(t, grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if r, ok := req.(*adminpb.CreateTableRequest); ok {
			theirs := &adminpb.CreateTableRequest{Parent: r.Parent, TableId: r.TableId, Table: &adminpb.Table{ColumnFamilies: maps.Clone(r.Table.ColumnFamilies)}}
			delete(theirs.Table.ColumnFamilies, "e")
			if _, err := handler(ctx, theirs); err != nil {
				return nil, err
			}
		}
		return handler(ctx, req)
	}))
	made, err := e.admin.Prepare(context.Background(), []sink.TableSpec{sink.TargetSpec("t", 14*day, "d", "e")}, true)
	if err != nil || len(made.Tables) > 0 || !slices.Equal(made.Families, []string{"t:e"}) {
		t.Error(made, err)
	}
}

// H47: an app profile with which the guard is unsafe or fails is refused. If that cannot be
// checked, a note says so.
func TestH47_AppProfile(t *testing.T) {
	single := func(cluster string, transactions bool) *adminpb.AppProfile {
		return &adminpb.AppProfile{RoutingPolicy: &adminpb.AppProfile_SingleClusterRouting_{SingleClusterRouting: &adminpb.AppProfile_SingleClusterRouting{
			ClusterId: cluster, AllowTransactionalWrites: transactions}}}
	}
	for name, c := range map[string]struct {
		profile *adminpb.AppProfile
		err     error
		problem sink.ProfileProblem
		note    string
		reason  sink.Reason
	}{
		"good":           {profile: single("c1", true)},
		"transactions":   {profile: single("c1", false), problem: sink.NoTransactions},
		"multi-cluster":  {profile: &adminpb.AppProfile{RoutingPolicy: &adminpb.AppProfile_MultiClusterRoutingUseAny_{}}, problem: sink.MultiCluster},
		"no policy":      {profile: &adminpb.AppProfile{}, problem: sink.MultiCluster},
		"missing":        {err: status.Error(codes.NotFound, ""), problem: sink.MissingProfile},
		"emulator":       {err: status.Error(codes.Unimplemented, ""), note: "cannot check"},
		"no permission":  {err: status.Error(codes.PermissionDenied, ""), note: "bigtable.appProfiles.get"},
		"not understood": {err: status.Error(codes.InvalidArgument, ""), reason: sink.Permanent},
	} {
		e := startEmulator(t, grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if r, ok := req.(*adminpb.GetAppProfileRequest); ok {
				if r.Name != "projects/p/instances/i/appProfiles/one" {
					t.Error(r.Name)
				}
				return c.profile, c.err
			}
			return handler(ctx, req)
		}))
		got, err := e.admin.Profile(context.Background())
		var bad *sink.ProfileError
		switch {
		case c.problem != 0:
			if !errors.As(err, &bad) || bad.Problem != c.problem || bad.Profile != "one" || bad.Instance != "i" {
				t.Errorf("%s: %v", name, err)
			}
		case c.reason != 0:
			if !sink.Is(err, c.reason) {
				t.Errorf("%s: %v", name, err)
			}
		default:
			if err != nil || !strings.Contains(got.Note, c.note) || (got.Cluster == "c1") != (c.note == "") {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
	if got, err := startEmulator(t).admin.Profile(context.Background()); err != nil || !strings.Contains(got.Note, "cannot check") {
		t.Errorf("the real emulator: %+v, %v", got, err)
	}
}

// Both checks of a table report a family whose newest cells are collected by an undeclared age.
// They do not report declared rules, rules on the number of versions, or families that are checked
// otherwise.
func TestAgeRulesThatWereNotDeclaredAreTold(t *testing.T) {
	versions, age := bigtable.MaxVersionsPolicy, bigtable.MaxAgePolicy
	declared := func(gc transform.GC) []sink.FamilySpec {
		return sink.DataFamilies([]transform.Family{{Name: "d", GC: gc}})
	}
	one, week := declared(transform.GC{Versions: 1}), declared(transform.GC{Age: 7 * day})
	counters := declared(transform.GC{Versions: 1})
	counters[0].Check = sink.NoAge
	e := startEmulator(t)
	ctx := context.Background()
	for i, c := range []struct {
		have     bigtable.GCPolicy
		declared []sink.FamilySpec
		told     bool
	}{
		{age(7 * day), one, true},
		{age(7 * day), week, false},
		{age(6 * day), week, true},
		{age(7 * day), declared(transform.GC{}), true},
		{versions(1), week, false},
		{bigtable.NoGcPolicy(), one, false},
		{bigtable.UnionPolicy(versions(1), age(day)), one, true},
		{bigtable.IntersectionPolicy(versions(1), age(day)), one, false},
		{bigtable.IntersectionPolicy(age(2*day), bigtable.UnionPolicy(versions(2), age(day))), one, true},
		{bigtable.UnionPolicy(versions(3), bigtable.IntersectionPolicy(versions(1), age(day))), one, false},
		{bigtable.UnionPolicy(versions(1), versions(2)), counters, false},
	} {
		name := "t" + string(rune('a'+i))
		if err := e.rawAdmin(t).CreateTableFromConf(ctx, &bigtable.TableConf{TableID: name, ColumnFamilies: map[string]bigtable.Family{"d": {GCPolicy: c.have}}}); err != nil {
			t.Fatal(err)
		}
		spec := sink.TableSpec{Name: name, Families: c.declared}
		made, err := e.admin.Prepare(ctx, []sink.TableSpec{spec}, true)
		if err != nil {
			t.Fatal(err)
		}
		lacks, err := e.admin.Lacks(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range [][]*sink.SchemaError{made.Ageing, lacks.Ageing} {
			if told := len(found) == 1 && found[0].Problem == sink.CollectsItems && found[0].Family == "d"; told != c.told || !told && len(found) > 0 {
				t.Errorf("%v: told of %v, want %v", c.have, found, c.told)
			}
		}
	}
}
