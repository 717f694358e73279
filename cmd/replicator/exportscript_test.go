package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// export TABLE DIR [ATTRIBUTES] exports a table, or only these attributes. $S3EXPORT is its folder
// in S3. DIR receives a copy of the bucket, in which $EXPORT is the same folder.
func export(ts *testscript.TestScript, _ bool, args []string) {
	s := servicesOf(ts)
	ts.Check(s.call("UpdateContinuousBackups", map[string]any{"TableName": args[0], "PointInTimeRecoverySpecification": map[string]any{"PointInTimeRecoveryEnabled": true}}))
	asked := map[string]any{"TableArn": "arn:aws:dynamodb:us-east-1:000000000000:table/" + args[0], "S3Bucket": "exports"}
	if len(args) > 2 {
		asked["FilterSpecification"] = map[string]any{"ProjectionExpression": args[2]}
	}
	body, err := json.Marshal(asked)
	ts.Check(err)
	r, err := http.NewRequest(http.MethodPost, s.endpoint, bytes.NewReader(body))
	ts.Check(err)
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ExportTableToPointInTime")
	var begun struct{ ExportDescription struct{ ExportArn string } }
	ts.Check(json.Unmarshal([]byte(ask(ts, r)), &begun))
	folder := "AWSDynamoDB/" + begun.ExportDescription.ExportArn[strings.LastIndexByte(begun.ExportDescription.ExportArn, '/')+1:]
	keep := func(key string) string {
		r, err := http.NewRequest(http.MethodGet, s.endpoint+"/exports/"+key, nil)
		ts.Check(err)
		content := ask(ts, r)
		file := filepath.Join(ts.MkAbs(args[1]), filepath.FromSlash(key))
		ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
		ts.Check(os.WriteFile(file, []byte(content), 0o644))
		return content
	}
	keep(folder + "/manifest-summary.json")
	for line := range strings.Lines(keep(folder + "/manifest-files.json")) {
		var file struct{ DataFileS3Key string }
		ts.Check(json.Unmarshal([]byte(line), &file))
		keep(file.DataFileS3Key)
	}
	ts.Setenv("EXPORT", filepath.Join(ts.MkAbs(args[1]), filepath.FromSlash(folder)))
	ts.Setenv("S3EXPORT", "s3://exports/"+folder)
	ts.Setenv("AWS_ENDPOINT_URL_S3", s.endpoint)
}

func ask(ts *testscript.TestScript, r *http.Request) string {
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, content)
	}
	ts.Check(err)
	return string(content)
}

// recovery TABLE on|off turns point-in-time recovery on or off, and makes exports readable from S3.
func recovery(ts *testscript.TestScript, _ bool, args []string) {
	s := servicesOf(ts)
	ts.Check(s.call("UpdateContinuousBackups", map[string]any{"TableName": args[0], "PointInTimeRecoverySpecification": map[string]any{"PointInTimeRecoveryEnabled": args[1] == "on"}}))
	ts.Setenv("AWS_ENDPOINT_URL_S3", s.endpoint)
}

// exportsAre STATUS sets the status of exports from now on: in progress, failed, or done.
func exportsAre(ts *testscript.TestScript, _ bool, args []string) {
	status := map[string]string{"underway": `"ExportStatus":"IN_PROGRESS"`, "done": `"ExportStatus":"COMPLETED"`,
		"failed": `"ExportStatus":"FAILED","FailureCode":"S3NoSuchBucket","FailureMessage":"The specified bucket does not exist"`}[args[0]]
	servicesOf(ts).exports.Store(&status)
}
