package plan

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// scene is a plan whose two ends give the answers that a test sets.
type scene struct {
	*testing.T
	in    *Input
	out   bytes.Buffer
	store checkpointtest.Memory

	profile    sink.Profile
	profileErr error
	clusters   []sink.Cluster
	note       string
	clusterErr error
	has        []string
	hasNote    string
	lacks      sink.Lacks
	lacksErr   error
	view       []string
	made       sink.Made
	refused    error // the error of each creation
	created    []string

	shards   []cdc.Shard
	readErr  error
	expires  string
	recovery backfill.Recovery
	asked    error // the source's error for optional questions
}

func newScene(t *testing.T, more string) *scene {
	t.Helper()
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i, app_profile: cdc}\ntables: [{from: Orders, to: orders}]\n"+more), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, profile: sink.Profile{Cluster: "c1"}, clusters: []sink.Cluster{{Name: "c1", Nodes: 3}}}
	s.in = &Input{Prober: &preflight.Prober{Cfg: cfg, Out: &s.out, Source: &preflight.Source{Region: "eu-west-1"}}, question: Question{Prices: cost.Default()},
		env: func(string) (string, bool) { return "", false }, at: time.Unix(1_795_170_000, 0), from: s, to: s, sharing: 1}
	return s
}

func (s *scene) Ledger(string) checkpoint.Store                { return &s.store }
func (s *scene) Records(string) sink.Records                   { return &sinktest.Records{} }
func (s *scene) Profile(context.Context) (sink.Profile, error) { return s.profile, s.profileErr }
func (s *scene) Clusters(context.Context) ([]sink.Cluster, string, error) {
	return s.clusters, s.note, s.clusterErr
}
func (s *scene) Permissions(context.Context, []string) ([]string, string, error) {
	return s.has, s.hasNote, s.asked
}
func (s *scene) Lacks(context.Context, sink.TableSpec) (sink.Lacks, error) {
	return s.lacks, s.lacksErr
}
func (s *scene) View(context.Context, string, string) (sink.View, error) {
	return sink.View{Families: s.view}, s.asked
}
func (s *scene) CreateProfile(_ context.Context, cluster string) error {
	s.created = append(s.created, "profile "+cluster)
	return s.refused
}
func (s *scene) EnableChangeStream(_ context.Context, table string) error {
	s.created = append(s.created, "change stream "+table)
	return s.refused
}
func (s *scene) Create(_ context.Context, spec sink.TableSpec) (sink.Made, error) {
	s.created = append(s.created, spec.Name)
	return s.made, s.refused
}

func (s *scene) Get(context.Context, string, attribute.Item) (attribute.Item, bool, error) {
	return attribute.Item{}, true, s.asked
}
func (s *scene) Open(string) cdc.Source                            { return s }
func (s *scene) Attribute(context.Context, string) (string, error) { return s.expires, s.asked }
func (s *scene) Recovery(context.Context, string) (backfill.Recovery, error) {
	return s.recovery, s.asked
}
func (s *scene) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{Shards: s.shards}, s.asked
}
func (s *scene) Seek(_ context.Context, shard string, _ cdc.Position) (cdc.Iterator, error) {
	s.created = append(s.created, "seek "+shard)
	return "i", nil
}
func (s *scene) Read(context.Context, cdc.Iterator) (cdc.Page, error) { return cdc.Page{}, s.readErr }

func (s *scene) orders() *sourceTable {
	t, _ := s.in.Cfg.Table("Orders")
	return &sourceTable{Table: Table{Source: "Orders"}, found: preflight.Table{Config: t, Description: backfill.Description{Name: "Orders", StreamARN: "arn"}}}
}

// codesOf returns the codes of the warnings.
func codesOf(list diag.List) (found []string) {
	for _, e := range list {
		found = append(found, e.Code)
	}
	return found
}

var denied = &cdc.Error{Op: "X", Reason: cdc.Denied, Err: errors.New("denied")}

// The app profile: suitable, missing with only one possible cluster, missing with several, or
// unknown.
func TestAppProfile(t *testing.T) {
	missing := &sink.ProfileError{Problem: sink.MissingProfile, Instance: "i", Profile: "cdc"}
	for name, c := range map[string]struct {
		set     func(s *scene)
		text    string // part of the answer or error
		fails   bool
		creates bool
		nodes   int
	}{
		"fit":        {func(*scene) {}, "single cluster c1, single-row transactions", false, false, 3},
		"autoscaled": {func(s *scene) { s.clusters[0].MaxNodes = 9 }, "single cluster c1", false, false, 9},
		"elsewhere":  {func(s *scene) { s.clusters[0].Name = "c2" }, "single cluster c1", false, false, 0},
		"missing":    {func(s *scene) { s.profileErr = missing }, "does not exist; would be created", false, true, 3},
		"a choice": {func(s *scene) { s.profileErr, s.clusters = missing, append(s.clusters, sink.Cluster{Name: "c2"}) }, "choose one of the clusters c1, c2: gcloud bigtable app-profiles create cdc --instance=i",
			true, false, 0},
		"no clusters":      {func(s *scene) { s.profileErr, s.clusters, s.note = missing, nil, "not allowed" }, "the clusters cannot be listed: not allowed", true, false, 0},
		"clusters failed":  {func(s *scene) { s.profileErr, s.clusterErr = missing, errors.New("x") }, "neither app profile cdc nor the clusters of instance i can be found", true, false, 0},
		"unfit":            {func(s *scene) { s.profileErr = &sink.ProfileError{Problem: sink.MultiCluster, Profile: "cdc"} }, "cannot use app profile cdc", true, false, 0},
		"the default":      {func(s *scene) { s.profileErr, s.in.Cfg.Target.AppProfile = missing, "default" }, "cannot use app profile default", true, false, 0},
		"not to be told":   {func(s *scene) { s.profile.Note = "an emulator" }, "an emulator", true, false, 3},
		"nothing was told": {func(s *scene) { s.profile.Note, s.in.notFound = "an emulator", errors.New("no instance") }, "no instance", true, false, 0},
	} {
		s := newScene(t, "")
		c.set(s)
		text, err := s.in.examineProfile(t.Context())
		if err != nil {
			text = err.Error()
			var e *diag.Error
			if errors.As(err, &e) {
				text += e.What + e.Cause + e.Fix
			}
		}
		if (err != nil) != c.fails || !strings.Contains(text, c.text) || (len(s.in.create) == 1) != c.creates || s.in.cluster.Nodes != c.nodes {
			t.Errorf("%s: %q, %v; creates %+v; %d nodes", name, text, err, s.in.create, s.in.cluster.Nodes)
		}
		if c.creates && (s.in.create[0].Kind+s.in.create[0].Name+s.in.create[0].Cluster != "app_profilecdcc1" || s.in.profile != "c1") {
			t.Errorf("%s: %+v for cluster %q", name, s.in.create, s.in.profile)
		}
	}
}

// A plan checks the permissions of a run or, with --apply, of creations. A missing permission for
// only the fence is a warning if nothing must be created.
func TestPermissions(t *testing.T) {
	without := func(role []string, names ...string) []string {
		return slices.DeleteFunc(slices.Clone(role), func(p string) bool { return slices.Contains(names, p) })
	}
	for name, c := range map[string]struct {
		set   func(s *scene, worker, planner []string)
		text  string
		code  string
		warns []string
	}{
		"all":            {func(s *scene, w, _ []string) { s.has = w }, " are granted", "", nil},
		"unknown":        {func(s *scene, _, _ []string) { s.hasNote = "an emulator" }, "unknown: an emulator", "", nil},
		"one is missing": {func(s *scene, w, _ []string) { s.has = w[1:] }, "permissions are missing", diag.TargetDenied, nil},
		"for apply":      {func(s *scene, w, p []string) { s.has, s.in.question.Apply = without(p, policy.FencePermission), true }, "permissions are missing", diag.TargetDenied, nil},
		"all for apply":  {func(s *scene, w, p []string) { s.has, s.in.question.Apply = p, true }, "are granted", "", nil},
		"the fence alone": {func(s *scene, w, _ []string) {
			s.has, s.in.Cfg.Target.CreateMissing = without(w, policy.FencePermission), false
		}, "all but " + policy.FencePermission, "", []string{diag.FenceWithheld}},
	} {
		s := newScene(t, "")
		s.in.Cfg.Target.CreateMissing = false
		c.set(s, policy.GoogleWorker(s.in.Cfg).IncludedPermissions, policy.GooglePlanner(s.in.Cfg).IncludedPermissions)
		text, err := s.in.examinePermissions(t.Context())
		if err != nil {
			text = err.Error()
		}
		if c.code != "" && !diag.Has(err, c.code) || c.code == "" && err != nil && !errors.As(err, new(preflight.Untold)) || !strings.Contains(text, c.text) || !slices.Equal(codesOf(s.in.targets), c.warns) ||
			(len(s.in.lacks) > 0) != (c.code != "" || c.warns != nil) {
			t.Errorf("%s: %q, %v; lacks %v", name, text, codesOf(s.in.targets), s.in.lacks)
		}
	}
}

// What a target table lacks is listed as creations. Existing but unsuitable parts fail.
func TestTargetTables(t *testing.T) {
	family := sink.FamilySpec{Name: "d", Keep: sink.Keep{Versions: 1}}
	for name, c := range map[string]struct {
		set     func(s *scene)
		text    string
		creates []string // kind and name
		warns   []string
	}{
		"there":       {func(*scene) {}, "✓ target table orders  exists, schema OK", nil, nil},
		"no table":    {func(s *scene) { s.lacks = sink.Lacks{Table: true, View: true} }, "does not exist; would be created", []string{"table replicator_state ", "table orders mapped"}, nil},
		"no families": {func(s *scene) { s.lacks = sink.Lacks{Families: []sink.FamilySpec{family}} }, "incomplete; the missing parts would be created", []string{"family replicator_state:d ", "family orders:d "}, nil},
		"no view":     {func(s *scene) { s.lacks = sink.Lacks{View: true} }, "incomplete", []string{"view replicator_state: ", "view orders:mapped "}, nil},
		"unfit":       {func(s *scene) { s.lacksErr = &sink.Error{Reason: sink.Permanent, Code: "PermissionDenied", Text: "x"} }, "✗ target table orders", nil, nil},
		"tiered":      {func(s *scene) { s.lacks = sink.Lacks{Tiered: true} }, "exists, schema OK", nil, []string{diag.TieredTable}},
		"protected":   {func(s *scene) { s.lacks = sink.Lacks{Protected: true} }, "exists, schema OK", nil, []string{diag.FenceWithheld}},
		"no views":    {func(s *scene) { s.lacks = sink.Lacks{NoViews: true} }, "the service has no authorized views", nil, nil},
		"other view":  {func(s *scene) { s.view = []string{"a"} }, "exists, schema OK", nil, []string{diag.ViewDiffers}},
		"ageing": {func(s *scene) {
			s.lacks = sink.Lacks{Ageing: []*sink.SchemaError{{Problem: sink.CollectsItems, Table: "orders", Family: "d"}}}
		}, "✓ target table orders  there;", nil,
			[]string{diag.FamilyAges, diag.FamilyAges}},
	} {
		s := newScene(t, "")
		s.in.Cfg.Target.View, s.view = "mapped", []string{"d"}
		c.set(s)
		s.in.examineTables(t.Context(), preflight.Samples{})
		var creates []string
		for _, m := range s.in.create {
			creates = append(creates, m.Kind+" "+m.Name+" "+m.View)
		}
		if text := strings.Join(strings.Fields(s.out.String()), " "); !strings.Contains(text, strings.Join(strings.Fields(c.text), " ")) {
			t.Errorf("%s: %s", name, s.out.String())
		}
		if !slices.Equal(creates, c.creates) || len(s.in.missing) != len(creates) || !slices.Equal(codesOf(s.in.targets), c.warns) {
			t.Errorf("%s: %q, %d missing, warnings %v", name, creates, len(s.in.missing), codesOf(s.in.targets))
		}
	}
}

// If the ledger would refuse a run, the plan has a warning.
func TestWhatTheLedgerSays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(state *checkpoint.TableState)
		routed string
		warns  []string
	}{
		"nothing":         {func(*checkpoint.TableState) {}, "c1", nil},
		"another cluster": {func(*checkpoint.TableState) {}, "c2", []string{diag.ClusterChanged}},
		"unknown cluster": {func(*checkpoint.TableState) {}, "", nil},
		"another mapping": {func(s *checkpoint.TableState) { s.MappingHash = "x" }, "c1", []string{diag.MappingChanged}},
		"another region":  {func(s *checkpoint.TableState) { s.StreamARN = "arn:aws:dynamodb:us-east-1:1:table/Orders/stream/L" }, "c1", []string{diag.SourceMoved}},
		"needs a load":    {func(s *checkpoint.TableState) { s.NeedsLoad = true }, "c1", []string{diag.NeedsLoad}},
	} {
		s := newScene(t, "")
		s.in.routed = c.routed
		out := s.orders()
		out.found.Description.StreamARN = "arn:aws:dynamodb:eu-west-1:1:table/Orders/stream/L"
		var err error
		if out.found.Mapping, err = preflight.MapTable(out.found.Config, []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}); err != nil {
			t.Fatal(err)
		}
		s.in.sources = append(s.in.sources, *out)
		ledger, err := checkpoint.Open(t.Context(), &s.store, "test", checkpoint.Options{Worker: "w", ID: "l"})
		if err == nil {
			err = ledger.CheckCluster(t.Context(), "c1")
		}
		if err == nil {
			_, err = ledger.UpdateTable(t.Context(), "Orders", func(state *checkpoint.TableState) error {
				state.StreamARN, state.Label, state.Generation, state.MappingHash = out.found.Description.StreamARN, "L", 1, s.in.Cfg.Hash(out.found.Config)
				c.change(state)
				return nil
			})
		}
		if err == nil {
			err = s.in.examineLedger(t.Context())
		}
		if err != nil || !slices.Equal(codesOf(s.in.targets), c.warns) || (s.in.sources[0].MappingChange != nil) != (name == "another mapping") {
			t.Errorf("%s: %v, %v", name, codesOf(s.in.targets), err)
		}
	}
	if withheld([]checkpoint.Target{{}, {Withheld: "why"}}) != "why" || withheld([]checkpoint.Target{{Fence: 1}}) != "" {
		t.Error("a fence that is withheld")
	}
}

// A page is read from an open shard if there is one, otherwise from the last of the shards.
func TestRecordsOfAStream(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(s *scene)
		text string
		seek string
		open int
		code string
	}{
		"none":   {func(*scene) {}, "no shard yet", "", 0, ""},
		"open":   {func(s *scene) { s.shards = []cdc.Shard{{ID: "a", Closed: true}, {ID: "b"}, {ID: "c", Closed: true}} }, "readable; 1 open shard", "seek b", 1, ""},
		"closed": {func(s *scene) { s.shards = []cdc.Shard{{ID: "a", Closed: true}, {ID: "c", Closed: true}} }, "readable; 0 open shards", "seek a", 0, ""},
		"denied": {func(s *scene) { s.shards, s.readErr = []cdc.Shard{{ID: "a"}}, denied }, "", "seek a", 1, diag.SourceDenied},
		"hidden": {func(s *scene) { s.asked = denied }, "", "", -1, diag.SourceDenied},
	} {
		s, out := newScene(t, ""), (*sourceTable)(nil)
		out = s.orders()
		c.set(s)
		text, err := s.in.examineRecords(t.Context(), out)
		if text != c.text || strings.Join(s.created, " ") != c.seek || c.code != "" && !diag.Has(err, c.code) || c.code == "" && err != nil ||
			(out.OpenShards == nil) != (c.open < 0) || out.OpenShards != nil && *out.OpenShards != c.open {
			t.Errorf("%s: %q, %v after %v", name, text, err, s.created)
		}
	}
}

// Optional answers: a plan without permission for them is still complete.
func TestExpiryAndRecovery(t *testing.T) {
	for name, c := range map[string]struct {
		set      func(s *scene)
		expiry   string
		recovery string
		warns    []string
	}{
		"as it should be": {func(s *scene) { s.expires, s.recovery.On = "ttl", true }, "ttl", "on", nil},
		"off":             {func(*scene) {}, "off", "off", []string{diag.ExpiryDiffers, diag.RecoveryOff}},
		"another":         {func(s *scene) { s.expires, s.recovery.On = "until", true }, "until", "on", []string{diag.ExpiryDiffers}},
		"denied":          {func(s *scene) { s.asked = denied }, "unknown", "unknown: this identity lacks dynamodb:DescribeContinuousBackups", nil},
	} {
		s := newScene(t, "")
		out := s.orders()
		out.found.Config.TTL = config.TTL{Attribute: "ttl", Expire: "gc"}
		c.set(s)
		expiry, failed := s.in.expiry(t.Context(), out)
		if failed != nil {
			t.Errorf("%s: %v", name, failed)
		}
		recovery, err := s.in.recovery(t.Context(), out)
		if err != nil {
			recovery = err.Error()
		}
		if expiry != c.expiry || recovery != c.recovery || !slices.Equal(codesOf(out.warnings), c.warns) {
			t.Errorf("%s: %q, %q, %v", name, expiry, recovery, codesOf(out.warnings))
		}
	}
	s := newScene(t, "")
	out := s.orders()
	s.in.tryKey(t.Context(), out, nil)
	if len(out.warnings) > 0 {
		t.Error("without an item none is read by its key")
	}
}

// With keep_fallback, plan refuses a table whose items cannot follow its rows, and needs to know by
// which attribute the source removes items.
func TestPlanChecksTheFallback(t *testing.T) {
	const hooks = "cutover: { keep_fallback: true, rollback_hooks: { freeze_writes: ./f, switch: ./s, unfreeze_writes: ./u } }\n"
	keys := []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}
	for name, c := range map[string]struct {
		expires  string
		asked    error
		replicas []string
		items    []attribute.Item
		text     string // of the time to live
		answer   string // of the fallback; "" if it is refused
		losses   int
	}{
		"possible":      {"", nil, nil, nil, "off", "possible, with losses", 1},
		"expiring":      {"until", nil, nil, nil, "until", "possible, with losses", 1},
		"replicas":      {"", nil, []string{"us-east-1"}, nil, "off", "", 0},
		"two types":     {"", nil, nil, []attribute.Item{item("note", attribute.String("a")), item("note", attribute.Null())}, "off", "", 1},
		"unknown":       {"", denied, nil, nil, "", "possible", 0},
		"types of both": {"", nil, nil, []attribute.Item{item("note", attribute.String("a")), item("size", attribute.Null())}, "off", "possible, with losses", 1},
	} {
		s := newScene(t, hooks)
		s.expires, s.asked = c.expires, c.asked
		out := s.orders()
		m, err := out.found.Config.Mapping(keys)
		if err != nil {
			t.Fatal(err)
		}
		out.found.Mapping, out.found.Description.PrimaryKey, out.found.Description.Replicas = m, keys, c.replicas
		out.wayBack = preflight.WayBackOf(out.found)
		text, err := s.in.expiry(t.Context(), out)
		if text != c.text || (c.asked != nil) != diag.Has(err, diag.SourceDenied) {
			t.Errorf("%s: time to live %q, %v", name, text, err)
		}
		if c.asked == nil {
			out.wayBack.AddTypes(c.items)
		}
		answer, err := out.fallback()
		if answer != c.answer || (answer == "") != diag.Has(err, diag.FallbackRefused) || len(out.Losses) != c.losses || (len(out.NoWayBack) > 0) != (answer == "") {
			t.Errorf("%s: %q, %v; %q", name, answer, err, out.Losses)
		}
		if out.wayBack.Expires != c.expires {
			t.Errorf("%s: expires by %q", name, out.wayBack.Expires)
		}
	}
}

func item(name string, v attribute.Value) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String("1")}, {Name: name, Value: v}})
}

// With keep_fallback, a new table gets its change stream at once. That of an existing table is the
// only thing that plan alters, and only with --apply.
func TestPlanEnablesChangeStreams(t *testing.T) {
	spec := sink.TableSpec{Name: "orders", ChangeStream: true}
	for name, c := range map[string]struct {
		lacks         sink.Lacks
		apply, denied bool
		text          string // of the check
		shown         string
		created       string // requests
	}{
		"new table":       {sink.Lacks{Table: true}, true, false, "does not exist; would be created", "change stream that keeps records for 7d", "orders"},
		"existing, shown": {sink.Lacks{ChangeStream: true}, false, false, "exists, but has no change stream that keeps records for 3d; it would be enabled", "~ change stream of table orders, which exists: it would be altered, and keep records for 7d", ""},
		"existing":        {sink.Lacks{ChangeStream: true}, true, false, "exists, but has no change stream that keeps records for 3d; it would be enabled", "~ change stream of table orders", "change stream orders"},
		"incomplete":      {sink.Lacks{ChangeStream: true, Families: []sink.FamilySpec{{Name: "d"}}}, true, false, "incomplete; the missing parts would be created", "~ change stream of table orders", "orders change stream orders"},
		"denied":          {sink.Lacks{ChangeStream: true}, true, true, "exists, but has no change stream that keeps records for 3d; it would be enabled", "~ change stream", "change stream orders"},
		"nothing":         {sink.Lacks{}, true, false, "exists, schema OK", "", ""},
	} {
		s := newScene(t, "")
		s.in.question.Apply = c.apply
		if text := s.in.addMissing(spec, c.lacks); text != c.text {
			t.Errorf("%s: %q, want %q", name, text, c.text)
		}
		if c.denied {
			s.refused = &sink.Error{Reason: sink.Permanent, Code: "PermissionDenied", Text: "x"}
		}
		d := &Document{Create: s.in.create}
		var shown strings.Builder
		for _, one := range d.Create {
			writeCreation(&shown, one)
		}
		if !strings.Contains(shown.String(), c.shown) || (c.shown == "") != (shown.Len() == 0) {
			t.Errorf("%s: shows %q, want %q", name, &shown, c.shown)
		}
		_, err := s.in.Conclude(t.Context(), d)
		if (err != nil) != c.denied || strings.Join(s.created, " ") != c.created || slices.Contains(d.Created, "change stream of table orders") != (strings.HasSuffix(c.created, "change stream orders") && !c.denied) {
			t.Errorf("%s: %v, sent %q, created %q", name, err, s.created, d.Created)
		}
	}
}

// Plan creates only what was requested, and only if no check failed and no run would be refused.
// Creations before a failure are listed.
func TestWhatIsCreated(t *testing.T) {
	lacks := func(s *scene) {
		s.in.profile = "c1"
		s.in.addMissing(sink.TableSpec{Name: "orders"}, sink.Lacks{Table: true})
		s.made = sink.Made{Tables: []string{"orders"}, Families: []string{"orders:d"}}
	}
	for name, c := range map[string]struct {
		set     func(s *scene)
		apply   bool
		created []string
		text    string
		known   string // code of the verdict
		failed  bool
	}{
		"nothing":        {func(*scene) {}, false, nil, "nothing to create", "", false},
		"shown":          {lacks, false, nil, "`replicator plan --apply` creates what is listed", "", false},
		"created":        {lacks, true, []string{"app profile cdc", "table orders", "family orders:d"}, "created table orders", "", false},
		"nothing to do":  {func(*scene) {}, true, nil, "nothing to create", "", false},
		"a check failed": {func(s *scene) { lacks(s); s.in.Failed = []error{&diag.Error{Code: diag.SourceDenied}} }, true, nil, "nothing was created: fix the items marked ✗ first", diag.SourceDenied, false},
		"failed, shown":  {func(s *scene) { lacks(s); s.in.Failed = []error{&diag.Error{Code: diag.SourceDenied}} }, false, nil, "this list may be incomplete", diag.SourceDenied, false},
		"a run refused":  {func(s *scene) { lacks(s); warn(&s.in.targets, &diag.Error{Code: diag.SourceMoved}) }, true, nil, "a run would be refused", diag.SourceMoved, false},
		"refused, shown": {func(s *scene) { lacks(s); warn(&s.in.targets, &diag.Error{Code: diag.SourceMoved}) }, false, nil, "creates what is listed", "", false},
		"creation failed": {func(s *scene) {
			lacks(s)
			s.in.profile, s.refused = "", &sink.Error{Reason: sink.Permanent, Code: "PermissionDenied", Text: "x"}
		}, true, []string{"table orders", "family orders:d"}, "created table orders", "", true},
		"profile failed": {func(s *scene) {
			lacks(s)
			s.refused = &sink.Error{Reason: sink.Permanent, Code: "PermissionDenied", Text: "x"}
		}, true, nil, "", "", true},
	} {
		s := newScene(t, "")
		c.set(s)
		s.in.question.Apply = c.apply
		d := s.in.Judge()
		d.Create = s.in.create
		known, failed := s.in.Conclude(t.Context(), d)
		if (known != nil) != (c.known != "") || c.known != "" && !diag.Has(known, c.known) || (failed != nil) != c.failed || !slices.Equal(d.Created, c.created) && len(d.Created)+len(c.created) > 0 ||
			!strings.Contains(s.out.String(), c.text) || len(s.created) > 0 && !c.apply {
			t.Errorf("%s: known %v, failed %v, created %q after %v\n%s", name, known, failed, d.Created, s.created, &s.out)
		}
	}
}

// A plan of tables that are cut over says so and creates nothing, whether or not the target is
// finalized.
func TestAPlanAfterTheSwitchChangesNothing(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverWatching, checkpoint.CutoverDone, checkpoint.CutoverDrain} {
		for _, apply := range []bool{false, true} {
			s := newScene(t, "")
			ledger, err := checkpoint.Open(t.Context(), &s.store, "test", checkpoint.Options{Worker: "w", ID: "l"})
			if err == nil {
				_, err = ledger.UpdateCutover(t.Context(), "", func(c *checkpoint.Cutover) error {
					c.Attempt, c.Step, c.SwitchedAt = 1, step, time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
					return nil
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			s.in.question.Apply, s.lacks = apply, sink.Lacks{Families: []sink.FamilySpec{{Name: "_cdc"}}}
			s.in.create, s.in.Failed = []Creation{{Kind: "app_profile"}}, []error{errors.New("an earlier check")}
			if left := s.in.cutOver(t.Context()); left != step.Switched() {
				t.Errorf("%s: cut over is %t", step, left)
			}
			if !step.Switched() {
				continue
			}
			d := s.in.Judge()
			d.Render(s.in.Out)
			known, failed := s.in.Conclude(t.Context(), d)
			if !diag.Has(known, diag.CutOver) || !strings.Contains(known.Error(), "cut over on 2026-11-25 at 12:00 UTC") || failed != nil || len(d.Create)+len(s.created) > 0 {
				t.Errorf("%s: %v, %v, created %v", step, known, failed, s.created)
			}
			if text := s.out.String(); strings.Contains(text, "cost") || !strings.HasSuffix(text, "\nnothing was changed, and there is nothing to create\n") {
				t.Errorf("%s: it says\n%s", step, text)
			}
		}
	}
}
