package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// pass DURATION advances DynamoDB's time.
func passTime(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	servicesOf(ts).dynamo.AdvanceClock(d)
}

// moment stores DynamoDB's time in $EXPORTED, where the next window begins.
func moment(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("EXPORTED", strconv.FormatInt(servicesOf(ts).dynamo.Now().Unix(), 10))
	ts.Setenv("AWS_ENDPOINT_URL_S3", servicesOf(ts).endpoint)
}

// window NAME TABLE [VIEW] exports the changes since the last `window` or `whole`. `whole` exports
// the table, as of a whole second in the past. $NAME is the export's folder in S3, and $EXPORTED
// that second.
func window(full bool) func(ts *testscript.TestScript, _ bool, args []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		s := servicesOf(ts)
		s.dynamo.AdvanceClock(2 * time.Second)
		now := s.dynamo.Now().Unix()
		asked := map[string]any{"TableArn": "arn:aws:dynamodb:us-east-1:000000000000:table/" + args[1], "S3Bucket": "exports"}
		if full {
			asked["ExportTime"] = now
		} else {
			from, err := strconv.ParseInt(ts.Getenv("EXPORTED"), 10, 64)
			ts.Check(err)
			spec := map[string]any{"ExportFromTime": from, "ExportToTime": now}
			if len(args) > 2 {
				spec["ExportViewType"] = args[2]
			}
			asked["ExportType"], asked["IncrementalExportSpecification"] = "INCREMENTAL_EXPORT", spec
		}
		body, err := json.Marshal(asked)
		ts.Check(err)
		r, err := http.NewRequest(http.MethodPost, s.endpoint, bytes.NewReader(body))
		ts.Check(err)
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ExportTableToPointInTime")
		var begun struct{ ExportDescription struct{ ExportArn string } }
		ts.Check(json.Unmarshal([]byte(ask(ts, r)), &begun))
		arn := begun.ExportDescription.ExportArn
		ts.Setenv(args[0], "s3://exports/AWSDynamoDB/"+arn[strings.LastIndexByte(arn, '/')+1:])
		ts.Setenv("EXPORTED", strconv.FormatInt(now, 10))
	}
}
