package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/bttest"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/beam/job"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// asProgram makes a process of this test binary the program.
const asProgram = "REPLICATOR_BEAM_TEST_PROGRAM"

// replicator is the path of the product's program.
var replicator string

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "replicator-beam")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		replicator = filepath.Join(dir, "replicator")
		build := exec.Command("go", "build", "-o", replicator, "./cmd/replicator")
		build.Dir = filepath.Join("..", "..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v: %s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// scene is a source with the table Orders, a target, and their migration.
type scene struct {
	*testing.T
	config string
	source *dynamodb.Client
	ledger *checkpoint.Ledger // nil before a worker has created it
	target *preflight.Target
	items  int
}

// newScene starts embedded services, and writes items. The argument `limits` is the section
// backfill of the configuration.
func newScene(t *testing.T, items int, limits string) *scene {
	t.Helper()
	bigtable, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bigtable.Close)
	dynamo := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{Seed: 1, InitialShards: 2}))
	t.Cleanup(dynamo.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": dynamo.URL, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": dynamo.URL, "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "BIGTABLE_EMULATOR_HOST": bigtable.Addr,
	} {
		t.Setenv(name, value)
	}
	s := &scene{T: t, config: filepath.Join(t.TempDir(), "replicator.yaml"), items: items}
	text := "version: 1\nname: beam\ntarget: { project: p, instance: i }\nstate: { lease: 5s }\ntables: [{ from: Orders }]\nbackfill: { " + limits + " }\n"
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.source = dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &dynamo.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if _, err := s.source.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}); err != nil {
		t.Fatal(err)
	}
	s.fill()
	cfg, err := config.Load(s.config, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if s.target, err = preflight.ConnectTarget(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.target.Close() })
	return s
}

// filler makes the tables large enough for many parts.
var filler = strings.Repeat("x", 500)

func (s *scene) fill() {
	s.Helper()
	const batch = 25
	for i := 0; i < s.items; i += batch {
		var put []types.WriteRequest
		for n := i; n < min(i+batch, s.items); n++ {
			put = append(put, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: fmt.Sprint("item-", n)}, "n": &types.AttributeValueMemberN{Value: fmt.Sprint(n)}, "filler": &types.AttributeValueMemberS{Value: filler},
			}}})
		}
		if _, err := s.source.BatchWriteItem(s.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"Orders": put}}); err != nil {
			s.Fatal(err)
		}
	}
}

// state reads the table's record; it is zero before a worker has created the ledger.
func (s *scene) state() checkpoint.TableState {
	s.Helper()
	if s.ledger == nil {
		store := s.target.Ledger("replicator_state")
		ledger, err := checkpoint.Open(s.Context(), store, "beam", checkpoint.Options{ReadOnly: true})
		if err != nil {
			return checkpoint.TableState{}
		}
		s.ledger = ledger
	}
	state, _, err := s.ledger.Table(s.Context(), "Orders")
	if err != nil {
		s.Fatal(err)
	}
	return state
}

// parts reads the rows of the running copy.
func (s *scene) parts() []checkpoint.Part {
	s.Helper()
	rows, err := s.ledger.PartsOf(s.Context(), s.state().LoadPart())
	if err != nil {
		s.Fatal(err)
	}
	return rows
}

// until waits for a condition, which other processes make true.
func (s *scene) until(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("it took too long until %s: %+v", what, s.state().Load)
		}
	}
}

// process is a running program.
type process struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	text bytes.Buffer
	done chan error
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (s *scene) start(environment []string, program string, arguments ...string) *process {
	s.Helper()
	p := &process{cmd: exec.Command(program, arguments...), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait(); close(p.done) }()
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if s.Failed() {
			s.Logf("%s: %s", strings.Join(arguments, " "), p.output())
		}
	})
	return p
}

// worker starts a worker.
func (s *scene) worker(arguments ...string) *process {
	s.Helper()
	return s.start(nil, replicator, append([]string{"run", "-c", s.config, "--allow-emulator", "--listen", "off"}, arguments...)...)
}

// job starts a launcher. The local runner copies one part after another, so a job must not wait
// long for a part that another process holds.
func (s *scene) job(name string) *process {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	return s.start([]string{asProgram + "=1"}, self, "--config", s.config, "--table", "Orders", "--job_name", name, "--allow_emulator", "--patience", "2s")
}

// command runs a command of replicator.
func (s *scene) command(arguments ...string) {
	s.Helper()
	out, err := exec.Command(replicator, append(arguments, "-c", s.config, "--allow-emulator")...).CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v: %s", strings.Join(arguments, " "), err, out)
	}
}

// ends waits for the end of a process, which must succeed.
func (s *scene) ends(p *process) {
	s.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			s.Fatalf("%s failed: %v", strings.Join(p.cmd.Args[1:], " "), err)
		}
	case <-time.After(time.Minute):
		s.Fatalf("%s does not end", strings.Join(p.cmd.Args[1:], " "))
	}
}

// equal checks that the load is complete, that it counted each item once, and that a verify finds
// all rows equal.
func (s *scene) equal() {
	s.Helper()
	s.until("the load is complete", func() bool { return s.state().Loaded() })
	if got := s.state().Load.Items; got != int64(s.items) {
		s.Errorf("the load counted %d items, not %d", got, s.items)
	}
	s.command("verify")
}

// plan makes the worker plan a load.
func (s *scene) plan(mode checkpoint.LoadMode) {
	s.Helper()
	s.until("the table is registered", func() bool { return s.state().Generation > 0 })
	if _, err := s.ledger.UpdateTable(s.Context(), "Orders", func(state *checkpoint.TableState) error {
		err := state.AskLoad(time.Now(), false)
		state.Load.Mode = mode
		return err
	}); err != nil {
		s.Fatal(err)
	}
	s.until("the load is planned", func() bool { _, running := load.RunningCopy(s.state()); return running })
	if l := s.state().Load; l.Fast != (mode == checkpoint.FastLoad) {
		s.Fatalf("the load is not %s: %s", mode, l.Guarded)
	}
}

// A load is copied only by a job. The worker plans the load, dies, perhaps with a part, and another
// completes it. A task writes the rows as the plan says: guarded, or fast.
func TestALoadByAJobAlone(t *testing.T) {
	for _, mode := range []checkpoint.LoadMode{checkpoint.GuardedLoad, checkpoint.FastLoad} {
		t.Run(string(mode), func(t *testing.T) {
			s := newScene(t, 3000, "segments: 4")
			first := s.worker("--no-backfill")
			s.plan(mode)
			first.kill()
			job := s.job("alone")
			s.ends(job)
			rows := s.parts()
			if done := checkpoint.PartsDone(rows, s.state().Load.Parts); !done.Complete() {
				t.Errorf("%+v", done)
			}
			s.worker("--no-backfill")
			s.equal()
			if out := job.output(); !strings.Contains(out, "all parts are copied") {
				t.Errorf("the job logs %s", out)
			}
		})
	}
}

// Two jobs, a worker, and a worker that ends by itself share a fast load. One job is killed and
// submitted again, twice. The load is slow until each process has held parts.
func TestJobsAndWorkersTogether(t *testing.T) {
	s := newScene(t, 6000, "segments: 2, max_rows_per_second: 8")
	s.worker("--no-backfill")
	s.plan(checkpoint.FastLoad)
	killed := s.job("killed")
	owners := map[string]int{} // distinct owners by kind
	seen := map[string]bool{}
	hold := func(kind string, distinct int) {
		s.until(fmt.Sprintf("%d processes of kind %s held a part", distinct, kind), func() bool {
			for _, p := range s.parts() {
				if p.Owner == "" || p.Items == 0 || seen[p.Owner] {
					continue
				}
				seen[p.Owner] = true
				of := "worker"
				if job, lent := strings.CutPrefix(p.Owner, "beam/"); lent {
					of, _, _ = strings.Cut(job, "/")
				}
				owners[of]++
			}
			return owners[kind] >= distinct
		})
	}
	hold("killed", 1) // the others together could hold all parts for the whole test
	other, once := s.job("other"), s.worker("--once", "--idle", "2s")
	for distinct := range 2 {
		hold("killed", distinct+1)
		killed.kill()
		killed = s.job("killed")
	}
	hold("killed", 3)
	hold("worker", 2)
	hold("other", 1)
	if _, running := load.RunningCopy(s.state()); !running {
		t.Error("the load ended early")
	}
	s.command("throttle", "--table", "Orders", "--max-rows-per-second", "100000")
	for _, p := range []*process{other, killed, once} {
		s.ends(p)
	}
	s.equal()
}

// A job that succeeds proves nothing: the launcher reads the ledger, submits again while parts are
// left, and stops after jobs without progress.
func TestALauncherReadsTheLedger(t *testing.T) {
	s := newScene(t, 100, "segments: 2, max_rows_per_second: 1")
	s.worker()
	s.until("the load is planned", func() bool { _, running := load.RunningCopy(s.state()); return running })
	parts := s.state().Load.Parts
	submitted := []string{}
	l := &job.Launch{Config: s.config, Job: job.Job{Name: "idle", Table: "Orders", AllowEmulator: true, Patience: time.Second, AtMost: time.Second},
		Submit: func(_ context.Context, j job.Job) error {
			submitted = append(submitted, j.Name)
			if j.Parts != parts {
				t.Errorf("%+v", j)
			}
			return nil
		}}
	limited, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := l.Run(limited)
	if len(submitted) < 3 || err == nil || !strings.Contains(err.Error(), "parts are left") {
		t.Errorf("after %v: %v", submitted, err)
	}
	l.Submit = func(ctx context.Context, j job.Job) error {
		_, err := s.ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Load.Number++; return nil })
		return err
	}
	if err := l.Run(limited); !errors.Is(err, load.ErrReplaced) {
		t.Errorf("after another load has begun: %v", err)
	}
}
