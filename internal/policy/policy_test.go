package policy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

var update = flag.Bool("update", false, "rewrite deploy/policies")

// example returns the configuration for which deploy/policies is written.
func example(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Load("../../deploy/policies/replicator.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// deploy/policies equals the output of --print-iam.
func TestPoliciesAreGenerated(t *testing.T) {
	cfg := example(t)
	aws, err := json.MarshalIndent(AWS(cfg, cfg.Source.Region), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"aws-policy.json": string(aws) + "\n"}
	for name, role := range map[string]Role{"gcp-role.yaml": GoogleWorker(cfg), "gcp-role-plan.yaml": GooglePlanner(cfg)} {
		var text bytes.Buffer
		if err := role.Write(&text, cfg.Target.Project, cfg.Target.Instance); err != nil {
			t.Fatal(err)
		}
		files[name] = text.String()
	}
	for name, want := range files {
		path := "../../deploy/policies/" + name
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(have)); diff != "" {
			t.Errorf("%s is not what is generated (-want +got); regenerate with -update:\n%s", path, diff)
		}
	}
}

// Every permission of the two roles and the policy belongs to an operation, and every operation's
// permissions are in one of them. So the granted permissions equal those of the calls in the code
// (calls_test.go).
func TestPoliciesGrantTheOperations(t *testing.T) {
	cfg := example(t)
	cfg.Source.Roles = []string{"arn:aws:iam::111122223333:role/reader"}
	assume := Roles(cfg)[0].May
	granted := map[string]bool{}
	for _, statement := range append(AWS(cfg, "").Statement, assume.Statement...) {
		for _, action := range statement.Action {
			granted[action] = true
		}
	}
	found, err := config.Parse("replicator.yaml", []byte(patterns), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	expiring, err := config.Parse("replicator.yaml", []byte(ageing), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	expiring.Cutover.Hooks.Switch, expiring.Cutover.RollbackHooks.Switch = "./switch", "./back"
	expiring.Cutover.Freeze, expiring.Cutover.ProbeRole = "table_policy", "arn:aws:iam::111122223333:role/probe"
	for _, statement := range append(AWS(found, "").Statement, AWS(expiring, "").Statement...) {
		for _, action := range statement.Action {
			granted[action] = true
		}
	}
	for _, permission := range slices.Concat(GooglePlanner(cfg).IncludedPermissions, GoogleFinalizer(cfg).IncludedPermissions, GoogleFailover().IncludedPermissions) {
		granted[permission] = true
	}
	cfg.Backfill.PauseAboveTargetCPU, cfg.Relay.Topic = "70%", "projects/p/topics/changes"
	cfg.Relay.Subscription = "projects/p/subscriptions/appliers"
	for _, role := range GoogleWorker(cfg).Besides {
		for _, permission := range role.Permissions {
			granted[permission] = true
		}
	}
	needed := map[string]bool{}
	for _, o := range Operations() {
		if slices.Contains([]Use{Importing, Exporting, Decrypting, Encrypting}, o.Use) {
			continue // TestExportsAndKeys covers these: this configuration has no bucket and no key
		}
		for _, permission := range o.Permissions {
			needed[permission] = true
		}
	}
	if diff := cmp.Diff(needed, granted); diff != "" {
		t.Error(diff)
	}
	for _, permission := range GoogleWorker(cfg).IncludedPermissions {
		if !needed[permission] {
			t.Error(permission)
		}
	}
}

// A worker that need not create tables may not.
func TestLeastPrivilege(t *testing.T) {
	cfg := example(t)
	has := func() []string { return GoogleWorker(cfg).IncludedPermissions }
	may := func(permission string) bool { return slices.Contains(has(), permission) }
	if !may("bigtable.tables.create") || !may("bigtable.authorizedViews.create") {
		t.Error(has())
	}
	cfg.Target.CreateMissing = false
	if may("bigtable.tables.create") || !may(FencePermission) || may("bigtable.authorizedViews.create") || !may("bigtable.authorizedViews.get") {
		t.Error(has())
	}
	cfg.Target.View = ""
	if may("bigtable.authorizedViews.get") {
		t.Error(has())
	}
	for _, p := range has() {
		if strings.Contains(p, "delete") || strings.Contains(p, "*") || strings.Contains(p, "setIamPolicy") {
			t.Error(p)
		}
	}
}

// Only processes that wait for the target's CPU load may read it, in the project.
func TestTargetLoadIsReadWhereItCounts(t *testing.T) {
	cfg := example(t)
	cfg.Backfill.PauseAboveTargetCPU = ""
	for set, want := range map[config.Percent]string{"": "", "70%": "# gcloud projects add-iam-policy-binding my-project --member=serviceAccount:EMAIL " +
		"--role=roles/monitoring.viewer  # backfill.pause_above_target_cpu needs monitoring.timeSeries.list\ntitle: replicator\n"} {
		cfg.Backfill.PauseAboveTargetCPU = set
		var text bytes.Buffer
		if err := GoogleWorker(cfg).Write(&text, "my-project", "my-instance"); err != nil || strings.Contains(text.String(), "monitoring") != (want != "") ||
			!strings.Contains(text.String(), want) {
			t.Errorf("%q: %v\n%s", set, err, text.String())
		}
	}
	cfg.Backfill.PauseAboveTargetCPU = "70%"
	if b := GooglePlanner(cfg).Besides; len(b) != 1 || b[0].Name != "roles/monitoring.viewer" {
		t.Errorf("a plan shows it: %v", b)
	}
}

func TestTableARN(t *testing.T) {
	const role = "arn:aws-us-gov:iam::111122223333:role/a"
	for _, c := range []struct{ role, region, want string }{
		{"", "", "arn:aws:dynamodb:*:*:table/T"},
		{"", "eu-west-1", "arn:aws:dynamodb:eu-west-1:*:table/T"},
		{"", "cn-north-1", "arn:aws-cn:dynamodb:cn-north-1:*:table/T"},
		{"", "us-gov-west-1", "arn:aws-us-gov:dynamodb:us-gov-west-1:*:table/T"},
		{"", "eusc-de-east-1", "arn:aws-eusc:dynamodb:eusc-de-east-1:*:table/T"},
		{"", "eu-isoe-west-1", "arn:aws-iso-e:dynamodb:eu-isoe-west-1:*:table/T"},
		{"", "us-isof-south-1", "arn:aws-iso-f:dynamodb:us-isof-south-1:*:table/T"},
		{role, "", "arn:aws-us-gov:dynamodb:*:111122223333:table/T"},
		{role, "us-gov-west-1", "arn:aws-us-gov:dynamodb:us-gov-west-1:111122223333:table/T"},
	} {
		if got := tableARN(c.role, c.region, "T"); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// The reference lists every use of an operation.
func TestEveryUseHasItsText(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Operations() {
		seen[o.Use.String()] = true
		if o.Use.String() == "" || o.Service == "" || o.Name == "" || len(o.Permissions) == 0 && o.Name != "TestIamPermissions" && o.Name != "GetCallerIdentity" {
			t.Errorf("%+v", o)
		}
	}
	if len(seen) != len(useTexts) {
		t.Errorf("%d texts are used, of %d", len(seen), len(useTexts))
	}
}

const exports = `version: 1
target: { project: p, instance: i }
backfill: { from: "s3://exports/AWSDynamoDB/1/" }
tables:
  - { from: Orders }
  - { from: Parts, backfill_from: "gs://copies/parts/AWSDynamoDB/2" }
  - { from: Bills, backfill_from: "gs://copies/bills/AWSDynamoDB/3" }
`

// Permissions for exports and keys are granted if the configuration or DynamoDB names them.
// Otherwise a note says what the operator must add.
func TestExportsAndKeys(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte(exports), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	const key = "arn:aws-cn:kms:cn-north-1:111122223333:key/1"
	var read, keys *Statement
	statements := AWS(cfg, "cn-north-1").WithKeys([]string{key}).Statement
	for i, s := range statements {
		switch s.Sid {
		case "ReadExports":
			read = &statements[i]
		case "DecryptTables":
			keys = &statements[i]
		}
	}
	want := &Statement{"ReadExports", "Allow", []string{"s3:GetObject", "s3:ListBucket"}, []string{"arn:aws-cn:s3:::exports", "arn:aws-cn:s3:::exports/AWSDynamoDB/1/*"}}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Statement{"DecryptTables", "Allow", []string{"kms:Decrypt", "kms:DescribeKey"}, []string{key}}, keys); diff != "" {
		t.Error(diff)
	}
	said := map[string]bool{}
	for _, a := range AWSAdditions(cfg, "cn-north-1") {
		for _, action := range a.Actions {
			said[action] = true
		}
		if a.When == "" || !strings.HasPrefix(a.On, "arn:aws-cn:") {
			t.Errorf("%+v", a)
		}
	}
	for _, o := range Operations() {
		for _, action := range o.Permissions {
			if slices.Contains([]Use{Importing, Exporting, Decrypting, Encrypting}, o.Use) && o.Service != "storage" && !said[action] {
				t.Errorf("%s is not said", action)
			}
		}
	}
	for name, role := range map[string]Role{"worker": GoogleWorker(cfg), "plan": GooglePlanner(cfg)} {
		var text bytes.Buffer
		if err := role.Write(&text, "p", "i"); err != nil {
			t.Fatal(err)
		}
		const command = "# gcloud storage buckets add-iam-policy-binding gs://copies --member=serviceAccount:EMAIL --role=roles/storage.objectViewer" +
			"  # backfill.from needs storage.objects.get, storage.objects.list\n"
		if strings.Count(text.String(), command) != 1 {
			t.Errorf("%s:\n%s", name, text.String())
		}
	}
}

// Messages are published, pulled and dead-lettered with roles on their own resources.
func TestTopicsAreGranted(t *testing.T) {
	cfg := example(t)
	cfg.Relay = config.Relay{Topic: "projects/p/topics/changes", Subscription: "projects/p/subscriptions/appliers", DeadLetter: "projects/p/subscriptions/dead"}
	said := func(r Role) (lines []string) {
		for _, b := range r.Besides {
			lines = append(lines, b.granted("my-project")+" # "+b.For)
		}
		return lines
	}
	const relays, applies = "RELAY_EMAIL", "APPLIER_EMAIL"
	const topic, apply, dead = "gcloud pubsub topics add-iam-policy-binding projects/p/topics/changes --member=serviceAccount:EMAIL --role=roles/pubsub.",
		"gcloud pubsub subscriptions add-iam-policy-binding projects/p/subscriptions/appliers --member=serviceAccount:EMAIL --role=roles/pubsub.",
		"gcloud pubsub subscriptions add-iam-policy-binding projects/p/subscriptions/dead --member=serviceAccount:EMAIL --role=roles/pubsub."
	const agent = " --member=serviceAccount:service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com --role=roles/pubsub."
	const moves = " # the dead-letter topic, to which Pub/Sub itself moves messages,"
	looks := []string{topic + "viewer # relay.pubsub_topic", apply + "viewer # relay.subscription", dead + "viewer # relay.dead_letter"}
	of := func(line, member string) string { return strings.Replace(line, "EMAIL", member, 1) }
	want := append(slices.Clone(looks), of(topic, relays)+"publisher # relay.pubsub_topic", of(apply, applies)+"subscriber # relay.subscription", of(dead, applies)+"subscriber # relay.dead_letter",
		"gcloud pubsub topics add-iam-policy-binding DEAD_LETTER_TOPIC --member=serviceAccount:APPLIER_EMAIL --role=roles/pubsub.publisher # the dead-letter topic, for refused messages,",
		"gcloud pubsub topics add-iam-policy-binding DEAD_LETTER_TOPIC"+agent+"publisher"+moves,
		"gcloud pubsub subscriptions add-iam-policy-binding projects/p/subscriptions/appliers"+agent+"subscriber"+moves)
	if diff := cmp.Diff(want, said(GoogleWorker(cfg))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(looks, said(GooglePlanner(cfg))); diff != "" {
		t.Error(diff)
	}
	if a := GoogleAdditions(cfg); slices.ContainsFunc(a, func(a Addition) bool { return strings.Contains(a.When, "dead letter") }) {
		t.Errorf("said twice: %+v", a)
	}
}

// A dead letter that the configuration does not name is printed as an addition, because Pub/Sub's
// own account needs permissions for it.
func TestDeadLetterThatIsNotWatched(t *testing.T) {
	cfg := example(t)
	dead := func() (on []string) {
		for _, a := range GoogleAdditions(cfg) {
			if strings.Contains(a.When, forwardingMember) {
				on = append(on, strings.Join(a.Actions, " ")+" on "+a.On)
			}
		}
		return on
	}
	if got := dead(); got != nil {
		t.Errorf("there is no subscription: %q", got)
	}
	cfg.Relay.Subscription = "projects/p/subscriptions/appliers"
	want := []string{"pubsub.topics.publish on the dead-letter topic (roles/pubsub.publisher)",
		"pubsub.subscriptions.consume on the subscription (roles/pubsub.subscriber)"}
	if diff := cmp.Diff(want, dead()); diff != "" {
		t.Error(diff)
	}
}

// One command grants a role on a resource, for all configuration keys that need it.
func TestEachBindingOnce(t *testing.T) {
	var b bindings
	for _, key := range []string{"relay.pubsub_topic", "errors.park_to"} {
		b.topic("roles/pubsub.viewer", key, "projects/p/topics/t", "pubsub.topics.get")
	}
	b.topic("roles/pubsub.viewer", "errors.park_to", "", "pubsub.topics.get")
	want := bindings{{"roles/pubsub.viewer", []string{"pubsub.topics.get"}, "relay.pubsub_topic, errors.park_to", "", Resource{topicKind, "projects/p/topics/t"}}}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Error(diff)
	}
}

const patterns = `version: 1
target: { project: p, instance: i }
tables:
  - from: Result_{keyword}_{year:4}_{month:2}
    to: results
    families: { r: maxversions=1 }
    rules:
      - row_key: "{$keyword}#{$year}{$month}#{id}"
        columns: { "*": r }
`

const ageing = `version: 1
target: { project: p, instance: i }
tables:
  - from: Orders
  - from: Sessions
    families: { d: maxage=30d }
    ttl: { attribute: until, expire: gc }
`

// With hooks of a rollback, workers may write items, and the time to live of each table is read.
func TestAFallbackMayWriteItems(t *testing.T) {
	const hooks = "cutover: { rollback_hooks: { freeze_writes: ./f, switch: ./s, unfreeze_writes: ./u } }\n"
	granted := func(text string) (actions map[string][]string) {
		cfg, err := config.Parse("replicator.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		actions = map[string][]string{}
		for _, s := range AWS(cfg, "").Statement {
			for _, action := range s.Action {
				actions[action] = append(actions[action], s.Resource...)
			}
		}
		return actions
	}
	both := []string{"arn:aws:dynamodb:*:*:table/Orders", "arn:aws:dynamodb:*:*:table/Sessions"}
	with, without := granted(ageing+hooks), granted(ageing)
	for _, action := range []string{"dynamodb:UpdateItem", "dynamodb:DescribeTimeToLive"} {
		if !slices.Equal(with[action], both) {
			t.Errorf("%s on %q, want %q", action, with[action], both)
		}
	}
	if len(without["dynamodb:UpdateItem"]) > 0 {
		t.Errorf("without hooks: %q", without)
	}
}

// The time-to-live setting is read only for tables whose cells expire.
func TestExpiryIsReadWhereItCounts(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte(ageing), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range AWS(cfg, "").Statement {
		if !slices.Contains(s.Action, "dynamodb:DescribeTimeToLive") {
			continue
		}
		if diff := cmp.Diff([]string{"arn:aws:dynamodb:*:*:table/Sessions"}, s.Resource); diff != "" {
			t.Error(diff)
		}
		return
	}
	t.Error("it is not granted")
}

// A pattern is granted as the names that it can match. Finding tables is granted as what it is:
// reading the names of all tables.
func TestPatternsAreGranted(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte(patterns), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	p := AWS(cfg, "eu-west-1")
	if len(p.Statement) != 3 {
		t.Fatalf("%+v", p)
	}
	const arn = "arn:aws:dynamodb:eu-west-1:*:table/Result_*_????_??"
	want := []Statement{{"FindTables", "Allow", []string{"dynamodb:ListTables"}, []string{"*"}}}
	if diff := cmp.Diff(want, p.Statement[2:]); diff != "" {
		t.Error(diff)
	}
	if p.Statement[0].Resource[0] != arn || p.Statement[1].Resource[0] != arn+"/stream/*" {
		t.Errorf("%+v", p.Statement[:2])
	}
}

// Each role of a chain is assumed by the one before it. Only the last one asks for the external id,
// and the tables are in its account, unless they have an ARN.
func TestRolesOfAChain(t *testing.T) {
	const step, reader, orders = "arn:aws:iam::111122223333:role/step", "arn:aws:iam::444455556666:role/reader", "arn:aws:dynamodb:eu-west-1:777788889999:table/Orders"
	const rest = "version: 1\ntarget: {project: p, instance: i}\ntables: [{from: '" + orders + "'}, {from: Users}]\n"
	cfg := parsed(t, rest+"source: {role_arn: ["+step+", "+reader+"], external_id: acme}\n")
	assume := func(role string) Policy {
		return document(Statement{"AssumeReader", "Allow", []string{"sts:AssumeRole"}, []string{role}})
	}
	trust := Trust{"2012-10-17", []TrustStatement{{"Allow", map[string]string{"AWS": step}, []string{"sts:AssumeRole"}, map[string]map[string]string{"StringEquals": {"sts:ExternalId": "acme"}}}}}
	if diff := cmp.Diff([]Step{{step, assume(step), nil}, {reader, assume(reader), &trust}}, Roles(cfg)); diff != "" {
		t.Error(diff)
	}
	if steps := Roles(parsed(t, rest)); len(steps) > 0 {
		t.Errorf("roles that nobody assumes: %+v", steps)
	}
	one := Roles(parsed(t, rest+"source: {role_arn: "+reader+", external_id: acme}\n"))
	if len(one) != 1 || one[0].Trust.Statement[0].Principal["AWS"] != "ARN_OF_THE_ROLE_OF_REPLICATOR" {
		t.Errorf("%+v", one)
	}
	if diff := cmp.Diff([]string{orders, "arn:aws:dynamodb:eu-west-1:444455556666:table/Users"}, AWS(cfg, "eu-west-1").Statement[0].Resource); diff != "" {
		t.Error(diff)
	}
}

// A key of exports needs the permissions to write with it and to read with it. An id means a key in
// the account of the tables.
func TestKeyOfExports(t *testing.T) {
	const id, arn = "1234abcd-12ab-34cd-56ef-1234567890ab", "arn:aws:kms:us-east-1:777788889999:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	for key, want := range map[string]string{id: "arn:aws:kms:eu-west-1:444455556666:key/" + id, arn: arn} {
		cfg := parsed(t, "version: 1\ntarget: {project: p, instance: i}\nsource: {role_arn: 'arn:aws:iam::444455556666:role/reader'}\ntables: [{from: Orders}]\nbackfill: {export: {kms_key: '"+key+"'}}\n")
		all := AWS(cfg, "eu-west-1").Statement
		if diff := cmp.Diff(Statement{"EncryptExports", "Allow", []string{"kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"}, []string{want}}, all[len(all)-1]); diff != "" {
			t.Error(diff)
		}
	}
}
