package fallback

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/awssign"
)

// source is an embedded DynamoDB with a table Orders, whose clock a test moves.
type source struct {
	*DynamoDB
	server *dynamodbtest.Server
	mu     sync.Mutex
	now    time.Time
}

func (s *source) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	s.server = dynamodbtest.New(dynamodbtest.Options{Clock: s.clock, SignatureWindow: 5 * time.Minute})
	listener := httptest.NewServer(s.server)
	t.Cleanup(listener.Close)
	client := dynamodb.NewFromConfig(aws.Config{
		Region: "eu-west-1", BaseEndpoint: &listener.URL, Credentials: credentials.NewStaticCredentialsProvider("any", "thing", ""),
	}, backfill.ClientOptions)
	s.DynamoDB = NewDynamoDB(client)
	_, err := s.client.CreateTable(awssign.At(t.Context(), s.now), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("k"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// item makes an item from texts such as "a=1": the key k is "x".
func item(attributes ...string) attribute.Item {
	all := []attribute.Attribute{{Name: "k", Value: attribute.String("x")}}
	for _, a := range attributes {
		name, value, _ := strings.Cut(a, "=")
		all = append(all, attribute.Attribute{Name: name, Value: attribute.String(value)})
	}
	return attribute.NewItem(all)
}

func (s *source) read(t *testing.T) string {
	t.Helper()
	got, _, err := s.Item(awssign.At(t.Context(), s.clock()), "Orders", item())
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, a := range got.Attributes() {
		texts = append(texts, a.Name+"="+a.Value.Text())
	}
	return strings.Join(texts, " ")
}

// The writes of one item, one after another: each depends on what was read, and on the age of its
// signature.
func TestH143_WritesOfAnItem(t *testing.T) {
	s := newSource(t)
	set := func(texts ...string) (all []attribute.Attribute) {
		for _, a := range item(texts...).Attributes() {
			if a.Name != "k" {
				all = append(all, a)
			}
		}
		return all
	}
	for _, step := range []struct {
		what string
		w    Write
		age  time.Duration
		want Outcome
		item string
	}{
		{"an item is made", Write{Set: set("a=1", "b=2")}, 0, Done, "a=1 b=2 k=x"},
		{"it exists already", Write{Set: set("a=3")}, 0, Changed, "a=1 b=2 k=x"},
		{"attributes are changed", Write{Set: set("a=3", "c=4"), Remove: []string{"b"}, Had: item("a=1", "b=2"), Existed: true}, 0, Done, "a=3 c=4 k=x"},
		{"another attribute was changed", Write{Set: set("c=5"), Had: item("a=old", "c=4"), Existed: true}, 0, Done, "a=3 c=5 k=x"},
		{"the attribute was changed", Write{Set: set("c=6"), Had: item("a=3", "c=4"), Existed: true}, 0, Changed, "a=3 c=5 k=x"},
		{"the attribute was added", Write{Set: set("a=7"), Had: item("c=5"), Existed: true}, 0, Changed, "a=3 c=5 k=x"},
		{"the signature is young enough", Write{Set: set("c=8"), Had: item("a=3", "c=5"), Existed: true}, 4 * time.Minute, Done, "a=3 c=8 k=x"},
		{"the signature is too old", Write{Set: set("c=9"), Had: item("a=3", "c=8"), Existed: true}, 6 * time.Minute, Expired, "a=3 c=8 k=x"},
		{"the item is too large", Write{Set: set("c=" + strings.Repeat("x", 500<<10)), Had: item("a=3", "c=8"), Existed: true}, 0, Unfitting, "a=3 c=8 k=x"},
		{"a removal of a changed item", Write{Delete: true, Had: item("a=3", "c=5"), Existed: true}, 0, Changed, "a=3 c=8 k=x"},
		{"a removal", Write{Delete: true, Had: item("a=3", "c=8"), Existed: true}, 0, Done, ""},
		{"an item of its key alone", Write{}, 0, Done, "k=x"},
	} {
		step.w.Key = item()
		if got := s.Write(t.Context(), "Orders", step.w, s.clock().Add(-step.age)); got.Outcome != step.want || strings.Contains(got.Reason, "xxx") {
			t.Errorf("%s: %v", step.what, got)
		}
		if got := s.read(t); got != step.item {
			t.Errorf("%s: the item is %q", step.what, got)
		}
	}
}

// More attributes than one expression holds are changed by several requests.
func TestWideItemsAreWrittenInSteps(t *testing.T) {
	s := newSource(t)
	var wide []string
	for i := range 2 * mostChanges {
		wide = append(wide, fmt.Sprintf("a%03d=v", i))
	}
	looks := 0
	for had, exists := item(), false; ; looks++ {
		w := Write{Key: item(), Had: had, Existed: exists}
		for _, a := range item(wide...).Attributes() {
			if _, has := had.Get(a.Name); !has {
				w.Set = append(w.Set, a)
			}
		}
		if got := s.Write(t.Context(), "Orders", w, s.clock()); got.Outcome == Done {
			break
		} else if got.Outcome != Changed || looks > 5 {
			t.Fatalf("look %d: %v", looks, got)
		}
		had, exists, _ = s.Item(awssign.At(t.Context(), s.clock()), "Orders", item())
	}
	if got := s.read(t); strings.Count(got, "=v") != len(wide) || looks == 0 {
		t.Errorf("%d of %d attributes, after %d looks", strings.Count(got, "=v"), len(wide), looks)
	}
}

// An answer that may come before or without the execution leaves a doubt.
func TestH143_WhatAnAnswerPromises(t *testing.T) {
	for name, c := range map[string]struct {
		fault dynamodbtest.Fault
		want  Outcome
	}{
		"throttled":            {dynamodbtest.Fault{Error: "ProvisionedThroughputExceededException"}, Refused},
		"not allowed":          {dynamodbtest.Fault{Error: "AccessDeniedException"}, Refused},
		"a fault of DynamoDB":  {dynamodbtest.Fault{Error: "InternalServerError"}, Unknown},
		"executed, and cut":    {dynamodbtest.Fault{AfterEffect: true}, Unknown},
		"executed much later":  {dynamodbtest.Fault{Late: time.Minute}, Unknown},
		"a transaction's turn": {dynamodbtest.Fault{Error: "TransactionConflictException"}, Refused},
	} {
		s := newSource(t)
		c.fault.Operation, c.fault.Times = "UpdateItem", 1
		s.server.Fail(c.fault)
		got := s.Write(t.Context(), "Orders", Write{Key: item(), Set: []attribute.Attribute{{Name: "a", Value: attribute.String("1")}}}, s.clock())
		if got.Outcome != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The window is measured by reads with old signatures.
func TestH143_TheWindowOfASource(t *testing.T) {
	s := newSource(t)
	window, err := defaultAges.window(func(age time.Duration) (bool, error) { return s.Accepts(t.Context(), "Orders", s.clock().Add(-age)) })
	if window != 5*time.Minute || err != nil {
		t.Errorf("%v, %v", window, err)
	}
}
