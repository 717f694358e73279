// Command freeze measures from outside how long a cutover freezes an application. It runs the program's
// workers on embedded services, beside an application that writes, and times the calls of the hooks: from
// the answer of freeze_writes to the call of switch, or of unfreeze_writes for a try that was abandoned.
// At the end it compares every row with what the application remembers to have written.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
)

var (
	tables  = flag.Int("tables", 1, "source tables, all in one group")
	shards  = flag.Int("shards", 4, "open shards of each table")
	items   = flag.Int("items", 1000, "items of each table")
	rate    = flag.Int("rate", 30, "writes a second to all tables together, until the freeze")
	takes   = flag.Duration("hooks", 200*time.Millisecond, "how long each hook takes")
	rounds  = flag.Int("rounds", 3, "cutovers, each with new services")
	kill    = flag.Bool("kill", false, "kill a worker in the first freeze, and start another one")
	alone   = flag.Bool("alone", false, "each table is a group; all are cut over at once")
	turns   = flag.Bool("turns", false, "each table is a group; one is cut over after the other")
	cancels = flag.Bool("cancels", false, "before the cutover of one group, cancel attempts at many moments, and refuse two hooks once")
	setting = flag.String("cutover", "", "more settings of the section cutover, such as freeze_at_most: 15s")
)

func main() {
	flag.Parse()
	if *cancels && groups() > 1 {
		fmt.Fprintln(os.Stderr, "-cancels is for one group: leave out -alone and -turns")
		os.Exit(2)
	}
	for i := range *rounds {
		if err := round(i + 1); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// site is the application: it writes the source, and answers the hooks.
type site struct {
	source *dynamodbtest.Server
	target *bigtable.Client
	frozen chan struct{} // closed with the first freeze

	mu      sync.Mutex
	stopped map[string]bool      // groups whose writes are stopped, by name
	since   map[string]time.Time // when the freeze was answered
	freezes []string             // how long each lasted
	moved   map[string]bool      // groups that write the target
	refuse  string               // the hook whose next call is refused
	memory  []map[string]int     // what was written last, by table and key; without deleted items
	writes  int
	failed  error // of the first write that failed
}

func (s *site) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	called := time.Now()
	if r.Header.Get("Cutover-Probe") != "" {
		_, _ = fmt.Fprintln(answer, "groups")
		return
	}
	group, name := r.Header.Get("Cutover-Group"), r.Header.Get("Cutover-Hook")
	s.mu.Lock()
	if name != "freeze_writes" && s.stopped[group] {
		s.freezes = append(s.freezes, fmt.Sprintf("%.1f s to %s", called.Sub(s.since[group]).Seconds(), name))
	}
	refused := name == s.refuse
	switch {
	case refused:
		s.refuse = ""
	case name == "freeze_writes":
		s.stopped[group] = true
	case name == "switch":
		s.moved[group] = true
	}
	s.mu.Unlock()
	if refused {
		answer.Header().Set(hook.OutcomeHeader, "refused")
		http.Error(answer, "not now", http.StatusConflict)
		return
	}
	time.Sleep(*takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch name {
	case "freeze_writes":
		s.since[group] = time.Now()
		select {
		case <-s.frozen:
		default:
			close(s.frozen)
		}
	case "switch", "unfreeze_writes":
		s.stopped[group] = false
	}
}

// name is the name of the n-th table; its group has the same name, or is all.
func name(n int) string { return fmt.Sprintf("Table%02d", n) }

func groupOf(n int) string {
	if *alone || *turns {
		return name(n)
	}
	return "all"
}

// write writes items of all tables in turn, until the context ends.
func (s *site) write(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(*rate))
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		<-tick.C
		s.mu.Lock()
		if t := n % *tables; !s.stopped[groupOf(t)] {
			s.writes++
			s.failed = errors.Join(s.failed, s.writeOne(t, fmt.Sprint(n / *tables % *items), n))
		}
		s.mu.Unlock()
	}
}

func (s *site) call(operation, body string) error {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	answer := httptest.NewRecorder()
	s.source.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		return fmt.Errorf("%s: %s", operation, answer.Body)
	}
	return nil
}

// fill creates the tables with their items and streams.
func (s *site) fill() error {
	for n := range *tables {
		err := s.call("CreateTable", fmt.Sprintf(`{"TableName":%q,"BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],`+
			`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`, name(n)))
		s.memory = append(s.memory, map[string]int{})
		for i := 0; i < *items && err == nil; i++ {
			s.memory[n][fmt.Sprint(i)] = 0
			err = s.call("PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"pk":{"S":"%d"},"n":{"N":"0"}}}`, name(n), i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func serve(handler http.Handler) (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return listener.Addr().String(), func() { _ = server.Close() }, nil
}

// configure writes the configuration of all workers.
func configure(dir, hooks string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\ntarget: {project: bench, instance: bench}\ncutover:\n  ready_when: {lag_held_for: 0s}\n  hooks:\n")
	for _, hook := range []string{"freeze_writes", "switch", "unfreeze_writes"} {
		fmt.Fprintf(&b, "    %s: http://%s/\n", hook, hooks)
	}
	if *setting != "" {
		fmt.Fprintln(&b, "  "+*setting)
	}
	var names []string
	for n := range *tables {
		names = append(names, name(n))
	}
	if !*alone && !*turns {
		fmt.Fprintf(&b, "  groups: {all: [%s]}\n", strings.Join(names, ", "))
	}
	fmt.Fprintln(&b, "tables:")
	for _, n := range names {
		fmt.Fprintf(&b, "  - from: %s\n", n)
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "replicator.yaml"), []byte(b.String()), 0o600), os.WriteFile(filepath.Join(dir, "aws"), nil, 0o600))
}

func round(n int) error {
	dir, err := os.MkdirTemp("", "freeze-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := embedded.Build(context.Background(), dir)
	if err != nil {
		return err
	}
	s := &site{moved: map[string]bool{}, source: dynamodbtest.New(dynamodbtest.Options{Region: embedded.Region, InitialShards: *shards}), frozen: make(chan struct{}), stopped: map[string]bool{}, since: map[string]time.Time{}}
	if err := s.fill(); err != nil {
		return err
	}
	source, stop, err := serve(s.source)
	if err != nil {
		return err
	}
	defer stop()
	hooks, stop, err := serve(s)
	if err != nil {
		return err
	}
	defer stop()
	target, err := bttest.NewServer("127.0.0.1:0", grpc.MaxRecvMsgSize(embedded.MaxMessage), grpc.MaxSendMsgSize(embedded.MaxMessage))
	if err != nil {
		return err
	}
	defer target.Close()
	if err := configure(dir, hooks); err != nil {
		return err
	}
	client, stop, err := embedded.Open(context.Background(), target.Addr)
	if err != nil {
		return err
	}
	defer stop()
	s.target = client
	workers := make([]*embedded.Worker, 2)
	for i := range workers {
		workers[i] = &embedded.Worker{Program: program, Dir: dir, Source: source, Target: target.Addr, Name: fmt.Sprint(i)}
		if err := workers[i].Start(); err != nil {
			return err
		}
		defer workers[i].Kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	run := func(arguments ...string) error {
		out, err := workers[0].Command(ctx, arguments...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("replicator %s: %w: %s", strings.Join(arguments, " "), err, out)
		}
		return nil
	}
	status := func() ([]byte, error) { return workers[0].Command(ctx, "cutover", "status", "-o", "json").Output() }
	for workers[1].Address() == "" && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	go s.write(ctx)
	if *kill {
		go func() {
			<-s.frozen
			time.Sleep(300 * time.Millisecond) // the first try is in its freeze
			workers[1].Kill()
			_ = workers[1].Start()
		}()
	}
	began := time.Now()
	if err := errors.Join(run("status", "--wait", "in_sync", "--timeout", "5m"), run("verify", "--full")); err != nil {
		return err
	}
	start := []string{"cutover", "start", "--keep-fallback", "no", "--yes", "--when-ready"}
	if *alone {
		start = append(start, "--all")
	}
	if *cancels {
		if err := s.cancelAttempts(run, status, start); err != nil {
			return err
		}
	}
	asked := time.Now()
	if *turns {
		for n := range *tables {
			if err := run(append(start, "--table", name(n))...); err != nil {
				return err
			}
		}
	} else if !s.switched() {
		if err := run(start...); err != nil {
			return err
		}
	}
	took := time.Since(asked)
	time.Sleep(5 * time.Second) // the application writes the target
	out, err := status()
	if err != nil {
		return err
	}
	cancel() // the application ends
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf("round %d: %d tables, %d shards in all: frozen %s; %d writes; ready after %.0f s, moment after %.0f s\n", n, *tables, *tables**shards,
		strings.Join(s.freezes, ", "), s.writes, asked.Sub(began).Seconds(), took.Seconds())
	different, rows, err := s.compare(context.Background())
	if err := errors.Join(err, s.failed); err != nil {
		return err
	}
	fmt.Printf("  %d rows compared with the application's memory: %d different; %d of %d groups switched\n", rows, different, len(s.moved), groups())
	for in := json.NewDecoder(bytes.NewReader(out)); in.More(); {
		var d struct {
			Tries []struct{ Reason string } `json:"given_up"`
		}
		if err := in.Decode(&d); err != nil {
			return err
		}
		for _, t := range d.Tries {
			fmt.Println("  abandoned:", t.Reason)
		}
	}
	return nil
}
