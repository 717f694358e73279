package freeze

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/awssign"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// embedded is an embedded DynamoDB with the tables of a scene, in the scene's time.
type embedded struct {
	*scene
	url string
}

func playEmbedded(t *testing.T, script func(e *embedded)) {
	t.Helper()
	playScene(t, func(s *scene) {
		role := func(name string) string { return "arn:aws:iam::111122223333:role/" + name }
		server := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{
			AccountID: "111122223333", Clock: s.Now, SignatureWindow: 5 * time.Minute, PolicyDelay: 10 * time.Second,
			Roles: map[string]string{"OWN": role("own"), "PROBE": role("probe"), "APP": role("app"), "BATCH": role("batch")},
		}))
		t.Cleanup(server.Close)
		e := &embedded{s, server.URL}
		arns := map[string]string{}
		for _, table := range []string{"Orders", "Parts"} {
			out, err := e.client("OWN").CreateTable(e.signed(s.Ctx), &dynamodb.CreateTableInput{
				TableName: &table, BillingMode: types.BillingModePayPerRequest,
				KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
				AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
			})
			s.Must(err)
			arns[table] = aws.ToString(out.TableDescription.TableArn)
		}
		s.policy.Policies = signing{e, tablepolicy.NewDynamoDB(e.client("OWN"))}
		s.policy.Exempt = func(context.Context) ([]string, error) { return []string{role("own"), role("batch")}, nil }
		s.policy.Reach = func(_ context.Context, source string) (string, tablepolicy.Prober, error) {
			key := []tablepolicy.KeyAttribute{{Name: "pk", Type: types.ScalarAttributeTypeS}}
			return arns[source], signingProber{e, tablepolicy.NewProbes(e.client("PROBE"), source, key)}, nil
		}
		script(e)
	})
}

func (e *embedded) client(key string) *dynamodb.Client {
	return awssign.Client(dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &e.url, Credentials: credentials.NewStaticCredentialsProvider(key, "secret", ""),
	}, backfill.ClientOptions))
}

func (e *embedded) signed(ctx context.Context) context.Context { return awssign.At(ctx, e.Now()) }

// write reports whether a role may write both tables.
func (e *embedded) write(key string) bool {
	for _, table := range []string{"Orders", "Parts"} {
		_, err := e.client(key).PutItem(e.signed(e.Ctx), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "a"}}})
		if err != nil && !strings.Contains(err.Error(), "AccessDenied") {
			e.Fatal(err)
		}
		if err != nil {
			return false
		}
	}
	return true
}

// signing signs the reads of a policy with the time of the scene.
type signing struct {
	e *embedded
	tablepolicy.Policies
}

func (s signing) Get(ctx context.Context, table string) (tablepolicy.Policy, error) {
	return s.Policies.Get(s.e.signed(ctx), table)
}

// signingProber signs the probes with the time of the scene.
type signingProber struct {
	e *embedded
	tablepolicy.Prober
}

func (s signingProber) Put(ctx context.Context) tablepolicy.Seen {
	return s.Prober.Put(s.e.signed(ctx))
}

func (s signingProber) Transact(ctx context.Context) tablepolicy.Seen {
	return s.Prober.Transact(s.e.signed(ctx))
}

// A rehearsal, a cutover that is cancelled and one that switches, over real policies.
func TestPoliciesOfDynamoDB(t *testing.T) {
	playEmbedded(t, func(e *embedded) {
		p := plan()
		p.Rehearse = true
		e.start(p)
		e.World.Go("write", func(ctx context.Context) {
			for e.Cutover().Step != checkpoint.CutoverRehearsed {
				if !e.write("APP") {
					t.Error("a rehearsal denies a write of the application")
				}
				_ = task.Sleep(ctx, 5*time.Second)
			}
		})
		c := e.drive(e.driver, time.Hour, settled)
		if c.Step != checkpoint.CutoverRehearsed || c.Denial.Begins.Round(2*time.Second) != 10*time.Second || c.Denial.Ends.Round(2*time.Second) != 10*time.Second {
			t.Fatalf("%s because of %q: %+v; failed %q", c.Step, c.Reason, c.Denial, e.failed)
		}

		e.start(plan())
		may := map[string]bool{}
		e.World.Go("cancel", func(ctx context.Context) {
			for e.Cutover().Step != checkpoint.CutoverDrain {
				_ = task.Sleep(ctx, 10*time.Millisecond)
			}
			for _, key := range []string{"APP", "OWN", "BATCH", "PROBE"} {
				may[key] = e.write(key)
			}
			e.Must(e.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", e.Now()) }))
		})
		c = e.drive(e.driver, time.Hour, settled)
		if c.Step != checkpoint.CutoverCancelled || c.Denial.Left || !e.write("APP") {
			t.Fatalf("%s because of %q: %+v; failed %q", c.Step, c.Reason, c.Denial, e.failed)
		}
		if may["APP"] || may["PROBE"] || !may["OWN"] || !may["BATCH"] {
			t.Errorf("during the freeze may write: %v", may)
		}

		e.start(plan())
		e.hooked = func(call cutover.Call) {
			if call.Hook == cutover.Switch && e.write("APP") {
				t.Error("the application may write at the switch")
			}
		}
		c = e.drive(e.driver, time.Hour, settled)
		if c.Step != checkpoint.CutoverWatching {
			t.Fatalf("%s because of %q: %+v; failed %q", c.Step, c.Reason, c.Denial, e.failed)
		}
		if c = e.drive(e.driver, 2*time.Hour, at(checkpoint.CutoverDone)); c.Step != checkpoint.CutoverDone || c.Denial.Left {
			t.Errorf("%s: %+v; failed %q", c.Step, c.Denial, e.failed)
		}
		e.Sleep(time.Minute)
		if !e.write("APP") {
			t.Error("after the watch, the policies still deny writes")
		}
	})
}
