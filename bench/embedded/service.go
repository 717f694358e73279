// Package embedded runs what the benchmarks of whole programs stand on, each in a process of its
// own: the embedded DynamoDB with a generated table, Google's Bigtable emulator, and workers.
package embedded

import (
	"bufio"
	"bytes"
	"cmp"
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

// RoleVariable makes a process of a benchmark a service, or another role of its own.
const RoleVariable = "REPLICATOR_BENCH_ROLE"

// Role is what such a process does.
type Role struct {
	Source bool `json:"source,omitempty"` // serves the generated table
	Items  int  `json:"items"`            // how many it holds
	Shards int  `json:"shards,omitempty"` // of its stream; 0: four
	Tables int  `json:"tables,omitempty"` // how many such tables there are; 0: one
	// ExportsTo is a directory that the source may be exported to, in files of so many partitions.
	ExportsTo   string `json:"exports_to,omitempty"`
	ExportFiles int    `json:"export_files,omitempty"`
	// Own is the name of a role that the benchmark defines, and Source- and TargetAddress are for it.
	Own           string `json:"own,omitempty"`
	SourceAddress string `json:"source_address,omitempty"`
	TargetAddress string `json:"target_address,omitempty"`
	Rate          int    `json:"rate,omitempty"` // a second
}

const (
	// Table is the generated table, and its target's name.
	Table = "Generated"
	// Region is the region that the source reports.
	Region = "us-east-1"
	// MaxMessage is the size of a gRPC message that the target takes; its own limit is below a row's.
	MaxMessage = 256 << 20
)

// TableName is the name of the n-th table.
func TableName(n int) string {
	if n == 0 {
		return Table
	}
	return fmt.Sprint(Table, n)
}

// Key, Number and Note are the attributes of the n-th item.
func Key(n int) string    { return fmt.Sprintf("%08x-%d", uint32(n)*2654435761, n) }
func Number(n int) string { return strconv.Itoa(n * 7) }
func Note(n int) string   { return strings.Repeat(fmt.Sprintf("%08d ", n), 20) }

// Serve is the main function of a process with a role. It prints one line, and goes on until in
// ends. Own runs the benchmark's own roles and returns their line.
func Serve(text string, in io.Reader, out io.Writer, own func(Role) (string, error)) error {
	var r Role
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
		s := &source{server: dynamodbtest.New(dynamodbtest.Options{Region: Region, InitialShards: cmp.Or(r.Shards, 4),
			ExportsTo: r.ExportsTo, ExportFiles: r.ExportFiles})}
		for n := range max(r.Tables, 1) {
			if err := s.fill(TableName(n), r.Items); err != nil {
				return err
			}
		}
		if r.ExportsTo != "" {
			if err := s.call("UpdateContinuousBackups", `{"TableName":"`+Table+`","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`); err != nil {
				return err
			}
		}
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: s}
		go func() { _ = server.Serve(listener) }() // until the process ends
		line = listener.Addr().String()
	case r.Own != "":
		var err error
		if line, err = own(r); err != nil {
			return err
		}
	default:
		server, err := bttest.NewServer("127.0.0.1:0", grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage))
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

// source is the embedded DynamoDB, which counts the items that its scans return, and reads of its
// stream.
type source struct {
	server *dynamodbtest.Server

	mu    sync.Mutex
	seen  Scans
	polls int
}

// Scans is what was scanned so far.
type Scans struct {
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
	if r.URL.Path == "/polls" {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = fmt.Fprint(w, s.polls)
		return
	}
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetRecords") {
		s.mu.Lock()
		s.polls++
		s.mu.Unlock()
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
func (s *source) fill(table string, items int) error {
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
			fmt.Fprintf(&body, `{"PutRequest":{"Item":{"pk":{"S":%q},"number":{"N":%q},"note":{"S":%q}}}}`, Key(n), Number(n), Note(n))
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

// Service is a process with a role.
type Service struct {
	Line string // that it printed: its address, or what it measured
	cmd  *exec.Cmd
	hold io.Closer // ends the process once closed
}

// Start starts one and waits for its line.
func Start(r Role) (*Service, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &Service{cmd: exec.Command(executable)}
	s.cmd.Env = append(os.Environ(), RoleVariable+"="+string(text))
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
		s.Stop()
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(executable), err, stderr.String())
	}
	s.Line = strings.TrimSpace(line)
	return s, nil
}

// Pid is the process.
func (s *Service) Pid() int { return s.cmd.Process.Pid }

// CPU is the processor time that the process used; it must have ended.
func (s *Service) CPU() time.Duration { return CPU(s.cmd.ProcessState) }

// CPU is the processor time that an ended process used.
func CPU(p *os.ProcessState) time.Duration { return p.UserTime() + p.SystemTime() }

// Stop ends the process.
func (s *Service) Stop() {
	_ = s.hold.Close()
	_ = s.cmd.Wait() // how it ended is of no interest
}

// Polls asks the source how often its stream was read.
func (s *Service) Polls() (polls int, err error) {
	response, err := http.Get("http://" + s.Line + "/polls")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = fmt.Fscan(response.Body, &polls)
	return polls, err
}

// Scans asks the source what was scanned.
func (s *Service) Scans() (seen Scans, err error) {
	response, err := http.Get("http://" + s.Line + "/scans")
	if err != nil {
		return Scans{}, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&seen)
	return seen, err
}
