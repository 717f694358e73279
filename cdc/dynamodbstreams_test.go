package cdc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"
	"github.com/dynamodb-bigtable/replicator/attribute"
)

// wire is a service that answers with prepared text, over the real client.
type wire struct {
	answer func(op string, in map[string]any) (status int, body string)
	header http.Header // of the last request
	calls  atomic.Int32
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.calls.Add(1)
	w.header = r.Header.Clone()
	var in map[string]any
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &in)
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	status, text := w.answer(op, in)
	rw.Header().Set("Date", "Thu, 21 Nov 2024 08:00:00 GMT")
	rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, text)
}

func newWire(t testing.TB, answer func(op string, in map[string]any) (int, string)) (*wire, *dynamodbstreams.Client) {
	w := &wire{answer: answer}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	return w, newClient(server.URL)
}

func newClient(url string) *dynamodbstreams.Client {
	return dynamodbstreams.New(dynamodbstreams.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(url),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		}),
	})
}

// always answers every call with the same text.
func always(status int, body string) func(string, map[string]any) (int, string) {
	return func(string, map[string]any) (int, string) { return status, body }
}

// record returns the text of a record with the given new image; its other members are valid.
func record(number int, newImage string) string {
	return fmt.Sprintf(`{"eventName":"INSERT","dynamodb":{"ApproximateCreationDateTime":1732175999,"SequenceNumber":"%d",`+
		`"Keys":{"pk":{"S":"k"}},"NewImage":%s,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`, number, newImage)
}

func page(records ...string) string {
	return `{"NextShardIterator":"next","Records":[` + strings.Join(records, ",") + `]}`
}

func wantReason(t *testing.T, err error, reason Reason) {
	t.Helper()
	if !Is(err, reason) {
		t.Errorf("got %v, want reason %q", err, reason)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error holds item data: %v", err)
	}
}

// with returns an item with one more attribute.
func with(item attribute.Item, name string, value attribute.Value) attribute.Item {
	return attribute.NewItem(append([]attribute.Attribute{{Name: name, Value: value}}, item.Attributes()...))
}

// TestAnImageHasTheKeyOfItsRecord: some services compatible with DynamoDB send images without the
// key. It is added from Keys; otherwise the target would lack the key's columns. An image with
// another key belongs to another item, and applying it would lose both.
func TestAnImageHasTheKeyOfItsRecord(t *testing.T) {
	for _, c := range []struct{ name, old, new, keys, wantOld, wantNew string }{
		{"both lack it", `{"x":{"S":"1"}}`, `{"x":{"S":"2"}}`, `{"pk":{"S":"k"}}`, "pk x", "pk x"},
		{"one lacks the sort key", `{"pk":{"S":"k"},"sk":{"N":"1"}}`, `{"pk":{"S":"k"},"x":{"S":"2"}}`, `{"pk":{"S":"k"},"sk":{"N":"1"}}`, "pk sk", "pk sk x"},
		{"none lacks it", `{"pk":{"S":"k"}}`, `{"pk":{"S":"k"}}`, `{"pk":{"S":"k"}}`, "pk", "pk"},
		{"another new key", `{"pk":{"S":"k"}}`, `{"pk":{"S":"l"}}`, `{"pk":{"S":"k"}}`, "", ""},
		{"another old key", `{"pk":{"S":"l"}}`, `{"pk":{"S":"k"}}`, `{"pk":{"S":"k"}}`, "", ""},
	} {
		body := page(`{"eventName":"MODIFY","dynamodb":{"ApproximateCreationDateTime":1732175999,"SequenceNumber":"7","StreamViewType":"NEW_AND_OLD_IMAGES",` +
			`"Keys":` + c.keys + `,"OldImage":` + c.old + `,"NewImage":` + c.new + `}}`)
		_, client := newWire(t, always(200, body))
		got, err := NewSource(client, "arn").Read(t.Context(), "here")
		if c.wantNew == "" {
			wantRecord(t, err, "7")
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if o, n := names(got.Changes[0].Old), names(got.Changes[0].New); o != c.wantOld || n != c.wantNew {
			t.Errorf("%s: old image %q, new image %q", c.name, o, n)
		}
	}
}

func names(item attribute.Item) string {
	var all []string
	for _, a := range item.Attributes() {
		all = append(all, a.Name)
	}
	return strings.Join(all, " ")
}

func TestReadConvertsEveryType(t *testing.T) {
	text := must(attribute.MarshalItem(everyType()))
	body := page(
		`{"awsRegion":"eu-west-1","eventID":"1","eventName":"MODIFY","eventVersion":"1.1","eventSource":"aws:dynamodb","dynamodb":{`+
			`"ApproximateCreationDateTime":1.732175999E9,"Keys":{"pk":{"S":"k"},"q":{"N":"1.50"}},"NewImage":`+string(text)+`,"OldImage":{"pk":{"S":"k"}},`+
			`"SequenceNumber":"000000000000000000099","SizeBytes":7,"StreamViewType":"NEW_AND_OLD_IMAGES","Later":{"x":[1,{"y":null}]}}}`,
		`{"eventName":"REMOVE","dynamodb":{"ApproximateCreationDateTime":1732175998.9,"SequenceNumber":"100","Keys":{"pk":{"B":"AP8="}},`+
			`"OldImage":{"pk":{"B":"AP8="}},"NewImage":null},"userIdentity":{"Type":"Service","PrincipalId":"dynamodb.amazonaws.com"}}`,
		`{"eventName":"REMOVE","dynamodb":{"ApproximateCreationDateTime":1732175998,"SequenceNumber":"101","Keys":{"pk":{"S":"k"}}},`+
			`"userIdentity":{"Type":"Service","PrincipalId":"another.amazonaws.com"}}`)
	w, client := newWire(t, always(200, body))
	got, err := NewSource(client, "arn").Read(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	if got.Next != "next" || got.End || !got.At.Equal(time.Date(2024, 11, 21, 8, 0, 0, 0, time.UTC)) || len(got.Changes) != 3 {
		t.Fatalf("page %+v", got)
	}
	key := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("k")}})
	want := []Change{
		{Event: Modify, Sequence: must(ParseSequenceNumber("000000000000000000099")), Time: time.Unix(1732175999, 0), New: with(with(everyType(), "q", must(attribute.Number("1.5"))), "pk", attribute.String("k")), Old: with(key, "q", must(attribute.Number("1.5"))),
			Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("k")}, {Name: "q", Value: must(attribute.Number("1.5"))}})},
		{Event: Remove, Sequence: SequenceOf(100), Time: time.Unix(1732175998, 0), Expired: true,
			Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.Binary([]byte{0, 255})}}), Old: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.Binary([]byte{0, 255})}})},
		{Event: Remove, Sequence: SequenceOf(101), Time: time.Unix(1732175998, 0), Keys: key},
	}
	if !slices.EqualFunc(got.Changes, want, sameChange) {
		t.Errorf("got %+v", got.Changes)
	}
	if w.header.Get("Accept-Encoding") != "identity" {
		t.Errorf("compression is asked for: %q", w.header.Get("Accept-Encoding"))
	}
}

// A write of the service itself, for example by a replica of a global table, is no expiry.
// Otherwise a live item would count as one that is kept after its expiry, and the change would not
// be applied.
func TestOnlyARemoveIsAnExpiry(t *testing.T) {
	for _, event := range []string{"INSERT", "MODIFY", "REMOVE"} {
		body := page(`{"eventName":"` + event + `","dynamodb":{"ApproximateCreationDateTime":1732175999,"SequenceNumber":"1","Keys":{"pk":{"S":"k"}},"StreamViewType":"KEYS_ONLY"},` +
			`"userIdentity":{"Type":"Service","PrincipalId":"dynamodb.amazonaws.com"}}`)
		_, client := newWire(t, always(200, body))
		got, err := NewSource(client, "arn").Read(t.Context(), "here")
		if err != nil || len(got.Changes) != 1 || got.Changes[0].Expired != (event == "REMOVE") {
			t.Errorf("%s: %+v, %v", event, got.Changes, err)
		}
	}
}

// The generated client gives an attribute of unknown type the value of the previous attribute. The
// test runs first without ClientOptions, which shows that its cases trigger that fault, then with
// them.
func TestReadRefusesUnknownTypes(t *testing.T) {
	for name, image := range map[string]string{
		"in an image":        `{"a":{"S":"secret"},"b":{"FLOAT":"secret"}}`,
		"an object":          `{"a":{"S":"secret"},"b":{"V":{"x":["secret",{"S":"x"}]}}}`,
		"no type at all":     `{"a":{"S":"secret"},"b":{}}`,
		"a type, but null":   `{"a":{"S":"secret"},"b":{"S":null}}`,
		"in a map":           `{"m":{"M":{"a":{"S":"secret"},"b":{"FLOAT":"secret"}}}}`,
		"in a list":          `{"l":{"L":[{"S":"secret"},{"FLOAT":"secret"}]}}`,
		"deep in both":       `{"l":{"L":[{"M":{"x":{"L":[{"N":"1"},{"FLOAT":"2"}]}}}]}}`,
		"after nested types": `{"l":{"L":[{"M":{"x":{"L":[{"N":"1"}]}}}]},"z":{"FLOAT":"2"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, client := newWire(t, always(200, page(record(1, image))))
			if _, err := client.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("x")}); err != nil {
				t.Errorf("the client itself notices: %v; is strictProtocol still needed?", err)
			}
			_, err := NewSource(client, "arn").Read(t.Context(), "x")
			wantRecord(t, err, "1")
		})
	}
	for name, image := range map[string]string{
		"first of all": `{"a":{"FLOAT":"secret"}}`, "two types": `{"a":{"S":"secret","N":"1"}}`, "null": `{"a":null}`, "null in a list": `{"a":{"L":[null]}}`,
		"null in a set": `{"a":{"SS":[null,"secret"]}}`, "null among numbers": `{"a":{"NS":["1",null]}}`, "null among binaries": `{"a":{"BS":[null]}}`,
		"another JSON type": `{"a":{"S":["secret"]}}`, "text for truth": `{"a":{"BOOL":"secret"}}`, "not base64": `{"a":{"B":"%secret%"}}`,
		"not a number": `{"a":{"N":"secret"}}`, "not UTF-8": "{\"a\":{\"S\":\"secret\xff\"}}", "a set not of UTF-8": "{\"a\":{\"SS\":[\"secret\xff\"]}}",
		"a name not of UTF-8": "{\"m\":{\"M\":{\"secret\xff\":{\"S\":\"\"}}}}", "NULL that is false": `{"a":{"NULL":false}}`, "empty set": `{"a":{"SS":[]}}`,
		"member twice": `{"a":{"NS":["1","1.0"]}}`, "an empty image": `{}`,
		"a list for a map": `{"a":{"M":[]}}`, "name in a value": `{"a":{"M":{"secret":{"N":"x"}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, client := newWire(t, always(200, page(record(1, image))))
			_, err := NewSource(client, "arn").Read(t.Context(), "x")
			wantRecord(t, err, "1")
		})
	}
}

// wantRecord fails the test unless the error names the record at which the read stopped.
func wantRecord(t *testing.T, err error, sequence string) {
	t.Helper()
	wantReason(t, err, Unreadable)
	if record, ok := errors.AsType[*RecordError](err); !ok || record.Sequence != sequence {
		t.Errorf("%v does not name record %s", err, sequence)
	}
}

// The generated client takes an error inside a list for the list's end, and may read on as if
// nothing had happened.
func TestReadRefusesWhatIsNoAnswer(t *testing.T) {
	good := page(record(1, `{"a":{"S":"secret"}}`))
	for name, body := range map[string]string{
		"empty": "", "null": "null", "an empty object": "{}", "a list": "[]", "text": `"secret"`, "HTML": "<html>secret</html>",
		"other members": `{"message":"secret"}`, "null record": `{"Records":[null]}`, "cut off": good[:len(good)-9], "cut off early": good[:60],
		"a broken set":       page(record(1, `{"a":{"SS":["b" "secret"]}}`)),
		"a word in the list": `{"Records":[` + record(1, `{"a":{"S":"secret"}}`) + ` nonsense],"NextShardIterator":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, client := newWire(t, always(200, body))
			_, err := NewSource(client, "arn").Read(t.Context(), "x")
			wantReason(t, err, Malformed)
		})
	}
	_, client := newWire(t, always(200, "{}"))
	_, err := NewSource(client, "arn").Seek(t.Context(), "shard", Position{})
	wantReason(t, err, Malformed)
	_, err = NewSource(client, "arn").ListPage(t.Context(), "", "")
	wantReason(t, err, Malformed)
	_, client = newWire(t, always(200, `{"StreamDescription":{"Shards":[{"ParentShardId":"x"}]}}`))
	_, err = NewSource(client, "arn").ListPage(t.Context(), "", "")
	wantReason(t, err, Malformed)
}

// brokenList fails in the middle of a list, like a decoder that meets a wrong character.
type brokenList struct{ smithy.ShapeDeserializer }

func (brokenList) ReadList(*smithy.Schema) error             { return nil }
func (brokenList) ReadListItem(*smithy.Schema) (bool, error) { return false, errors.New("secret") }

type listOutput struct{ smithy.Deserializable }

func (listOutput) Deserialize(d smithy.ShapeDeserializer) error {
	return smithy.ReadList(d, nil, func() error { return nil })
}

func TestAnErrorInAListIsNotItsEnd(t *testing.T) {
	if err := (listOutput{}).Deserialize(brokenList{}); err != nil {
		t.Errorf("smithy itself notices: %v; is strictDeserializer.lost still needed?", err)
	}
	err := (&strictOutput{Deserializable: listOutput{}}).Deserialize(brokenList{})
	if _, ok := errors.AsType[*unclearAnswer](err); !ok || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// For any body, Read returns a page in order or its own error.
func FuzzRead(f *testing.F) {
	text := string(must(attribute.MarshalItem(everyType())))
	for _, body := range []string{"", "{}", page(), page(record(1, text), record(2, text)), `{"Records":[` + record(1, `{"a":{"SS":["b":]}}`) + `]}`,
		`{"Records":[` + record(1, `{"a":{"S":"x"}:}`) + `]}`, `{"Records":[{"dynamodb":{"Keys":{"a":{"FLOAT":1}}}}]}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := NewSource(benchClient(string(body)), "arn").Read(t.Context(), "x")
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok || page.Changes != nil {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		for _, c := range page.Changes {
			if back, err := UnmarshalChange(must(MarshalChange(c))); err != nil || !sameChange(back, c) {
				t.Fatalf("%+v is not kept: %v", c, err)
			}
		}
	})
}

func TestReadRefusesRecords(t *testing.T) {
	for name, change := range map[string]func(*types.Record){
		"no content":         func(r *types.Record) { r.Dynamodb = nil },
		"no keys":            func(r *types.Record) { r.Dynamodb.Keys = nil },
		"no number":          func(r *types.Record) { r.Dynamodb.SequenceNumber = nil },
		"empty number":       func(r *types.Record) { r.Dynamodb.SequenceNumber = aws.String("") },
		"not a number":       func(r *types.Record) { r.Dynamodb.SequenceNumber = aws.String("secret") },
		"no time":            func(r *types.Record) { r.Dynamodb.ApproximateCreationDateTime = nil },
		"no event":           func(r *types.Record) { r.EventName = "" },
		"unknown event":      func(r *types.Record) { r.EventName = "TRUNCATE" },
		"no new image":       func(r *types.Record) { r.Dynamodb.NewImage = nil },
		"no old image":       func(r *types.Record) { r.Dynamodb.OldImage = nil },
		"removed, yet there": func(r *types.Record) { r.EventName = types.OperationTypeRemove },
		"nil value":          func(r *types.Record) { r.Dynamodb.NewImage["a"] = nil },
		"unknown member":     func(r *types.Record) { r.Dynamodb.NewImage["a"] = &types.UnknownUnionMember{Tag: "secret"} },
	} {
		item := func() map[string]types.AttributeValue {
			return map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "secret"}}
		}
		r := types.Record{EventName: types.OperationTypeModify, Dynamodb: &types.StreamRecord{
			ApproximateCreationDateTime: aws.Time(time.Unix(1, 0)), SequenceNumber: aws.String("7"), StreamViewType: types.StreamViewTypeNewAndOldImages,
			Keys: item(), OldImage: item(), NewImage: item(),
		}}
		if changes, err := convertRecords([]types.Record{r}); err != nil || len(changes) != 1 {
			t.Fatalf("the sound record is refused: %v", err)
		}
		change(&r)
		if _, err := convertRecords([]types.Record{r}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// H17, H18: the last page may carry changes, and an empty page ends nothing.
func TestH17H18EndOfShard(t *testing.T) {
	for body, want := range map[string]struct {
		changes int
		end     bool
	}{
		page():           {0, false},
		`{"Records":[]}`: {0, true},
		`{"Records":[` + record(1, `{"a":{"S":"x"}}`) + `]}`:                          {1, true},
		`{"Records":[` + record(1, `{"a":{"S":"x"}}`) + `],"NextShardIterator":null}`: {1, true},
		page(record(1, `{"a":{"S":"x"}}`)):                                            {1, false},
	} {
		_, client := newWire(t, always(200, body))
		got, err := NewSource(client, "arn").Read(t.Context(), "x")
		if err != nil || len(got.Changes) != want.changes || got.End != want.end || got.End != (got.Next == "") {
			t.Errorf("%s: %d changes, end %t, next %q, %v", body, len(got.Changes), got.End, got.Next, err)
		}
	}
}

// H21, H22, H53: each error of the service has one meaning for the caller, and is not retried here.
func TestErrorsHaveReasons(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   Reason
	}{
		{400, "ExpiredIteratorException", Expired}, {400, "TrimmedDataAccessException", Trimmed}, {400, "ResourceNotFoundException", NotFound},
		{400, "LimitExceededException", Throttled}, {400, "ProvisionedThroughputExceededException", Throttled}, {400, "ThrottlingException", Throttled},
		{400, "Throttling", Throttled}, {400, "RequestLimitExceeded", Throttled}, {429, "Whatever", Throttled}, {408, "Whatever", Unavailable},
		{400, "AccessDeniedException", Denied}, {400, "UnrecognizedClientException", Denied}, {400, "ExpiredTokenException", Denied},
		{403, "ExpiredToken", Denied}, {400, "InvalidSignatureException", Denied}, {403, "Whatever", Denied}, {400, "MissingAuthenticationTokenException", Denied},
		{500, "InternalServerError", Unavailable}, {503, "ServiceUnavailable", Unavailable}, {502, "Whatever", Unavailable},
		{400, "ValidationException", Malformed}, {400, "SerializationException", Malformed}, {404, "UnknownOperationException", Malformed},
	} {
		body := fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"why"}`, c.code)
		w, client := newWire(t, always(c.status, body))
		source := NewSource(client, "arn")
		_, listed := source.ListPage(t.Context(), "", "")
		_, sought := source.Seek(t.Context(), "shard", Position{})
		_, read := source.Read(t.Context(), "x")
		for op, err := range map[string]error{opDescribeStream: listed, opGetShardIterator: sought, opGetRecords: read} {
			wantReason(t, err, c.want)
			if e, ok := errors.AsType[*Error](err); !ok || e.Op != op || !strings.Contains(e.Error(), c.code) {
				t.Errorf("%s: %v", op, err)
			}
		}
		if n := w.calls.Load(); n != 3 {
			t.Errorf("%s: %d requests for 3 calls", c.code, n)
		}
	}
	_, client := newWire(t, always(502, "<html>bad gateway</html>"))
	_, err := NewSource(client, "arn").Read(t.Context(), "x")
	wantReason(t, err, Unavailable)
}

func TestErrorsOfNetworkCredentialsAndContext(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := NewSource(newClient(server.URL), "arn").Read(t.Context(), "x")
	wantReason(t, err, Unavailable)

	broken := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(rw, `{"Records":[`)
	}))
	defer broken.Close()
	_, err = NewSource(newClient(broken.URL), "arn").Read(t.Context(), "x")
	wantReason(t, err, Unavailable)

	for name, cause := range map[string]error{
		"no provider has any": errors.New("no credentials found"),
		"refused by STS":      &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: &smithy.GenericAPIError{Code: "Throttling"}},
	} {
		client := dynamodbstreams.New(dynamodbstreams.Options{Region: "eu-west-1", BaseEndpoint: aws.String(server.URL),
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, cause })})
		_, err = NewSource(client, "arn").Read(t.Context(), "x")
		if !Is(err, Denied) || !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
	}

	stopped := errors.New("the lease ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, client := newWire(t, func(string, map[string]any) (int, string) {
		cancel(stopped)
		return 500, ""
	})
	_, err = NewSource(client, "arn").Read(ctx, "x")
	if !Is(err, Unavailable) || !errors.Is(err, stopped) {
		t.Errorf("a context's end: %v", err)
	}
}

func TestSeekAsksForThePosition(t *testing.T) {
	var asked map[string]any
	_, client := newWire(t, func(_ string, in map[string]any) (int, string) {
		asked = in
		return 200, `{"ShardIterator":"it"}`
	})
	source := NewSource(client, "arn")
	for _, c := range []struct {
		from Position
		want string
	}{
		{Position{}, "map[ShardId:s ShardIteratorType:TRIM_HORIZON StreamArn:arn]"},
		{Position{SequenceOf(7)}, "map[SequenceNumber:7 ShardId:s ShardIteratorType:AFTER_SEQUENCE_NUMBER StreamArn:arn]"},
		{Position{must(ParseSequenceNumber("000000000000000000935"))}, "map[SequenceNumber:000000000000000000935 ShardId:s ShardIteratorType:AFTER_SEQUENCE_NUMBER StreamArn:arn]"},
	} {
		it, err := source.Seek(t.Context(), "s", c.from)
		if err != nil || it != "it" || fmt.Sprint(asked) != c.want {
			t.Errorf("%q, %v, asked %v", it, err, asked)
		}
	}
}

// The request's body must not offer WriteTo (see wholeRequests).
func TestRequestsAreSentWhole(t *testing.T) {
	check := httpClientFunc(func(r *http.Request) (*http.Response, error) {
		if _, ok := r.Body.(io.WriterTo); ok || r.Body == nil {
			t.Error("the body has a WriteTo")
		}
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"Limit":1000`) {
			t.Errorf("sent %s", body)
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(page()))}, nil
	})
	client := dynamodbstreams.New(dynamodbstreams.Options{Region: "eu-west-1", HTTPClient: check,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		})}, ClientOptions)
	if _, err := NewSource(client, "arn").Read(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}

type httpClientFunc func(*http.Request) (*http.Response, error)

func (f httpClientFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }
