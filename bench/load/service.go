package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// roleVariable makes a process of this program a service or a client of one.
const roleVariable = "REPLICATOR_BENCH_LOAD_ROLE"

// role is what such a process does.
type role struct {
	Source   bool   `json:"source,omitempty"`   // serves the table
	Prepared string `json:"prepared,omitempty"` // sends prepared requests to this address; else it serves the target
	Items    int    `json:"items"`
}

const (
	table      = "Generated"
	region     = "us-east-1"
	maxMessage = 256 << 20
)

// key, note and number are the attributes of the n-th item.
func key(n int) string    { return fmt.Sprintf("%08x-%d", uint32(n)*2654435761, n) }
func number(n int) string { return strconv.Itoa(n * 7) }
func note(n int) string   { return strings.Repeat(fmt.Sprintf("%08d ", n), 20) }

// serve is the main function of such a process. It prints one line, and serves until in ends.
func serve(text string, in io.Reader, out io.Writer) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	var line string
	switch {
	case r.Source:
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s := &source{server: dynamodbtest.New(dynamodbtest.Options{Region: region, InitialShards: 4})}
		if err := s.fill(r.Items); err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: s}
		go func() { _ = server.Serve(listener) }() // until the process ends
		line = listener.Addr().String()
	case r.Prepared != "":
		took, err := sendPrepared(r.Prepared, r.Items)
		if err != nil {
			return err
		}
		line = took.String()
	default:
		server, err := bttest.NewServer("127.0.0.1:0", grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
		if err != nil {
			return err
		}
		line = server.Addr
	}
	if _, err := fmt.Fprintln(out, line); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// source is the embedded DynamoDB, which counts the items that its scans return.
type source struct {
	server *dynamodbtest.Server

	mu   sync.Mutex
	seen scans
}

// scans is what was scanned so far.
type scans struct {
	Items   int       `json:"items"`
	Largest int       `json:"largest"` // the largest page
	First   time.Time `json:"first"`   // when the first page was answered
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/scans" {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.seen)
		return
	}
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Scan") {
		s.server.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	s.server.ServeHTTP(answer, r)
	if found := scanned.FindSubmatch(answer.Body.Bytes()); found != nil {
		n, _ := strconv.Atoi(string(found[1]))
		s.mu.Lock()
		if s.seen.Items == 0 {
			s.seen.First = time.Now()
		}
		s.seen.Items, s.seen.Largest = s.seen.Items+n, max(s.seen.Largest, n)
		s.mu.Unlock()
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// scanned finds how many items a page of a scan evaluated.
var scanned = regexp.MustCompile(`"ScannedCount":(\d+)`)

// fill makes the table with its items, and a stream that holds none of them.
func (s *source) fill(items int) error {
	err := s.call("CreateTable", `{"TableName":"`+table+`","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],`+
		`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}`)
	if err != nil {
		return err
	}
	const batch = 25 // the most that BatchWriteItem takes
	var body strings.Builder
	for n := 0; n < items; {
		body.Reset()
		body.WriteString(`{"RequestItems":{"` + table + `":[`)
		for i := 0; i < batch && n < items; i, n = i+1, n+1 {
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"PutRequest":{"Item":{"pk":{"S":%q},"number":{"N":%q},"note":{"S":%q}}}}`, key(n), number(n), note(n))
		}
		body.WriteString(`]}}`)
		if err := s.call("BatchWriteItem", body.String()); err != nil {
			return err
		}
	}
	return s.call("UpdateTable", `{"TableName":"`+table+`","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`)
}

func (s *source) call(operation, body string) error {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	answer := httptest.NewRecorder()
	s.server.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		return fmt.Errorf("%s: %s", operation, answer.Body)
	}
	return nil
}

// service is such a process.
type service struct {
	line string
	cmd  *exec.Cmd
	hold io.Closer // ends the process once closed
}

// start starts one and waits for its line.
func start(r role) (*service, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &service{cmd: exec.Command(executable)}
	s.cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	var stderr bytes.Buffer
	s.cmd.Stderr = &stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.hold, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(executable), err, stderr.String())
	}
	s.line = strings.TrimSpace(line)
	return s, nil
}

func (s *service) stop() {
	_ = s.hold.Close()
	_ = s.cmd.Wait() // how it ended is of no interest
}

// scans asks the source what was scanned.
func (s *service) scans() (seen scans, err error) {
	response, err := http.Get("http://" + s.line + "/scans")
	if err != nil {
		return scans{}, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&seen)
	return seen, err
}
