package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/bttest"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// embedded are the services of one script.
type embedded struct {
	dynamo   *dynamodbtest.Server
	endpoint string
	bigtable string        // address of Bigtable
	window   time.Duration // how long DynamoDB accepts a signature; 0 for ever
	cloud    *cloud        // the parts of Bigtable that bttest lacks

	refused sync.Map               // operations that DynamoDB denies
	exports atomic.Pointer[string] // the final status of exports; nil: complete
	behind  atomic.Int64           // how far DynamoDB's clock is behind
	replica atomic.Pointer[string] // the other region of all tables, if they are global tables
}

// startEmbedded starts services. With a window, DynamoDB accepts signatures for this long, and Bigtable
// has change streams, as a way back needs.
func startEmbedded(window time.Duration) (*embedded, func(), error) {
	s := &embedded{cloud: &cloud{}, window: window}
	clock := func() time.Time { return time.Now().Add(-time.Duration(s.behind.Load())) }
	s.dynamo = dynamodbtest.New(dynamodbtest.Options{Seed: 1, Clock: clock, SignatureWindow: window})
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	s.endpoint = server.URL
	closeTarget, err := s.startBigtable()
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return s, func() { closeTarget(); server.CloseClientConnections(); server.Close() }, nil
}

func (s *embedded) startBigtable() (stop func(), err error) {
	if s.window > 0 {
		target, err := bigtabletest.New(bigtabletest.Options{Seed: 1})
		if err != nil {
			return nil, err
		}
		s.bigtable = target.Addr()
		return func() { target.Close() }, nil
	}
	target, err := bttest.NewServer("127.0.0.1:0", grpc.MaxRecvMsgSize(1<<28), grpc.MaxSendMsgSize(1<<28), grpc.UnaryInterceptor(s.cloud.intercept))
	if err != nil {
		return nil, err
	}
	s.bigtable = target.Addr
	return target.Close, nil
}

// servicesWithOrders returns services for a test, with a table Orders.
func servicesWithOrders(t *testing.T) *embedded {
	t.Helper()
	s, stop, err := startEmbedded(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := s.create("Orders", "NEW_AND_OLD_IMAGES"); err != nil {
		t.Fatal(err)
	}
	return s
}

// serve is DynamoDB, with its denials.
func (s *embedded) serve(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if _, denied := s.refused.Load(operation); denied {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"User is not authorized to perform: dynamodb:%s"}`, operation)
		return
	}
	if status := s.exports.Load(); operation == "DescribeExport" && status != nil {
		s.rewrite(w, r, `"ExportStatus":"COMPLETED"`, *status)
		return
	}
	region := s.replica.Load()
	if operation != "DescribeTable" || region == nil {
		s.dynamo.ServeHTTP(w, r)
		return
	}
	s.rewrite(w, r, `"Table":{`, `"Table":{"Replicas":[{"RegionName":"`+*region+`"}],`)
}

// rewrite replaces one text in an answer by another.
func (s *embedded) rewrite(w http.ResponseWriter, r *http.Request, from, to string) {
	answer := httptest.NewRecorder()
	s.dynamo.ServeHTTP(answer, r)
	body := strings.Replace(answer.Body.String(), from, to, 1)
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10))
	w.WriteHeader(answer.Code)
	_, _ = fmt.Fprint(w, body)
}

func (s *embedded) environment() []string {
	env := []string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + s.endpoint, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS=" + s.endpoint,
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "BIGTABLE_EMULATOR_HOST=" + s.bigtable,
	}
	if s.window > 0 {
		env = append(env, "REPLICATOR_EMULATOR_WINDOW="+s.window.String())
	}
	return env
}

// call sends one request to the embedded DynamoDB, as its clients do.
func (s *embedded) call(operation string, request any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, s.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", operation, response.Status, answer)
	}
	return err
}

// create creates a table with the key pk, sk. View is the view type of its stream, or "none" for no
// stream.
func (s *embedded) create(table, view string) error {
	request := map[string]any{
		"TableName": table, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []map[string]string{{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "S"}},
		"KeySchema":            []map[string]string{{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}},
	}
	if view != "none" {
		request["StreamSpecification"] = map[string]any{"StreamEnabled": true, "StreamViewType": view}
	}
	return s.call("CreateTable", request)
}

// account ID makes the script's commands use a role of the account.
func fromAccount(ts *testscript.TestScript, _ bool, args []string) {
	servicesOf(ts).dynamo.SetRole("test", "arn:aws:iam::"+args[0]+":role/reader")
}

// allow TABLE ACCOUNT lets the account do everything with a table.
func allowAccount(ts *testscript.TestScript, _ bool, args []string) {
	arn := "arn:aws:dynamodb:us-east-1:000000000000:table/" + args[0]
	ts.Check(servicesOf(ts).call("PutResourcePolicy", map[string]any{"ResourceArn": arn,
		"Policy": `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"` + args[1] + `"},"Action":"dynamodb:*","Resource":"` + arn + `"}}`}))
}
