package dynamodbtest_test

import (
	"crypto/md5"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// scanAll follows the pages of a scan and returns the items and the sizes of the pages.
func (f *fixture) scanAll(in *dynamodb.ScanInput) (items []attrs, pages []int) {
	f.t.Helper()
	request := *in
	for {
		out, err := f.db.Scan(f.ctx, &request)
		f.noError(err)
		items = append(items, out.Items...)
		pages = append(pages, len(out.Items))
		if out.LastEvaluatedKey == nil {
			return items, pages
		}
		request.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func pks(items []attrs) []string {
	var keys []string
	for _, it := range items {
		keys = append(keys, it["pk"].(*types.AttributeValueMemberS).Value)
	}
	return keys
}

func TestScanOrder(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "N")
	var want []string
	for i := range 300 {
		pk := "k" + strconv.Itoa(i)
		want = append(want, pk)
		for _, sk := range []string{"10", "-1", "9"} {
			f.put("Orders", attrs{"pk": str(pk), "sk": num(sk)})
		}
	}
	slices.SortFunc(want, func(a, b string) int {
		x, y := md5.Sum([]byte(a)), md5.Sum([]byte(b))
		return strings.Compare(string(x[:]), string(y[:]))
	})
	for _, limit := range []*int32{nil, ptr(int32(7)), ptr(int32(1))} {
		items, _ := f.scanAll(&dynamodb.ScanInput{TableName: ptr("Orders"), Limit: limit})
		if len(items) != 900 {
			t.Fatalf("%d items", len(items))
		}
		for i, it := range items {
			sk := it["sk"].(*types.AttributeValueMemberN).Value
			if pk := pks(items[i : i+1])[0]; pk != want[i/3] || sk != []string{"-1", "9", "10"}[i%3] {
				t.Fatalf("item %d is %s %s, want pk %s", i, pk, sk, want[i/3])
			}
		}
	}
}

func TestScanPageIsOneMegabyte(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	for i := range 10 {
		// Each item counts 2 + 1 + 3 + n bytes; four make 1 MB exactly.
		f.put("Orders", attrs{"pk": str(strconv.Itoa(i)), "big": str(strings.Repeat("x", 262144-6))})
	}
	_, pages := f.scanAll(&dynamodb.ScanInput{TableName: ptr("Orders")})
	if diff := cmp.Diff([]int{4, 4, 2}, pages); diff != "" {
		t.Error(diff)
	}
	_, pages = f.scanAll(&dynamodb.ScanInput{TableName: ptr("Orders"), Limit: ptr(int32(5))})
	if diff := cmp.Diff([]int{4, 4, 2}, pages); diff != "" {
		t.Error(diff)
	}
	// A full page has a last key even if nothing follows.
	_, pages = f.scanAll(&dynamodb.ScanInput{TableName: ptr("Orders"), Limit: ptr(int32(2))})
	if diff := cmp.Diff([]int{2, 2, 2, 2, 2, 0}, pages); diff != "" {
		t.Error(diff)
	}
}

func TestScanSegments(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.putKeys("Orders", "k", 500)
	whole, _ := f.scanAll(&dynamodb.ScanInput{TableName: ptr("Orders")})
	for _, total := range []int32{1, 2, 3, 7, 1000} {
		var joined []string
		for segment := range total {
			items, _ := f.scanAll(&dynamodb.ScanInput{TableName: ptr("Orders"), Segment: &segment, TotalSegments: &total, Limit: ptr(int32(40))})
			joined = append(joined, pks(items)...)
		}
		if diff := cmp.Diff(pks(whole), joined); diff != "" {
			t.Errorf("%d segments: %s", total, diff)
		}
	}
}

func TestScanRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.putKeys("Orders", "k", 50)
	items, _ := f.scanAll(&dynamodb.ScanInput{TableName: ptr("Orders")})
	first := items[0]
	cases := []struct {
		in   dynamodb.ScanInput
		want string
	}{
		{dynamodb.ScanInput{Segment: ptr(int32(0))}, "TotalSegments parameter is required"},
		{dynamodb.ScanInput{TotalSegments: ptr(int32(2))}, "Segment parameter is required"},
		{dynamodb.ScanInput{Segment: ptr(int32(2)), TotalSegments: ptr(int32(2))}, "zero-based"},
		{dynamodb.ScanInput{Segment: ptr(int32(0)), TotalSegments: ptr(int32(1000001))}, "totalSegments"},
		{dynamodb.ScanInput{Segment: ptr(int32(1)), TotalSegments: ptr(int32(2)), ExclusiveStartKey: first}, "correct Segment"},
		{dynamodb.ScanInput{ExclusiveStartKey: attrs{"x": str("a")}}, "starting key is invalid"},
		{dynamodb.ScanInput{Limit: ptr(int32(0))}, "limit"},
		{dynamodb.ScanInput{Select: "SPECIFIC_ATTRIBUTES"}, "SPECIFIC_ATTRIBUTES"},
		{dynamodb.ScanInput{Select: "ALL_PROJECTED_ATTRIBUTES"}, "IndexName"},
		{dynamodb.ScanInput{Select: "COUNT", ProjectionExpression: ptr("pk")}, "choosing to get only the Count"},
		{dynamodb.ScanInput{Select: "SOME"}, "select"},
		{dynamodb.ScanInput{FilterExpression: ptr("pk = :v")}, "not defined"},
		{dynamodb.ScanInput{ReturnConsumedCapacity: "SOME"}, "returnConsumedCapacity"},
		{dynamodb.ScanInput{AttributesToGet: []string{"pk", "pk"}}, "Duplicate value in attribute name"},
	}
	for _, c := range cases {
		c.in.TableName = ptr("Orders")
		_, err := f.db.Scan(f.ctx, &c.in)
		f.wantCode(err, "ValidationException")
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestScanFilterAndCount(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	for i := range 30 {
		f.put("Orders", attrs{"pk": str(strconv.Itoa(i)), "v": num(strconv.Itoa(i)), "w": str("x")})
	}
	out, err := f.db.Scan(f.ctx, &dynamodb.ScanInput{
		TableName: ptr("Orders"), FilterExpression: ptr("v < :ten"), ProjectionExpression: ptr("v"), ExpressionAttributeValues: attrs{":ten": num("10")},
	})
	f.noError(err)
	if out.Count != 10 || out.ScannedCount != 30 || len(out.Items) != 10 || len(out.Items[0]) != 1 {
		t.Errorf("count %d of %d, %d items", out.Count, out.ScannedCount, len(out.Items))
	}
	// The limit counts the evaluated items, not those that pass the filter.
	out, err = f.db.Scan(f.ctx, &dynamodb.ScanInput{
		TableName: ptr("Orders"), FilterExpression: ptr("v < :zero"), Limit: ptr(int32(5)), ExpressionAttributeValues: attrs{":zero": num("0")}, Select: "COUNT",
	})
	f.noError(err)
	if out.Count != 0 || out.ScannedCount != 5 || out.LastEvaluatedKey == nil || out.Items != nil {
		t.Errorf("count %d of %d, last key %v", out.Count, out.ScannedCount, out.LastEvaluatedKey)
	}
}

func TestQuery(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "N")
	for i := range 20 {
		for _, pk := range []string{"a", "b"} {
			f.put("Orders", attrs{"pk": str(pk), "sk": num(strconv.Itoa(i - 10)), "even": &types.AttributeValueMemberBOOL{Value: i%2 == 0}})
		}
	}
	query := func(in dynamodb.QueryInput, values attrs) (sks []string, pages int) {
		t.Helper()
		in.TableName, in.ExpressionAttributeValues = ptr("Orders"), values
		for {
			out, err := f.db.Query(f.ctx, &in)
			f.noError(err)
			pages++
			for _, it := range out.Items {
				sks = append(sks, it["sk"].(*types.AttributeValueMemberN).Value)
			}
			if out.LastEvaluatedKey == nil {
				return sks, pages
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	}
	all, _ := query(dynamodb.QueryInput{KeyConditionExpression: ptr("pk = :pk")}, attrs{":pk": str("a")})
	if len(all) != 20 || all[0] != "-10" || all[19] != "9" {
		t.Errorf("got %v", all)
	}
	got, pages := query(dynamodb.QueryInput{
		KeyConditionExpression: ptr("pk = :pk AND sk BETWEEN :lo AND :hi"), ScanIndexForward: ptr(false), Limit: ptr(int32(2)), FilterExpression: ptr("even = :yes"),
	}, attrs{":pk": str("b"), ":lo": num("-2"), ":hi": num("2"), ":yes": &types.AttributeValueMemberBOOL{Value: true}})
	if diff := cmp.Diff([]string{"2", "0", "-2"}, got); diff != "" || pages != 3 {
		t.Errorf("%d pages: %s", pages, diff)
	}
	for text, want := range map[string]string{
		"sk = :lo":                          "missed key schema element: pk",
		"pk = :lo":                          "does not match schema type",
		"pk = :pk AND begins_with(sk, :pk)": "does not match schema type",
	} {
		_, err := f.db.Query(f.ctx, &dynamodb.QueryInput{TableName: ptr("Orders"), KeyConditionExpression: &text, ExpressionAttributeValues: attrs{":pk": str("a"), ":lo": num("1")}})
		f.wantCode(err, "ValidationException")
		if !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "unused") {
			t.Errorf("%s gives %v", text, err)
		}
	}
	_, err := f.db.Query(f.ctx, &dynamodb.QueryInput{
		TableName: ptr("Orders"), KeyConditionExpression: ptr("pk = :pk"), FilterExpression: ptr("sk > :pk"), ExpressionAttributeValues: attrs{":pk": str("a")},
	})
	f.wantCode(err, "ValidationException")
}
