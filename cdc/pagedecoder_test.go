package cdc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/attribute/attributetest"
)

// plainly reads a page without this package's decoder: the client decodes it strictly, and its
// types are converted.
func plainly(body string) (Page, error) {
	in := &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("x")}
	out, err := ask(context.Background(), benchClient(body).GetRecords, in)
	if err != nil {
		return Page{}, failed(context.Background(), opGetRecords, err)
	}
	return pageOf(out)
}

// why returns the cause of an error of Read. Only Read itself knows the record at which the client
// failed.
func why(err error) string {
	if record, ok := errors.AsType[*RecordError](err); ok {
		return record.Err.Error()
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == Malformed {
		return e.Err.Error()
	}
	return err.Error()
}

// differ describes how Read's result for a body differs from the client's; "" if it does not.
func differ(body string) string {
	got, err := NewSource(benchClient(body), "arn").Read(context.Background(), "x")
	want, plain := plainly(body)
	switch {
	case (err == nil) != (plain == nil) || err != nil && why(err) != why(plain):
		return fmt.Sprintf("error %v, plainly %v", err, plain)
	case got.Next != want.Next || got.End != want.End || len(got.Changes) != len(want.Changes):
		return fmt.Sprintf("next %q, end %t, %d changes; plainly %q, %t, %d", got.Next, got.End, len(got.Changes), want.Next, want.End, len(want.Changes))
	}
	for i := range want.Changes {
		if a, b := got.Changes[i], want.Changes[i]; !sameChange(a, b) || a.Sequence != b.Sequence || a.Time != b.Time {
			return fmt.Sprintf("change %d is %+v, plainly %+v", i, a, b)
		}
	}
	return ""
}

// oddBodies returns pages that are unusual outside the images.
func oddBodies() (bodies []string) {
	good := record(1, `{"a":{"S":"x"}}`)
	replace := func(old, by string) { bodies = append(bodies, page(strings.Replace(good, old, by, 1))) }
	for _, at := range []string{"1.732175999E9", "1732175998.9", "1732175998.9999999", "-1.5", "0", "1e400", `"1732175999"`, "01", "1.", ".5", "1e", "null", "-0", "253402300800", "1e18"} {
		replace("1732175999", at)
	}
	for _, event := range []string{"MODIFY", "REMOVE", "TRUNCATE", "", `INSER\u0054`} {
		replace("INSERT", event)
	}
	for _, more := range []string{`"SizeBytes":7,`, `"SizeBytes":1.5,`, `"SizeBytes":"7",`, `"SizeBytes":9223372036854775808,`, `"Later":{"x":[1,{"y":null}]},`, `"Later":[1,],`,
		`"Later":01,`, `"Later":-,`, `"Keys":{"pk":{"S":"l"}},`, `"OldImage":null,`, `"OldImage":{"a":{"S":"old"}},`, `"SequenceNumber":"7",`, `"StreamViewType":5,`, `"keys":{},`} {
		replace(`"SequenceNumber"`, more+`"SequenceNumber"`)
	}
	for _, more := range []string{`"userIdentity":{"Type":"Service","PrincipalId":"dynamodb.amazonaws.com"},`, `"userIdentity":null,`, `"userIdentity":{"Type":1},`, `"eventID":1,`, `"eventID":null,`,
		`"awsRegion":"x",`, `"eventName":"MODIFY",`, `"dynamodb":{},`, `"dynamodb":null,`} {
		replace(`"eventName"`, more+`"eventName"`)
	}
	replace(`"SequenceNumber":"1"`, `"SequenceNumber":"000000000000000000099"`)
	replace(`"SequenceNumber":"1"`, `"SequenceNumber":"x"`)
	whole := page(good, record(2, `{"b":{"S":"y"}}`))
	for end := range whole {
		bodies = append(bodies, whole[:end])
	}
	return append(bodies, whole, whole+" \n", whole+"x", whole+whole, "{}", "[]", "null", page(), `{"Records":[]}`, `{"Records":null}`, `{"Records":[null]}`, `{"Records":[{}]}`,
		`{"NextShardIterator":"n"}`, `{"NextShardIterator":null,"Records":[`+good+`]}`, `{"NextShardIterator":""}`, `{"NextShardIterator":"a","NextShardIterator":"b"}`,
		`{"Records":[],"Records":[`+good+`]}`, `{"Records":[`+good+`,]}`, `{"Records":[`+good+good+`]}`, `{"records":[`+good+`],"NextShardIterator":"n"}`)
}

// For any text, Read's result equals the client's, whether this package's decoder handles the text
// or leaves it to the client.
func TestPagesAreDecodedAsTheClientDecodesThem(t *testing.T) {
	bodies := oddBodies()
	for _, image := range attributetest.OddImages() {
		bodies = append(bodies, page(record(1, image)), page(record(1, `{"a":{"S":"x"}}`), record(2, image)))
	}
	for _, body := range bodies {
		if d := differ(body); d != "" {
			t.Errorf("%.300s: %s", body, d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var records []string
		for i, item := range rapid.SliceOfN(items(1), 0, 3).Draw(t, "images") {
			records = append(records, record(i+1, string(must(attribute.MarshalItem(item)))))
		}
		body := page(records...)
		if text, ok := decodePage(body, false); !ok || len(text.Changes) != len(records) {
			t.Fatalf("what the service writes is left to the client: %s", body)
		}
		if d := differ(body); d != "" {
			t.Fatalf("%s: %s", body, d)
		}
	})
}

// Without old images, a page that can be read whole has the same changes otherwise. The source may
// decode the images, or leave the page to the client, or be another one.
func TestChangesWithoutOldImages(t *testing.T) {
	modified := strings.Replace(record(1, `{"a":{"S":"new"}}`), "INSERT", "MODIFY", 1)
	with := func(old string) string {
		return strings.Replace(modified, `"SequenceNumber"`, `"OldImage":`+old+`,"SequenceNumber"`, 1)
	}
	bodies := append(oddBodies(), page(modified), page(with(`{"a":{"S":"old"},"b":{"M":{"c":{"L":[{"N":"1"}]}}}}`)), page(with(`{"a":{"S":"old"},"a":{"S":"twice"}}`)), page(with(`{"a":[}`)))
	read := 0
	for _, body := range bodies {
		whole, err := NewSource(benchClient(body), "arn").Read(t.Context(), "x")
		for _, source := range []Source{WithoutOldImages(NewSource(benchClient(body), "arn")), WithoutOldImages(struct{ Source }{NewSource(benchClient(body), "arn")})} {
			got, failed := source.Read(t.Context(), "x")
			if err != nil {
				continue // a fault in an old image may stay unknown
			}
			if failed != nil || got.Next != whole.Next || got.End != whole.End || len(got.Changes) != len(whole.Changes) {
				t.Fatalf("%.300s: %+v, %v; with old images %+v", body, got, failed, whole)
			}
			for i, c := range whole.Changes {
				if c.Old.Exists() {
					read++
				}
				if c.Old = (attribute.Item{}); !sameChange(got.Changes[i], c) || got.Changes[i].Sequence != c.Sequence || got.Changes[i].Time != c.Time {
					t.Errorf("%.300s: change %d is %+v, with old images %+v", body, i, got.Changes[i], c)
				}
			}
		}
	}
	if read < 4 {
		t.Errorf("%d old images were left out", read)
	}
	// The view still says which images a record must have.
	if _, err := WithoutOldImages(NewSource(benchClient(page(modified)), "arn")).Read(t.Context(), "x"); err == nil {
		t.Error("a record without its old image is accepted")
	}
}

// They agree after any change of a page.
func FuzzDecodePage(f *testing.F) {
	for _, body := range oddBodies() {
		f.Add(body)
	}
	for _, image := range attributetest.OddImages() {
		f.Add(page(record(1, image)))
	}
	f.Add(page(record(1, string(must(attribute.MarshalItem(everyType()))))))
	f.Fuzz(func(t *testing.T, body string) {
		if d := differ(body); d != "" {
			t.Fatal(d)
		}
	})
}

// A page in the service's form, with escapes, costs less than one allocation per record, because no
// value is allocated separately.
func TestAPageIsDecodedWithoutAnAllocationForEachRecord(t *testing.T) {
	for _, shape := range shapes[:2] {
		body := strings.ReplaceAll(benchPage(shape.records, shape.item), "xxxxxxxxxx", `xx\"\u00e9xx`)
		allocations := testing.AllocsPerRun(3, func() {
			if _, ok := decodePage(body, false); !ok {
				t.Fatalf("%s: left to the client", shape.name)
			}
		})
		if allocations > float64(shape.records) {
			t.Errorf("%s: %.1f allocations a record", shape.name, allocations/float64(shape.records))
		}
	}
}
