package dynamodbtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

func TestFaults(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	f.createTable("Others", "KEYS_ONLY", "")
	describe := func(table string) string {
		_, err := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: &table})
		if err == nil {
			return "ok"
		}
		for _, code := range []string{"ThrottlingException", "InternalServerError", "ExpiredTokenException"} {
			if strings.Contains(err.Error(), code) {
				return code
			}
		}
		return err.Error()
	}
	outcomes := func(table string, n int) string {
		var all []string
		for range n {
			all = append(all, describe(table))
		}
		return strings.Join(all, " ")
	}
	f.server.Fail(dynamodbtest.Fault{Operation: "DescribeTable", Table: "Orders", Error: "ThrottlingException", Skip: 1, Times: 2})
	if got := outcomes("Others", 2); got != "ok ok" {
		t.Error(got)
	}
	if got := outcomes("Orders", 4); got != "ok ThrottlingException ThrottlingException ok" {
		t.Error(got)
	}
	f.server.Fail(dynamodbtest.Fault{Times: -1, Error: "ExpiredTokenException"})
	if got := outcomes("Orders", 2); got != "ExpiredTokenException ExpiredTokenException" {
		t.Error(got)
	}
	f.server.ClearFaults()
	f.server.Fail(dynamodbtest.Fault{Operation: "DescribeTable"})
	if got := outcomes("Orders", 2); got != "InternalServerError ok" {
		t.Error(got)
	}
	if n := f.server.Calls("DescribeTable"); n != 10 {
		t.Errorf("%d calls counted", n)
	}
}

func TestFaultOnOneShard(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{InitialShards: 2})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	shards := f.shards(arn)
	f.server.Fail(dynamodbtest.Fault{Operation: "GetRecords", Shard: *shards[1].ShardId, Error: "ProvisionedThroughputExceededException"})
	for i, want := range []string{"", "ProvisionedThroughputExceededException"} {
		it, err := f.iterator(arn, *shards[i].ShardId, "TRIM_HORIZON", "")
		f.noError(err)
		_, err = f.page(it)
		if want != "" {
			f.wantCode(err, want)
		} else {
			f.noError(err)
		}
	}
}

func TestFaultAfterEffect(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	f.server.Fail(dynamodbtest.Fault{Operation: "PutItem", AfterEffect: true})
	_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: ptr("Orders"), Item: attrs{"pk": str("a")}})
	f.wantCode(err, "InternalServerError")
	if f.get("Orders", attrs{"pk": str("a")}) == nil {
		t.Error("the write did not take effect")
	}
}

func TestAdvanceClock(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.server.AdvanceClock(36 * time.Hour)
	f.server.AdvanceClock(-time.Hour)
	if got := f.server.Now(); !got.Equal(start.Add(35 * time.Hour)) {
		t.Error(got)
	}
}

func TestControlsWithoutStream(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	_, err := f.server.Shards("Orders")
	wantControlError(t, err, "ResourceNotFoundException")
	_, err = f.server.ShardOf("Orders", "a")
	wantControlError(t, err, "ResourceNotFoundException")
	n, err := f.server.SweepTTL("Orders")
	if n != 0 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

// control posts to the control endpoint and returns the status and the decoded answer.
func (f *fixture) control(name, body string) (int, map[string]any) {
	f.t.Helper()
	resp, err := http.Post(f.url+"/_control/"+name, "application/json", strings.NewReader(body))
	f.noError(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	f.noError(err)
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		f.t.Fatalf("%s: %s", name, text)
	}
	return resp.StatusCode, answer
}

func TestControlEndpoint(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{Control: true})
	f.createTable("Orders", "KEYS_ONLY", "")
	arn := f.streamARN("Orders")
	root := f.onlyShard(arn)
	f.put("Orders", attrs{"pk": str("a")})
	call := func(name, body string) any {
		t.Helper()
		body = strings.ReplaceAll(body, "ROOT", root)
		status, answer := f.control(name, body)
		if status != 200 {
			t.Errorf("%s: %d %v", name, status, answer)
		}
		return answer["result"]
	}
	children := call("split", `{"table":"Orders","shard":"ROOT"}`).([]any)
	if len(children) != 2 {
		t.Fatalf("children %v", children)
	}
	child := children[0].(string)
	onChild := func(rest string) string { return `{"table":"Orders","shard":"` + child + `"` + rest + `}` }
	call("hide-shard", onChild(`,"after":"1m"`))
	call("show-open", `{"table":"Orders","shard":"ROOT","until":"2026-11-21T11:00:00Z"}`)
	listed := f.shards(arn)
	if len(listed) != 2 || listed[0].SequenceNumberRange.EndingSequenceNumber != nil {
		t.Errorf("%d shards listed", len(listed))
	}
	call("advance-clock", `{"duration":"2h"}`)
	if !f.server.Now().Equal(start.Add(2 * time.Hour)) {
		t.Error("the clock was not advanced")
	}
	if n := len(f.shards(arn)); n != 3 {
		t.Errorf("%d shards listed", n)
	}
	if got := call("shard-of", `{"table":"Orders","key":"a"}`); got != children[0] && got != children[1] {
		t.Errorf("shard of a: %v", got)
	}
	call("roll", onChild(""))
	shards := call("shards", `{"table":"Orders"}`).([]any)
	if len(shards) != 4 || shards[0].(map[string]any)["last_hash"] != "18446744073709551615" {
		t.Errorf("shards %v", shards)
	}
	call("empty-pages", onChild(`,"count":1`))
	call("delay-listing", `{"table":"Orders","children":"1m","closings":"1m"}`)
	call("listing-page", `{"table":"Orders","count":2}`)
	call("repeat-pages", `{"table":"Orders","count":1}`)
	if n := len(f.shards(arn)); n != 6 {
		t.Errorf("%d shards with a page repeated", n)
	}
	call("expire-iterators", `{"table":"Orders"}`)
	call("record-time-offset", `{"table":"Orders","duration":"-1s"}`)
	call("restart-sequences", `{"table":"Orders","restart":true}`)
	call("auto-roll", `{"table":"Orders","duration":"4h"}`)
	call("next-sequence", `{"table":"Orders","shard":"`+children[1].(string)+`","sequence":"`+strings.Repeat("9", 35)+`"}`)
	call("fail", `{"fault":{"operation":"GetRecords","error":"LimitExceededException","times":2,"skip":1}}`)
	call("clear-faults", `{}`)
	if got := call("calls", `{"fault":{"operation":"PutItem"}}`); got != float64(1) {
		t.Errorf("%v calls", got)
	}
	if got := call("ttl-sweep", `{"table":"Orders"}`); got != float64(0) {
		t.Errorf("%v swept", got)
	}
	call("trim", `{"table":"Orders"}`)
	if records := f.allShards("Orders"); records[0].Records != 0 {
		t.Error("not trimmed")
	}
	for name, body := range map[string]string{
		"roll": `{"table":"Orders","shard":"shardId-absent"}`, "split": `{"table":"Absent"}`, "trim": `{"tabel":"Orders"}`, "hide-shard": `{"after":"soon"}`,
	} {
		if status, answer := f.control(name, body); status != 400 || answer["error"] == nil {
			t.Errorf("%s %s: %d %v", name, body, status, answer)
		}
	}
	if status, answer := f.control("nonsense", "{}"); status != 404 || !strings.Contains(answer["error"].(string), "advance-clock, ") {
		t.Errorf("%d %v", status, answer)
	}
}

// The controls of policies and late writes, from another process.
func TestControlsOfWriters(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{Control: true})
	f.createTable("Orders", "", "")
	call := func(name, body string) {
		t.Helper()
		if status, answer := f.control(name, body); status != 200 {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	call("role", `{"access_key":"APP","role":"`+appRole+`"}`)
	call("policy-delay", `{"table":"Orders","duration":"1m"}`)
	call("old-policy-reads", `{"table":"Orders","old":true}`)
	_, err := f.putPolicy(document(denyPuts), "")
	f.noError(err)
	_, _, err = f.readPolicy()
	f.wantCode(err, "PolicyNotFoundException")
	call("old-policy-reads", `{"table":"Orders","old":false}`)
	_, _, err = f.readPolicy()
	f.noError(err)
	call("straggle", `{"table":"Orders","count":1,"after":"2m"}`)
	f.wantCut(f.putValue("Orders", "a", "1"))
	call("fail", `{"fault":{"operation":"PutItem"},"after":"3m"}`)
	f.wantCut(f.putValue("Orders", "b", "1"))
	call("advance-clock", `{"duration":"2m"}`)
	f.wantMessage(f.writeAs("APP"), "AccessDeniedException", appRole)
	if a, b := f.value("a"), f.value("b"); a != "1" || b != "" {
		t.Errorf("a %q, b %q", a, b)
	}
	call("advance-clock", `{"duration":"1m"}`)
	if b := f.value("b"); b != "1" {
		t.Errorf("b %q", b)
	}
	for name, body := range map[string]string{
		"policy-delay": `{"table":"Absent"}`, "old-policy-reads": `{"table":"Absent"}`, "straggle": `{"after":"soon"}`, "fail": `{"fault":{"late":"1m"}}`,
	} {
		if status, answer := f.control(name, body); status != 400 || answer["error"] == nil {
			t.Errorf("%s %s: %d %v", name, body, status, answer)
		}
	}
}

func TestControlEndpointIsOffByDefault(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	resp, err := http.Post(f.url+"/_control/advance-clock", "application/json", strings.NewReader(`{"duration":"1h"}`))
	f.noError(err)
	defer resp.Body.Close()
	if resp.StatusCode != 400 || !f.server.Now().Equal(start) {
		t.Errorf("status %d, time %s", resp.StatusCode, f.server.Now())
	}
}
