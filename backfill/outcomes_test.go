package backfill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Every member of a description has its own member of the answer. A table without a billing mode is
// provisioned.
func TestTheWholeDescriptionOfATable(t *testing.T) {
	const key = `"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}]`
	primary := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}
	for body, want := range map[string]Description{
		`"TableName":"Orders","TableArn":"arn","TableId":"id","TableStatus":"ACTIVE","LatestStreamArn":"stream","LatestStreamLabel":"label","ItemCount":7,"TableSizeBytes":700,
			"CreationDateTime":1000,"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST"},"ProvisionedThroughput":{"ReadCapacityUnits":30,"WriteCapacityUnits":40},
			"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"},"SSEDescription":{"SSEType":"KMS","KMSMasterKeyArn":"key"},
			"Replicas":[{"RegionName":"us-east-1"},{"RegionName":"eu-west-1"}]`: {Name: "Orders", ARN: "arn", ID: "id", Status: "ACTIVE", PrimaryKey: primary, StreamARN: "stream",
			StreamLabel: "label", StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", Items: 7, Bytes: 700, CreatedAt: time.Unix(1000, 0), BillingMode: "PAY_PER_REQUEST",
			ReadCapacity: 30, KeyARN: "key", Replicas: []string{"eu-west-1", "us-east-1"}, At: day},
		`"TableName":"Orders","BillingModeSummary":{}`: {Name: "Orders", PrimaryKey: primary, BillingMode: "PROVISIONED", At: day},
		`"TableName":"Orders"`:                         {Name: "Orders", PrimaryKey: primary, BillingMode: "PROVISIONED", At: day},
	} {
		got, err := tables(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", day.Format(http.TimeFormat))
			answer(200, `{"Table":{`+body+`,`+key+`}}`)(w, r)
		})).Describe(t.Context(), "Orders")
		got.At, got.CreatedAt = got.At.UTC(), got.CreatedAt.UTC()
		if want.CreatedAt = want.CreatedAt.UTC(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %+v, want\n%+v", err, got, want)
		}
	}
}

// The client of the program sends every request once, keeps as many connections as it reads
// segments, and bounds each request. It reads only what it asked for, and nothing compressed.
func TestTheOptionsOfTheClient(t *testing.T) {
	o := dynamodb.Options{HTTPClient: awshttp.NewBuildableClient(), EnableAcceptEncodingGzip: true, RetryMaxAttempts: 7}
	ClientOptions(&o)
	ClientOptions(&o) // has no further effect
	plain, ok := o.HTTPClient.(plainBody)
	if !ok {
		t.Fatalf("%T", o.HTTPClient)
	}
	inner, ok := plain.client.(*awshttp.BuildableClient)
	if !ok {
		t.Fatalf("%T", plain.client)
	}
	if transport := inner.GetTransport(); inner.GetTimeout() != 30*time.Second || transport.MaxIdleConnsPerHost != 64 || transport.MaxIdleConns != 128 {
		t.Errorf("%s, %d, %d", inner.GetTimeout(), transport.MaxIdleConnsPerHost, transport.MaxIdleConns)
	}
	if _, ok := o.Retryer.(aws.NopRetryer); !ok || o.RetryMaxAttempts != 1 || o.EnableAcceptEncodingGzip {
		t.Errorf("%T, %d, %v", o.Retryer, o.RetryMaxAttempts, o.EnableAcceptEncodingGzip)
	}
}

// An error names the operation that failed.
func TestAnErrorOfACanaryNamesItsOperation(t *testing.T) {
	w := NewCanaryWriter(client(t, answer(http.StatusInternalServerError, `{}`)))
	key := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("_cdc")}})
	for op, err := range map[string]error{"PutItem": w.Put(t.Context(), "Orders", key), "DeleteItem": w.Delete(t.Context(), "Orders", key)} {
		var failed *cdc.Error
		if !errors.As(err, &failed) || failed.Op != op || failed.Reason != cdc.Unavailable {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// A body that looks like a page is no page if the status says otherwise, and a page has each of its
// members once and nothing after them.
func TestWhatIsNoPage(t *testing.T) {
	const page = `{"Items":[{"pk":{"S":"a"}}],"Count":1,"ScannedCount":1}`
	for _, status := range []int{300, 400, 500} {
		if got, err := tables(t, answer(status, page)).Scan(t.Context(), "T", 0, 1, attribute.Item{}, 0); err == nil {
			t.Errorf("status %d: %+v", status, got)
		}
	}
	for _, text := range []string{page + `{}`, page + `x`, `{"Items":[],"Count":0,"Count":0}`, `{"Items":[],"Count":0,"ConsumedCapacity":{"CapacityUnits":1},"ConsumedCapacity":{"CapacityUnits":2}}`,
		`{"Items":[],"LastEvaluatedKey":{"pk":{"S":"a"}},"Count":0,"LastEvaluatedKey":{"pk":{"S":"b"}}}`} {
		if got, ok := decodeScan(text); ok {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got, ok := decodeScan(page); !ok || len(got.Items) != 1 {
		t.Errorf("%+v, %v", got, ok)
	}
}

// The split points of a table are distinct, at most 99, and the sample is left as it was.
func TestSplitKeysOfALargeSample(t *testing.T) {
	var sample []string
	for i := range 20_000 {
		sample = append(sample, fmt.Sprintf("%05d", (i*7919)%20_000))
	}
	before := slices.Clone(sample)
	splits := SplitKeys(sample, 0, 0)
	if len(splits) != 99 || splits[0] != "00200" || splits[98] != "19800" || !slices.Equal(sample, before) {
		t.Errorf("%d splits: %q", len(splits), splits)
	}
	if got := SplitKeys(slices.Repeat([]string{"b", "a"}, 500), 3*tabletBytes, 0); !slices.Equal(got, []string{"b"}) {
		t.Errorf("of two keys: %q", got)
	}
}

// The rate counts the last five minutes alone, however often items are added. A remaining time is
// counted from the first sample.
func TestARateForgetsWhatIsOld(t *testing.T) {
	var m Meter
	at, items := time.Hour, int64(0)
	add := func(lasts time.Duration, each int64) {
		for end := at + lasts; at < end; at += 500 * time.Millisecond {
			m.Add(at, items)
			items += each
		}
	}
	add(30*time.Second, 5)
	if eta := m.ETA(1000); eta != 0 || m.Rate() != 10 {
		t.Errorf("after half a minute: %s at %v", eta, m.Rate())
	}
	add(10*time.Minute, 5)
	add(RateWindow+time.Second, 0)
	if rate := m.Rate(); rate != 0 {
		t.Errorf("after five idle minutes: %v", rate)
	}
	if len(m.samples) > 602 {
		t.Errorf("%d samples", len(m.samples))
	}
	for seconds, known := range map[int64]bool{86_400_000: true, 86_400_001: false} {
		if eta, got := ETA(1_000_000, 1_000_000+seconds, 1, time.Hour); got != known || known && eta != 1000*24*time.Hour {
			t.Errorf("%d seconds: %s, %v", seconds, eta, got)
		}
	}
}

// Texts change their form exactly where the next form begins.
func TestFormsOfText(t *testing.T) {
	for d, want := range map[time.Duration]string{10*time.Minute - time.Second: "9m59s", 10 * time.Minute: "10m", time.Hour: "1h00m", 100 * time.Hour: "4d04h", 9999 * time.Millisecond: "9.9s", 10 * time.Second: "10s"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	if got := (Report{Table: "Orders", Items: 2, Done: true, Rate: -1, Lag: -1, Headroom: -1}).String(); got != "Orders  2 items copied" {
		t.Error(got)
	}
	for n, want := range map[int]int{9: 9, 10: 10, 11: 10} {
		var out bytes.Buffer
		r := NewRenderer(&out, func() int { return 80 })
		if err := r.Show(0, slices.Repeat([]Report{{Table: "Ördërs", Rate: -1, Lag: -1, Headroom: -1}}, n)); err != nil {
			t.Error(err)
		}
		if lines := strings.Split(out.String(), "\n"); len(lines) != want || strings.Contains(lines[len(lines)-1], "more tables") != (n > 10) {
			t.Errorf("%d tables: %q", n, lines)
		}
	}
	if got := shorten("ÄÖÜ", 3); got != "ÄÖÜ" {
		t.Error(got)
	}
}

// windowed is a source of pages of changes.
type windowed struct{ pages int }

func (w *windowed) Read(_ context.Context, _, _ int, after json.RawMessage, _ int) (Page, error) {
	n := 0
	if after != nil {
		_, _ = fmt.Sscan(string(after), &n)
	}
	page := Page{Changes: []cdc.Change{{Event: cdc.Modify}, {Event: cdc.Remove}}, Bytes: 10, Consumed: 1}
	if n+1 < w.pages {
		page.Next = []byte(fmt.Sprint(n + 1))
	}
	return page, nil
}

// A part of changes is written, counted and saved as one of items. What a save has stored is not
// saved again when the part fails.
func TestAPartOfChanges(t *testing.T) {
	err := virtual.NewWorld(1, day, false).Run(time.Hour, func(ctx context.Context) {
		written, copied := 0, 0
		var saved []checkpoint.PartProgress
		p := Part{Index: 0, Total: 1, Source: &windowed{pages: 4},
			Write: func(ctx context.Context, page Page, _ time.Time) error {
				if written += len(page.Changes); written == 8 {
					return errors.New("no table")
				}
				return task.Sleep(ctx, 2*time.Second)
			},
			Save:   func(_ context.Context, to checkpoint.PartProgress) error { saved = append(saved, to); return nil },
			Events: PartEvents{Copied: func(n int) { copied += n }},
		}
		to, err := p.Run(ctx, ctx, checkpoint.PartProgress{Items: 100})
		if err == nil || written != 8 || copied != 6 || to.Items != 106 || to.Bytes != 30 || to.Units != 3 || to.Rate != 1 {
			t.Errorf("%v, written %d, copied %d, %+v", err, written, copied, to)
		}
		if len(saved) != 3 || !reflect.DeepEqual(saved[2], to) || saved[0].Rate != 1 {
			t.Errorf("saved %+v", saved)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A page has as many items as a second allows, within bounds. A wait in several portions counts as
// a whole.
func TestPagesAndWaitsOfALimit(t *testing.T) {
	for rate, want := range map[float64]int{1: 25, 24.9: 25, 26: 26, 10_000: 10_000, 10_001: 0} {
		if got := pageOf(rate); got != want {
			t.Errorf("%v a second: %d, want %d", rate, got, want)
		}
	}
	err := virtual.NewWorld(1, day, false).Run(time.Hour, func(ctx context.Context) {
		limit, began := NewThrottle(10), task.Mono(ctx)
		waited, err := limit.Take(ctx, ctx, 40)
		if took := task.Mono(ctx) - began; err != nil || waited != took || took < 2900*time.Millisecond || took > 3100*time.Millisecond {
			t.Errorf("%v: waited %s of %s", err, waited, took)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
