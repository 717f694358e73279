package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// client returns the SDK's client for a server, configured as in the program.
func client(t *testing.T, handler http.Handler, options ...func(*dynamodb.Options)) *dynamodb.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: &server.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET"}, nil
		}),
	}, append([]func(*dynamodb.Options){ClientOptions}, options...)...)
}

// answer is a server with one answer.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func tables(t *testing.T, handler http.Handler) *Tables { return NewTables(client(t, handler)) }

const secret = "hunter2" // stands for item data, which no error may contain

// TestH65_UnknownTypesAreErrorsWithoutItemData: without ClientOptions, the SDK gives the attribute
// the previous attribute's value.
func TestH65_UnknownTypesAreErrorsWithoutItemData(t *testing.T) {
	for name, value := range map[string]string{
		"unknown":             `{"Q":"hunter2"}`,
		"unknown with object": `{"Q":{"S":"hunter2"}}`,
		"empty":               `{}`,
		"null":                `null`,
		"null string":         `{"S":null}`,
		"in a list":           `{"L":[{"S":"hunter2"},{"Q":"hunter2"}]}`,
		"in a map":            `{"M":{"a":{"S":"hunter2"},"b":{"Q":"hunter2"}}}`,
		"null in a list":      `{"L":[{"S":"hunter2"},null]}`,
		"deep":                `{"L":[{"M":{"a":{"L":[{"BOOL":true},{"Q":1}]}}}]}`,
		"first of all":        `{"M":{"a":{"Q":"hunter2"}}}`,
		"two types":           `{"S":"hunter2","N":"1"}`,
		"text for a number":   `{"N":"hunter2"}`,
		"number unquoted":     `{"S":17}`,
		"broken base64":       `{"B":"hunter2!"}`,
		"not UTF-8":           "{\"S\":\"hunter2\xff\"}",
		"a name not UTF-8":    "{\"M\":{\"hunter2\xff\":{\"S\":\"x\"}}}",
		"member not UTF-8":    "{\"L\":[{\"SS\":[\"hunter2\xff\"]}]}",
		"a NULL that is not":  `{"NULL":false}`,
		"empty set":           `{"SS":[]}`,
		"member twice":        `{"SS":["hunter2","x","hunter2"]}`,
		"number twice":        `{"M":{"hunter2":{"NS":["1","1.0"]}}}`,
		"bytes twice":         `{"BS":["YQ==","YQ=="]}`,
	} {
		// One known attribute comes before it and one after, because members are decoded in the
		// order of the text.
		item := fmt.Sprintf(`{"a":{"S":"hunter2"},"b":%s,"c":{"S":"x"}}`, value)
		for op, body := range map[string]string{
			"Scan":    fmt.Sprintf(`{"Count":2,"ScannedCount":2,"Items":[{"a":{"S":"x"}},%s]}`, item),
			"key":     fmt.Sprintf(`{"Count":0,"ScannedCount":0,"Items":[],"LastEvaluatedKey":%s}`, item),
			"GetItem": fmt.Sprintf(`{"Item":%s}`, item),
		} {
			source := tables(t, answer(200, body))
			key := attribute.NewItem([]attribute.Attribute{{Name: "a", Value: attribute.String(secret)}})
			var err error
			if op == "GetItem" {
				_, _, err = source.Get(context.Background(), "T", key)
			} else {
				_, err = source.Scan(context.Background(), "T", 0, 1, attribute.Item{}, 0)
			}
			if !cdc.Is(err, cdc.Malformed) {
				t.Errorf("%s, %s: %v", op, name, err)
			} else if strings.Contains(err.Error(), secret) {
				t.Errorf("%s, %s: the error holds item data", op, name)
			}
		}
	}
}

// TestKnownTypesPass tests the check itself: values of known types are no errors, not even empty
// ones.
func TestKnownTypesPass(t *testing.T) {
	const item = `{"s":{"S":""},"n":{"N":"-1.50"},"b":{"B":"AP8="},"t":{"BOOL":false},"z":{"NULL":true},"m":{"M":{}},"l":{"L":[]},
		"ss":{"SS":["b","a"]},"ns":{"NS":["10","9"]},"bs":{"BS":["Yg==","YQ=="]},
		"deep":{"L":[{"M":{"x":{"L":[]},"y":{"SS":["q"]}}},{"M":{}},{"L":[{"S":"end"}]}]}}`
	page, err := tables(t, answer(200, `{"Count":1,"Items":[`+item+`]}`)).Scan(context.Background(), "T", 0, 1, attribute.Item{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := attribute.MarshalItem(page.Items[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"b":{"B":"AP8="},"bs":{"BS":["YQ==","Yg=="]},"deep":{"L":[{"M":{"x":{"L":[]},"y":{"SS":["q"]}}},{"M":{}},{"L":[{"S":"end"}]}]},` +
		`"l":{"L":[]},"m":{"M":{}},"n":{"N":"-1.5"},"ns":{"NS":["9","10"]},"s":{"S":""},"ss":{"SS":["a","b"]},"t":{"BOOL":false},"z":{"NULL":true}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// TestAnEmptyAnswerIsNotTheEnd: a segment ends only if an answer says so.
func TestAnEmptyAnswerIsNotTheEnd(t *testing.T) {
	for _, body := range []string{``, `{}`, `null`, `{"Count":0}`, `{"Items":[],"Count":3}`, `{"Items":[{}],"Count":1}`, `{"Items":`} {
		page, err := tables(t, answer(200, body)).Scan(context.Background(), "T", 0, 1, attribute.Item{}, 0)
		var failed *cdc.Error
		if !errors.As(err, &failed) {
			t.Errorf("%s: %+v %v", body, page, err)
		}
	}
	page, err := tables(t, answer(200, `{"Items":[],"Count":0}`)).Scan(context.Background(), "T", 0, 1, attribute.Item{}, 0)
	if err != nil || page.Next.Exists() || page.At.IsZero() {
		t.Errorf("%+v %v", page, err)
	}
}

func TestReasons(t *testing.T) {
	for code, c := range map[string]struct {
		status int
		want   cdc.Reason
	}{
		"ResourceNotFoundException":              {400, cdc.NotFound},
		"ProvisionedThroughputExceededException": {400, cdc.Throttled},
		"ThrottlingException":                    {400, cdc.Throttled},
		"RequestLimitExceeded":                   {400, cdc.Throttled},
		"AccessDeniedException":                  {400, cdc.Denied},
		"ExpiredTokenException":                  {400, cdc.Denied},
		"UnrecognizedClientException":            {400, cdc.Denied},
		"ValidationException":                    {400, cdc.Malformed},
		"SomethingNewException":                  {400, cdc.Malformed},
		"InternalServerError":                    {500, cdc.Unavailable},
		"ServiceUnavailable":                     {503, cdc.Unavailable},
	} {
		calls := 0
		source := tables(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			answer(c.status, fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"about hunter2"}`, code))(w, r)
		}))
		_, err := source.Describe(context.Background(), "T")
		if !cdc.Is(err, c.want) || !strings.Contains(err.Error(), code) || calls != 1 {
			t.Errorf("%s, %d calls: %v", code, calls, err)
		}
		_, _, err = source.Get(context.Background(), "T", attribute.NewItem([]attribute.Attribute{{Name: "a", Value: attribute.String(secret)}}))
		if !cdc.Is(err, c.want) || c.want == cdc.Malformed && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", code, err)
		}
		// A request for a page contains a key, except for the first page of a segment, whose
		// refusal may be quoted in full.
		for _, after := range []attribute.Item{{}, attribute.NewItem([]attribute.Attribute{{Name: "a", Value: attribute.String(secret)}})} {
			_, err = source.Scan(context.Background(), "T", 0, 1, after, 0)
			if withheld := after.Exists() && c.want == cdc.Malformed; !cdc.Is(err, c.want) || strings.Contains(err.Error(), "about hunter2") == withheld {
				t.Errorf("%s, after a key: %t: %v", code, after.Exists(), err)
			}
		}
	}
	// Answers of a proxy in between.
	for status, want := range map[int]cdc.Reason{502: cdc.Unavailable, 403: cdc.Denied, 429: cdc.Throttled, 405: cdc.Malformed} {
		for _, body := range []string{"<html>", ""} {
			if _, err := tables(t, answer(status, body)).Describe(context.Background(), "T"); !cdc.Is(err, want) {
				t.Errorf("%d %q: %v", status, body, err)
			}
		}
	}
}

func TestFailuresWithoutAnAnswer(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	api := client(t, answer(200, "{}"), func(o *dynamodb.Options) { o.BaseEndpoint = &gone.URL })
	if _, err := NewTables(api).Describe(context.Background(), "T"); !cdc.Is(err, cdc.Unavailable) {
		t.Errorf("nobody listens: %v", err)
	}
	api = client(t, answer(200, "{}"), func(o *dynamodb.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("no provider has any")
		})
	})
	if _, err := NewTables(api).Describe(context.Background(), "T"); !cdc.Is(err, cdc.Denied) {
		t.Errorf("no credentials: %v", err)
	}
	torn := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"Items":[{"a":{"S":"hunter2"}}`)
	})
	_, err := tables(t, torn).Scan(context.Background(), "T", 0, 1, attribute.Item{}, 0)
	if !cdc.Is(err, cdc.Unavailable) || strings.Contains(err.Error(), secret) {
		t.Errorf("torn answer: %v", err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	if _, err := tables(t, answer(200, "{}")).Describe(ctx, "T"); !cdc.Is(err, cdc.Unavailable) || !errors.Is(err, stop) {
		t.Errorf("ended context: %v", err)
	}
}

// TestStrictWhateverTheClient: a client that was built without ClientOptions is read just as
// strictly.
func TestStrictWhateverTheClient(t *testing.T) {
	server := httptest.NewServer(answer(200, `{"Count":1,"Items":[{"a":{"S":"x"},"b":{"Q":"y"}}]}`))
	defer server.Close()
	api := dynamodb.New(dynamodb.Options{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: aws.AnonymousCredentials{}})
	if _, err := NewTables(api).Scan(context.Background(), "T", 0, 1, attribute.Item{}, 0); !cdc.Is(err, cdc.Malformed) {
		t.Errorf("got %v", err)
	}
}

func TestH32_ReadsAreConsistent(t *testing.T) {
	var requests []map[string]any
	source := tables(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request map[string]any
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		requests = append(requests, request)
		answer(200, `{"Items":[],"Count":0}`)(w, r)
	}))
	n, err := attribute.Number("7")
	if err != nil {
		t.Fatal(err)
	}
	key := attribute.NewItem([]attribute.Attribute{
		{Name: "pk", Value: attribute.String("k")}, {Name: "sk", Value: n}, {Name: "x", Value: attribute.Binary([]byte{255})},
	})
	if _, err := source.Scan(context.Background(), "T", 2, 5, key, 100); err != nil {
		t.Fatal(err)
	}
	if _, found, err := source.Get(context.Background(), "T", key); err != nil || found {
		t.Fatal(found, err)
	}
	wire := map[string]any{"pk": map[string]any{"S": "k"}, "sk": map[string]any{"N": "7"}, "x": map[string]any{"B": "/w=="}}
	want := []map[string]any{
		{
			"TableName": "T", "ConsistentRead": true, "Segment": 2.0, "TotalSegments": 5.0, "Limit": 100.0,
			"ExclusiveStartKey": wire, "ReturnConsumedCapacity": "TOTAL",
		},
		{"TableName": "T", "ConsistentRead": true, "Key": wire},
	}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Error(diff)
	}
	if _, _, err := source.Get(context.Background(), "T", attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.Null()}})); !cdc.Is(err, cdc.Malformed) {
		t.Errorf("a key of type NULL: %v", err)
	}
}

// A disabled stream is still the table's latest one for a day, but it does not count as enabled.
func TestAStreamThatIsSwitchedOff(t *testing.T) {
	for _, on := range []bool{false, true} {
		d, err := tables(t, answer(200, fmt.Sprintf(`{"Table":{"TableName":"T","TableStatus":"ACTIVE","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
			"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"LatestStreamArn":"arn","LatestStreamLabel":"l",
			"StreamSpecification":{"StreamEnabled":%v,"StreamViewType":"KEYS_ONLY"}}}`, on))).Describe(context.Background(), "T")
		if err != nil || d.StreamEnabled != on || (d.ViewType != "") != on || d.StreamARN != "arn" {
			t.Errorf("switched on %v: %+v, %v", on, d, err)
		}
	}
}

// The key of an encrypted table is returned, because reading needs the right to use it.
func TestTheKeyOfATable(t *testing.T) {
	const key = "arn:aws:kms:eu-west-1:111122223333:key/1"
	for encryption, want := range map[string]string{"": "", `,"SSEDescription":{"Status":"ENABLED","SSEType":"KMS","KMSMasterKeyArn":"` + key + `"}`: key} {
		d, err := tables(t, answer(200, `{"Table":{"TableName":"T","TableStatus":"ACTIVE","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
			"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}]`+encryption+`}}`)).Describe(context.Background(), "T")
		if err != nil || d.KeyARN != want {
			t.Errorf("%q, want %q; %v", d.KeyARN, want, err)
		}
	}
}

// TestAgainstTheEmbeddedService describes and loads a table of the embedded DynamoDB, with faults on the way.
func TestAgainstTheEmbeddedService(t *testing.T) {
	ctx := context.Background()
	service := dynamodbtest.New(dynamodbtest.Options{Seed: 7, Region: "eu-west-1", Clock: func() time.Time { return day }})
	api := client(t, service)
	_, err := api.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeN},
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
		},
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	})
	if err != nil {
		t.Fatal(err)
	}
	const n = 300
	want := map[string]bool{}
	for i := range n {
		pk, sk := fmt.Sprint("customer", i%40), fmt.Sprint(i)
		want[pk+"/"+sk] = true
		_, err := api.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: pk}, "sk": &types.AttributeValueMemberN{Value: sk},
			"blob": &types.AttributeValueMemberB{Value: make([]byte, 20_000)},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	source := NewTables(api)
	d, err := source.Describe(ctx, "Orders")
	if err != nil {
		t.Fatal(err)
	}
	key := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindN}}
	if diff := cmp.Diff(key, d.PrimaryKey); diff != "" || !d.StreamEnabled || d.ViewType != "NEW_AND_OLD_IMAGES" || d.Status != "ACTIVE" ||
		d.BillingMode != "PAY_PER_REQUEST" || !strings.HasSuffix(d.StreamARN, d.StreamLabel) || d.StreamLabel == "" || !d.At.Equal(day) || d.Name != "Orders" || len(d.ID) != 36 {
		t.Errorf("%+v %s", d, diff)
	}
	if _, err := source.Describe(ctx, "Nothing"); !cdc.Is(err, cdc.NotFound) {
		t.Errorf("a table that is not there: %v", err)
	}

	service.Fail(dynamodbtest.Fault{Operation: "Scan", Error: "ProvisionedThroughputExceededException", Skip: 2, Times: 3})
	var mu sync.Mutex
	retried := 0
	s := Part{
		Total: 3, Source: Segments{Table: "Orders", Source: source}, Save: func(context.Context, checkpoint.PartProgress) error { return nil },
		Write: func(_ context.Context, page Page, readAt time.Time) error {
			mu.Lock()
			defer mu.Unlock()
			if readAt.After(day) {
				t.Errorf("images claim %s; the service's clock says %s", readAt, day)
			}
			for _, item := range page.Items {
				pk, _ := item.Get("pk")
				sk, _ := item.Get("sk")
				delete(want, pk.Text()+"/"+sk.Text())
			}
			return nil
		},
		Retry: func(ctx context.Context, op func(context.Context) error) error {
			for {
				err := op(ctx)
				if !cdc.Is(err, cdc.Throttled) {
					return err
				}
				mu.Lock()
				retried++
				mu.Unlock()
			}
		},
	}
	items := int64(0)
	for index := range s.Total {
		part := s
		part.Index = index
		p, err := part.Run(ctx, ctx, checkpoint.PartProgress{})
		if items += p.Items; err != nil {
			t.Error(err)
		}
	}
	if items != n || len(want) != 0 || retried != 3 {
		t.Errorf("%d items, %d missing, %d retries", items, len(want), retried)
	}

	seven, err := attribute.Number("7")
	if err != nil {
		t.Fatal(err)
	}
	item, found, err := source.Get(ctx, "Orders", attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("customer7")}, {Name: "sk", Value: seven}}))
	if blob, _ := item.Get("blob"); err != nil || !found || len(blob.Text()) != 20_000 {
		t.Errorf("get: %v %v", found, err)
	}
	if _, found, err := source.Get(ctx, "Orders", attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("customer8")}, {Name: "sk", Value: seven}})); err != nil || found {
		t.Errorf("get of nothing: %v %v", found, err)
	}
}
