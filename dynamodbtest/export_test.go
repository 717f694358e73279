package dynamodbtest_test

import (
	"compress/gzip"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

const exportedTable = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"

// object reads an object like from S3.
func (f *fixture) object(path string) (content []byte, status int) {
	f.t.Helper()
	answer, err := http.Get(f.url + "/" + path)
	f.noError(err)
	defer func() { _ = answer.Body.Close() }()
	content, err = io.ReadAll(answer.Body)
	f.noError(err)
	return content, answer.StatusCode
}

// lines returns the lines of all data files of an export, as the manifests name and count them.
func (f *fixture) lines(bucket, manifest string) (lines []string) {
	f.t.Helper()
	var summary struct {
		ManifestFilesS3Key string
		ItemCount          int
	}
	content, _ := f.object(bucket + "/" + manifest)
	f.noError(json.Unmarshal(content, &summary))
	list, _ := f.object(bucket + "/" + summary.ManifestFilesS3Key)
	sums, _ := f.object(bucket + "/" + strings.TrimSuffix(summary.ManifestFilesS3Key, ".json") + ".md5")
	if string(sums) != md5Of(list) {
		f.t.Errorf("the list of files has the checksum %s", sums)
	}
	files := 0
	for line := range strings.Lines(string(list)) {
		var file struct {
			ItemCount                  int
			Md5Checksum, DataFileS3Key string
		}
		f.noError(json.Unmarshal([]byte(line), &file))
		packed, _ := f.object(bucket + "/" + file.DataFileS3Key)
		if md5Of(packed) != file.Md5Checksum {
			f.t.Errorf("%s has another checksum than its manifest says", file.DataFileS3Key)
		}
		z, err := gzip.NewReader(strings.NewReader(string(packed)))
		f.noError(err)
		plain, err := io.ReadAll(z)
		f.noError(err)
		if n := strings.Count(string(plain), "\n"); n != file.ItemCount {
			f.t.Errorf("%s has %d lines, and should have %d", file.DataFileS3Key, n, file.ItemCount)
		}
		for l := range strings.Lines(string(plain)) {
			lines = append(lines, strings.TrimSpace(l))
		}
		files++
	}
	if files != 4 || len(lines) != summary.ItemCount {
		f.t.Errorf("%d files with %d of %d items", files, len(lines), summary.ItemCount)
	}
	return lines
}

func md5Of(content []byte) string {
	sum := md5.Sum(content)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (f *fixture) export(in dynamodb.ExportTableToPointInTimeInput) *types.ExportDescription {
	f.t.Helper()
	in.TableArn, in.S3Bucket = ptr(exportedTable), ptr("bucket")
	begun, err := f.db.ExportTableToPointInTime(f.ctx, &in)
	f.noError(err)
	out, err := f.db.DescribeExport(f.ctx, &dynamodb.DescribeExportInput{ExportArn: begun.ExportDescription.ExportArn})
	f.noError(err)
	return out.ExportDescription
}

func (f *fixture) recovery(on bool) types.PointInTimeRecoveryDescription {
	f.t.Helper()
	out, err := f.db.UpdateContinuousBackups(f.ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: ptr("Orders"),
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: &on}})
	f.noError(err)
	return *out.ContinuousBackupsDescription.PointInTimeRecoveryDescription
}

// A full export is the table at a time. A window has each item that was written in it, with its
// images before and after.
func TestExports(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.put("Orders", attrs{"pk": str("old"), "v": str("1")})
	if _, err := f.db.ExportTableToPointInTime(f.ctx, &dynamodb.ExportTableToPointInTimeInput{TableArn: ptr(exportedTable), S3Bucket: ptr("bucket")}); !isCode(err, "PointInTimeRecoveryUnavailableException") {
		t.Fatalf("an export without backups: %v", err)
	}
	if d := f.recovery(true); d.PointInTimeRecoveryStatus != "ENABLED" || !d.EarliestRestorableDateTime.Equal(start) {
		t.Fatalf("%+v", d)
	}
	f.clock.Advance(time.Minute)
	f.put("Orders", attrs{"pk": str("gone"), "v": str("1")})
	at := f.clock.Now()
	f.clock.Advance(time.Hour)
	from := f.clock.Now().Truncate(time.Second)
	f.put("Orders", attrs{"pk": str("old"), "v": str("2")})
	f.remove("Orders", attrs{"pk": str("gone")})
	f.put("Orders", attrs{"pk": str("short"), "v": str("1")})
	f.clock.Advance(20 * time.Minute)
	f.put("Orders", attrs{"pk": str("old"), "v": str("3")})
	f.remove("Orders", attrs{"pk": str("short")})
	wrote := f.clock.Now()
	f.clock.Advance(time.Minute)
	to := f.clock.Now().Truncate(time.Second).Add(time.Second)
	f.clock.Advance(time.Minute)
	f.put("Orders", attrs{"pk": str("old"), "v": str("4")})

	full := f.export(dynamodb.ExportTableToPointInTimeInput{ExportTime: &at, S3Prefix: ptr("deep/down/")})
	if full.ExportStatus != types.ExportStatusCompleted || *full.ItemCount != 2 || !strings.HasPrefix(*full.ExportManifest, "deep/down/AWSDynamoDB/0") {
		t.Fatalf("%+v", full)
	}
	got := strings.Join(f.lines("bucket", *full.ExportManifest), "\n")
	if !strings.Contains(got, `{"Item":{"pk":{"S":"old"},"v":{"S":"1"}}}`) || !strings.Contains(got, `{"Item":{"pk":{"S":"gone"},"v":{"S":"1"}}}`) {
		t.Errorf("the full export holds\n%s", got)
	}
	window := func(view types.ExportViewType) string {
		d := f.export(dynamodb.ExportTableToPointInTimeInput{ExportType: types.ExportTypeIncrementalExport,
			IncrementalExportSpecification: &types.IncrementalExportSpecification{ExportFromTime: &from, ExportToTime: &to, ExportViewType: view}})
		if *d.ItemCount != 2 { // without the items created and deleted within the window
			t.Errorf("%+v", d)
		}
		return strings.Join(f.lines("bucket", *d.ExportManifest), "\n")
	}
	micros := `{"Metadata":{"WriteTimestampMicros":{"N":"` + json.Number(jsonOf(wrote.UnixMicro())).String() + `"}},`
	if got := window(types.ExportViewTypeNewAndOldImages); !strings.Contains(got, micros+`"Keys":{"pk":{"S":"old"}},"OldImage":{"pk":{"S":"old"},"v":{"S":"1"}},"NewImage":{"pk":{"S":"old"},"v":{"S":"3"}}}`) ||
		!strings.Contains(got, `"Keys":{"pk":{"S":"gone"}},"OldImage":{"pk":{"S":"gone"},"v":{"S":"1"}}}`) {
		t.Errorf("the window holds\n%s", got)
	}
	if got := window(types.ExportViewTypeNewImage); strings.Contains(got, "OldImage") || !strings.Contains(got, `"Keys":{"pk":{"S":"gone"}}}`) {
		t.Errorf("the window without old images holds\n%s", got)
	}
	list, err := f.db.ListExports(f.ctx, &dynamodb.ListExportsInput{TableArn: ptr(exportedTable), MaxResults: ptr(int32(2))})
	f.noError(err)
	if len(list.ExportSummaries) != 2 || list.NextToken == nil {
		t.Errorf("%+v", list)
	}
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func isCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

// The requests that the service refuses, the requests that it takes for the same export, and the
// duration of an export. A filtered export has only the items and attributes of its filter and
// projection, and says so.
func TestAFilteredExport(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.recovery(true)
	for i := range 9 {
		f.put("Orders", attrs{"pk": str(fmt.Sprint("p", i)), "v": str(fmt.Sprint(i % 3)), "w": str("secret")})
	}
	filter := types.FilterSpecification{FilterExpression: ptr("v = :v"), ProjectionExpression: ptr("pk"), ExpressionAttributeValues: attrs{":v": str("1")}}
	full := f.export(dynamodb.ExportTableToPointInTimeInput{FilterSpecification: &filter})
	if *full.ItemCount != 3 || *full.BilledSizeBytes != 3*int64(len("{\"Item\":{\"pk\":{\"S\":\"p1\"}}}\n")) {
		t.Errorf("%d items in %d bytes", *full.ItemCount, *full.BilledSizeBytes)
	}
	if got := full.FilterSpecification; got == nil || *got.ProjectionExpression != "pk" || !reflect.DeepEqual(got.ExpressionAttributeValues, filter.ExpressionAttributeValues) {
		t.Errorf("%+v", got)
	}
	if whole := f.export(dynamodb.ExportTableToPointInTimeInput{}); *whole.ItemCount != 9 || whole.FilterSpecification != nil {
		t.Errorf("%+v", whole)
	}
	filter.KeyConditionExpression = ptr("pk = :v")
	_, err := f.db.ExportTableToPointInTime(f.ctx, &dynamodb.ExportTableToPointInTimeInput{TableArn: ptr(exportedTable), S3Bucket: ptr("b"), FilterSpecification: &filter})
	if !isCode(err, "ValidationException") {
		t.Error(err)
	}
}

func TestExportsThatDynamoDBRefuses(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{ExportTakes: 10 * time.Minute, ExportsTo: t.TempDir()})
	f.createTable("Orders", "", "")
	f.recovery(true)
	f.clock.Advance(2 * time.Hour)
	ask := func(in dynamodb.ExportTableToPointInTimeInput) (*dynamodb.ExportTableToPointInTimeOutput, error) {
		in.TableArn, in.S3Bucket = ptr(exportedTable), ptr("bucket")
		return f.db.ExportTableToPointInTime(f.ctx, &in)
	}
	early, now := start.Add(-time.Second), f.clock.Now().Truncate(time.Second)
	minutes := func(n time.Duration) *types.IncrementalExportSpecification {
		from := now.Add(-n * time.Minute)
		return &types.IncrementalExportSpecification{ExportFromTime: &from, ExportToTime: &now}
	}
	for code, in := range map[string]dynamodb.ExportTableToPointInTimeInput{
		"InvalidExportTimeException": {ExportTime: &early},
		"ValidationException":        {ExportType: types.ExportTypeIncrementalExport, IncrementalExportSpecification: minutes(14)},
	} {
		if _, err := ask(in); !isCode(err, code) {
			t.Errorf("%v, and should be %s", err, code)
		}
	}
	first, err := ask(dynamodb.ExportTableToPointInTimeInput{ClientToken: ptr("once")})
	f.noError(err)
	again, err := ask(dynamodb.ExportTableToPointInTimeInput{ClientToken: ptr("once")})
	f.noError(err)
	if *first.ExportDescription.ExportArn != *again.ExportDescription.ExportArn {
		t.Error("one token began two exports")
	}
	if _, err := ask(dynamodb.ExportTableToPointInTimeInput{ClientToken: ptr("once"), S3Prefix: ptr("p")}); !isCode(err, "ExportConflictException") {
		t.Errorf("another export under the same token: %v", err)
	}
	state := func() types.ExportStatus {
		out, err := f.db.DescribeExport(f.ctx, &dynamodb.DescribeExportInput{ExportArn: first.ExportDescription.ExportArn})
		f.noError(err)
		return out.ExportDescription.ExportStatus
	}
	if got := state(); got != types.ExportStatusInProgress {
		t.Errorf("at once it is %s", got)
	}
	f.clock.Advance(10 * time.Minute)
	if got := state(); got != types.ExportStatusCompleted {
		t.Errorf("ten minutes later it is %s", got)
	}
	if _, err := f.db.DescribeExport(f.ctx, &dynamodb.DescribeExportInput{ExportArn: ptr(exportedTable + "/export/01-0")}); !isCode(err, "ExportNotFoundException") {
		t.Error(err)
	}
	if d := f.recovery(false); d.PointInTimeRecoveryStatus != "DISABLED" {
		t.Errorf("%+v", d)
	}
}

// Objects are read like from S3: whole, in part, and listed in pages; or as files of the directory.
func TestObjectsOfExports(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(t, dynamodbtest.Options{ExportsTo: dir})
	f.createTable("Orders", "", "")
	f.put("Orders", attrs{"pk": str("a"), "v": str("1")})
	f.recovery(true)
	manifest := *f.export(dynamodb.ExportTableToPointInTimeInput{}).ExportManifest
	whole, status := f.object("bucket/" + manifest)
	if file, err := os.ReadFile(filepath.Join(dir, "bucket", filepath.FromSlash(manifest))); err != nil || string(file) != string(whole) || status != http.StatusOK {
		t.Errorf("%d, %v", status, err)
	}
	ask, _ := http.NewRequestWithContext(f.ctx, http.MethodGet, f.url+"/bucket/"+manifest, nil)
	ask.Header.Set("Range", "bytes=1-4")
	answer, err := http.DefaultClient.Do(ask)
	f.noError(err)
	part, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusPartialContent || string(part) != string(whole[1:5]) {
		t.Errorf("%d: %s", answer.StatusCode, part)
	}
	if _, status := f.object("bucket/none"); status != http.StatusNotFound {
		t.Errorf("an object that is not there: %d", status)
	}
	var keys []string
	for token := ""; ; {
		var page struct {
			IsTruncated           bool
			NextContinuationToken string
			Contents              []struct{ Key string }
		}
		text, _ := f.object("bucket?list-type=2&max-keys=3&prefix=AWSDynamoDB/&continuation-token=" + token)
		f.noError(xml.Unmarshal(text, &page))
		for _, c := range page.Contents {
			keys = append(keys, c.Key)
		}
		if token = page.NextContinuationToken; !page.IsTruncated {
			break
		}
	}
	// Four data files, two manifests with their checksums, and the marker of the start.
	if len(keys) != 9 {
		t.Errorf("listed are %q", keys)
	}
}

// Only times that can be restored can be exported, and the present cannot be restored yet.
func TestThePresentCannotBeExportedYet(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{RecoveryLag: 5 * time.Minute})
	f.createTable("Orders", "", "")
	if d := f.recovery(true); !d.LatestRestorableDateTime.Equal(*d.EarliestRestorableDateTime) {
		t.Errorf("as it begins: %v", d)
	}
	f.server.AdvanceClock(time.Hour)
	now := f.server.Now().Truncate(time.Second)
	window := func(to time.Time) error {
		_, err := f.db.ExportTableToPointInTime(f.ctx, &dynamodb.ExportTableToPointInTimeInput{TableArn: ptr(exportedTable), S3Bucket: ptr("bucket"), ExportType: types.ExportTypeIncrementalExport,
			IncrementalExportSpecification: &types.IncrementalExportSpecification{ExportFromTime: ptr(to.Add(-30 * time.Minute)), ExportToTime: &to}})
		return err
	}
	full := func(at time.Time) error {
		_, err := f.db.ExportTableToPointInTime(f.ctx, &dynamodb.ExportTableToPointInTimeInput{TableArn: ptr(exportedTable), S3Bucket: ptr("bucket"), ExportTime: &at})
		return err
	}
	var refused *types.InvalidExportTimeException
	for name, export := range map[string]func(time.Time) error{"window": window, "full": full} {
		if err := export(now.Add(-4 * time.Minute)); !errors.As(err, &refused) {
			t.Errorf("%s, too late: %v", name, err)
		}
		if err := export(now.Add(-6 * time.Minute)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
