package tablepolicy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/awssign"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// embedded is an embedded DynamoDB with a table, and a runtime whose clock is the server's clock. A
// sleep moves it.
type embedded struct {
	task.Runtime
	t           *testing.T
	ctx         context.Context
	server      *dynamodbtest.Server
	connections atomic.Int64
	url         string
	mu          sync.Mutex
	now         time.Time
}

func (e *embedded) Now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *embedded) Mono() time.Duration { return e.Now().Sub(embeddedStart) }

func (e *embedded) Sleep(ctx context.Context, d time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = e.now.Add(d)
	return context.Cause(ctx)
}

// WithTimeout gives each call one minute of real time.
func (e *embedded) WithTimeout(ctx context.Context, _ time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Minute, cause)
}

var embeddedStart = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func newEmbedded(t *testing.T) *embedded {
	t.Helper()
	e := &embedded{t: t, now: embeddedStart}
	e.ctx = task.With(t.Context(), e)
	e.server = dynamodbtest.New(dynamodbtest.Options{
		Clock: e.Now, SignatureWindow: 5 * time.Minute, PolicyDelay: 20 * time.Second,
		Roles: map[string]string{"COPY": copyRole, "PROBE": probeRole, "APP": appRole},
	})
	listener := httptest.NewUnstartedServer(e.server)
	listener.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			e.connections.Add(1)
		}
	}
	listener.Start()
	t.Cleanup(listener.Close)
	e.url = listener.URL
	_, err := e.client("COPY").CreateTable(awssign.At(e.ctx, e.now), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeN},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// client returns a client of a role. Requests are signed with the server's time.
func (e *embedded) client(key string) *dynamodb.Client {
	return awssign.Client(dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &e.url, Credentials: credentials.NewStaticCredentialsProvider(key, "secret", ""),
	}, backfill.ClientOptions))
}

func (e *embedded) probes() *Probes {
	return NewProbes(e.client("PROBE"), "Orders", []KeyAttribute{{"pk", types.ScalarAttributeTypeS}, {"sk", types.ScalarAttributeTypeN}})
}

// signing signs the reads of a policy with the server's time.
type signing struct {
	e *embedded
	Policies
}

func (s signing) Get(ctx context.Context, table string) (Policy, error) {
	return s.Policies.Get(awssign.At(ctx, s.e.Now()), table)
}

// signingProber signs the probes with the server's time.
type signingProber struct {
	e *embedded
	Prober
}

func (s signingProber) Put(ctx context.Context) Seen {
	return s.Prober.Put(awssign.At(ctx, s.e.Now()))
}

func (s signingProber) Transact(ctx context.Context) Seen {
	return s.Prober.Transact(awssign.At(ctx, s.e.Now()))
}

// freezer returns a Freezer of a process that continues from a record.
func (e *embedded) freezer(record Record) *Freezer {
	return &Freezer{
		Table: ordersARN, Hash: hash, Exempt: []string{"arn:aws:sts::000000000000:assumed-role/copy/session"}, Probe: probeRole,
		Policies: signing{e, NewDynamoDB(e.client("COPY"))}, Prober: signingProber{e, e.probes()}, Record: record,
		Proof:   func(context.Context) (time.Time, error) { return e.Now(), nil },
		Save:    func(context.Context, Record) error { return nil },
		Timings: Timings{Wait: 8 * time.Minute},
	}
}

// write writes an item as a role.
func (e *embedded) write(key string) Seen {
	_, err := e.client(key).PutItem(awssign.At(e.ctx, e.Now()), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "x"}, "sk": &types.AttributeValueMemberN{Value: "1"},
	}})
	return seenOf(err)
}

// policy returns the policy as DynamoDB has it.
func (e *embedded) policy() Policy {
	p, err := NewDynamoDB(e.client("COPY")).Get(awssign.At(e.ctx, e.Now()), ordersARN)
	if err != nil {
		e.t.Error(err)
	}
	return p
}

func begun(t *testing.T) Record {
	t.Helper()
	record, err := Begin(Record{}, hash, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

const others = `{"Version":"2012-10-17", "Statement":{"Sid":"audit","Effect":"Deny","Principal":"*","Action":"dynamodb:DeleteTable","Resource":"*"}}`

// A table is frozen for the application, and not for this program. Reads are old, and a policy
// comes into force late.
func TestH144_AFreezeOfTheEmbeddedService(t *testing.T) {
	e := newEmbedded(t)
	if a := NewDynamoDB(e.client("COPY")).Put(e.ctx, ordersARN, others, "", e.Now()); a.Outcome != Done {
		t.Fatal(a)
	}
	if err := e.server.OldPolicyReads("Orders", true); err != nil {
		t.Fatal(err)
	}
	_ = e.Sleep(e.ctx, time.Minute)
	f := e.freezer(begun(t))
	began := e.Now()
	delay, err := f.Freeze(e.ctx)
	if took := e.Now().Sub(began); err != nil || delay < 20*time.Second || delay > 22*time.Second || took < 80*time.Second || took > 90*time.Second {
		t.Errorf("after %v and %v: %v", delay, took, err)
	}
	if app, copy, probe := e.write("APP"), e.write("COPY"), f.Watch(e.ctx); app != Denied || copy != LetThrough || probe != Denied {
		t.Errorf("the application: %v, this program: %v, the probe: %v", app, copy, probe)
	}
	if _, err := f.Unfreeze(e.ctx); err != nil || e.write("APP") != LetThrough || f.Watch(e.ctx) != LetThrough {
		t.Errorf("the table is not open: %v", err)
	}
	if got, want := e.policy().Text, strings.Replace(strings.Replace(others, `:{`, `:[{`, 1), `}}`, `}]}`, 1); got != want {
		t.Errorf("the policy is %s, want %s", got, want)
	}
	for over := false; !over; _ = e.Sleep(e.ctx, time.Second) {
		if over, err = f.Over(e.ctx); err != nil {
			t.Fatal(err)
		}
		if early := e.Now().Before(f.Record.OverAt(f.Timings)); early == over {
			t.Fatalf("over at %v: %v", e.Now(), over)
		}
	}
}

// The process dies with a request in flight, and the freeze is cancelled. The request is executed
// after a look that found nothing.
func TestH144_ALateRequestAfterTheCancel(t *testing.T) {
	e := newEmbedded(t)
	e.server.Fail(dynamodbtest.Fault{Operation: "PutResourcePolicy", Late: 80 * time.Second})
	first := e.freezer(begun(t))
	lost := errors.New("the lease is lost")
	first.Proof = func(context.Context) (time.Time, error) {
		if !first.Record.Signed.IsZero() {
			return time.Time{}, lost
		}
		return e.Now(), nil
	}
	if _, err := first.Freeze(e.ctx); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	next := e.freezer(first.Record)
	if _, err := next.Unfreeze(e.ctx); err != nil || e.policy().Text != "" {
		t.Fatalf("%v: %s", err, e.policy().Text)
	}
	frozen, over := 0, false
	var err error
	for ; !over; _ = e.Sleep(e.ctx, time.Second) {
		if over, err = next.Over(e.ctx); err != nil {
			t.Fatal(err)
		}
		if e.write("APP") == Denied {
			frozen++
		}
	}
	if frozen == 0 || e.policy().Text != "" || e.write("APP") != LetThrough {
		t.Errorf("frozen for %d looks, and then the policy is %q", frozen, e.policy().Text)
	}
}

// An answer that may come before or without the execution leaves a doubt.
func TestH144_WhatAnAnswerPromises(t *testing.T) {
	for name, c := range map[string]struct {
		fault dynamodbtest.Fault
		want  Outcome
	}{
		"no fault":            {dynamodbtest.Fault{Operation: "none"}, Done},
		"throttled":           {dynamodbtest.Fault{Error: "ThrottlingException"}, Refused},
		"too many changes":    {dynamodbtest.Fault{Error: "LimitExceededException"}, Refused},
		"not allowed":         {dynamodbtest.Fault{Error: "AccessDeniedException"}, Unfitting},
		"no table":            {dynamodbtest.Fault{Error: "ResourceNotFoundException"}, Unfitting},
		"a fault of DynamoDB": {dynamodbtest.Fault{Error: "InternalServerError"}, Unknown},
		"executed, and cut":   {dynamodbtest.Fault{AfterEffect: true}, Unknown},
		"executed later":      {dynamodbtest.Fault{Late: time.Minute}, Unknown},
	} {
		e := newEmbedded(t)
		if c.fault.Operation == "" {
			c.fault.Operation = "PutResourcePolicy"
		}
		e.server.Fail(c.fault)
		got := NewDynamoDB(e.client("COPY")).Put(e.ctx, ordersARN, others, "", e.Now())
		if got.Outcome != c.want || (got.Reason == "") != (c.want != Refused && c.want != Unfitting) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if calls := e.server.Calls("PutResourcePolicy"); calls != 1 {
			t.Errorf("%s: %d attempts", name, calls)
		}
	}
	e := newEmbedded(t)
	d := NewDynamoDB(e.client("COPY"))
	spaced := strings.ReplaceAll(others, "audit", "audits")
	for _, step := range []struct {
		what   string
		change func() Answer
		want   Outcome
	}{
		{"too old", func() Answer { return d.Put(e.ctx, ordersARN, others, "", e.Now().Add(-301*time.Second)) }, Expired},
		{"nothing to delete", func() Answer { return d.Delete(e.ctx, ordersARN, "", e.Now()) }, Changed},
		{"another revision", func() Answer { return d.Put(e.ctx, ordersARN, others, "7", e.Now()) }, Changed},
		{"not a policy", func() Answer { return d.Put(e.ctx, ordersARN, "{}", "", e.Now()) }, Unfitting},
		{"young enough", func() Answer { return d.Put(e.ctx, ordersARN, others, "", e.Now().Add(-299*time.Second)) }, Done},
		{"no policy expected", func() Answer { return d.Put(e.ctx, ordersARN, spaced, "", e.Now()) }, Changed},
		{"resting", func() Answer { return d.Put(e.ctx, ordersARN, spaced, e.policy().Revision, e.Now()) }, Resting},
		{"a deletion that rests", func() Answer { return d.Delete(e.ctx, ordersARN, e.policy().Revision, e.Now()) }, Resting},
		{"a deletion too old", func() Answer { return d.Delete(e.ctx, ordersARN, e.policy().Revision, e.Now().Add(-time.Hour)) }, Expired},
		{"a deletion", func() Answer {
			_ = e.Sleep(e.ctx, 15*time.Second)
			return d.Delete(e.ctx, ordersARN, e.policy().Revision, e.Now())
		}, Done},
	} {
		if got := step.change(); got.Outcome != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	if _, err := d.Get(awssign.At(e.ctx, e.Now()), ordersARN+"x"); err == nil {
		t.Error("a table that does not exist has a policy")
	}
}

// Probes see the policy, and change nothing. Each has a connection of its own.
func TestH144_WhatAProbeSees(t *testing.T) {
	e := newEmbedded(t)
	p := e.probes()
	kinds := map[string]func(context.Context) Seen{"PutItem": p.Put, "TransactWriteItems": p.Transact}
	all := func(when string, want Seen) {
		t.Helper()
		for operation, write := range kinds {
			before := e.connections.Load()
			if got := write(awssign.At(e.ctx, e.Now())); got != want {
				t.Errorf("%s, %s: %v, want %v", when, operation, got, want)
			}
			if n := e.connections.Load() - before; n != 1 {
				t.Errorf("%s, %s: %d connections", when, operation, n)
			}
		}
	}
	all("open", LetThrough)
	for _, code := range []string{"InternalServerError", "ProvisionedThroughputExceededException", "UnrecognizedClientException"} {
		for operation := range kinds {
			e.server.Fail(dynamodbtest.Fault{Operation: operation, Error: code})
		}
		all(code, Unseen)
	}
	text, err := addTo("", deny(t, 1))
	if a := NewDynamoDB(e.client("COPY")).Put(e.ctx, ordersARN, text, "", e.Now()); err != nil || a.Outcome != Done {
		t.Fatal(a, err)
	}
	all("not in force yet", LetThrough)
	_ = e.Sleep(e.ctx, 20*time.Second)
	all("frozen", Denied)
	out, err := e.client("COPY").Scan(awssign.At(e.ctx, e.Now()), &dynamodb.ScanInput{TableName: aws.String("Orders")})
	if err != nil || len(out.Items) > 0 {
		t.Errorf("the probes wrote %v: %v", out, err)
	}
	conflict := &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
	if got := seenOf(conflict); got != Unseen {
		t.Errorf("a conflict: %v", got)
	}
	for kind, want := range map[types.ScalarAttributeType]string{"B": "*types.AttributeValueMemberB", "N": "*types.AttributeValueMemberN", "S": "*types.AttributeValueMemberS"} {
		if got := fmt.Sprintf("%T", probeValue(kind)); got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
}
