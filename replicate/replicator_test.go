package replicate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/replicate"
)

// anyone are credentials that the embedded DynamoDB accepts.
var anyone = aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("any", "thing", "")}

// side is a source and a target with the table Orders, and the configuration between them.
type side struct {
	*table
	config replicate.Config
}

func newSide(t *testing.T) *side {
	t.Helper()
	endpoint, emulator, closed := services()
	t.Cleanup(closed)
	return &side{newTable(t.Context(), anyone, endpoint, emulator), replicate.Config{
		Source:   replicate.Source{Endpoint: endpoint},
		Target:   replicate.Target{Project: "my-project", Instance: "my-instance", Emulator: emulator},
		Tables:   []replicate.Table{{From: "Orders", Columns: []replicate.Column{{Attribute: "state", To: "o:state"}}, YAML: "families: { o: maxversions=1 }"}},
		Backfill: replicate.Backfill{Mode: "guarded"},
		YAML:     "version: 1\nstate: { lease: 5s }\n", // sweeps wait for a lease
	}}
}

func (s *side) replicator(t *testing.T, options ...replicate.Option) *replicate.Replicator {
	t.Helper()
	r, err := replicate.New(s.config, append(options, replicate.WithAWSConfig(anyone))...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Two replicators of one process use their own endpoints. They change nothing of the process, and
// write only to their loggers.
func TestTwoReplicators(t *testing.T) {
	limit, log, output := debug.SetMemoryLimit(-1), slog.Default(), captured(t)
	sides := []*side{newSide(t), newSide(t)}
	logs := make([]bytes.Buffer, len(sides))
	var g errgroup.Group
	for i, s := range sides {
		s.put("1", fmt.Sprint("of side ", i))
		r := s.replicator(t, replicate.Once(time.Second), replicate.WithLogger(slog.New(slog.NewTextHandler(&logs[i], nil))))
		g.Go(func() error { return r.Run(t.Context()) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, s := range sides {
		row, err := s.target.ReadRow(t.Context(), "1")
		if err != nil || len(row["o"]) != 1 || string(row["o"][0].Value) != fmt.Sprint("of side ", i) {
			t.Errorf("side %d has %v, %v", i, row, err)
		}
		if text := logs[i].String(); !strings.Contains(text, "msg=started") || !strings.Contains(text, "ok=true") || strings.Contains(text, "of side") {
			t.Errorf("log of side %d: %s", i, text)
		}
	}
	if limit == 0 || debug.SetMemoryLimit(-1) != limit || limit != math.MaxInt64 && os.Getenv("GOMEMLIMIT") == "" || slog.Default() != log {
		t.Error("the memory limit or the default log has changed")
	}
	if text := output(); text != "" {
		t.Errorf("written to stdout or stderr: %s", text)
	}
}

// captured redirects stdout and stderr to a file, and returns a function that restores both and
// returns what was written.
func captured(t *testing.T) (output func() string) {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = file, file
	restore := func() { os.Stdout, os.Stderr = stdout, stderr }
	t.Cleanup(restore)
	return func() string {
		restore()
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// Status has the ledger's state before the first run, while nothing runs, and after it.
func TestStatus(t *testing.T) {
	s := newSide(t)
	s.put("1", "new")
	r := s.replicator(t, replicate.Once(time.Second))
	before, err := r.Status(t.Context())
	if err != nil || before.State != replicate.Preparing || before.Reason != "not_started" || len(before.Tables) != 1 || before.Tables[0].Lag != nil || len(before.NextSteps) == 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	if step := before.NextSteps[0]; step.Command != "replicator run" || step.Why == "" {
		t.Errorf("next step %+v", step)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := r.Wait(t.Context(), replicate.GoalCopied)
	if err != nil {
		t.Fatal(err)
	}
	one := after.Tables[0]
	if after.State != replicate.InSync || one.State != replicate.InSync || one.Source != "Orders" || one.Target != "Orders" || one.Lag == nil || one.Headroom == nil ||
		*one.Headroom < 23*time.Hour || *one.Headroom > 24*time.Hour || one.Since.IsZero() || one.Parked != 0 || time.Since(after.At).Abs() > time.Hour {
		t.Errorf("%+v", after)
	}
	text, err := after.Document()
	var document struct{ Schema, State string }
	if err != nil || json.Unmarshal(text, &document) != nil || document.Schema != "replicator.status/v1" || document.State != "in_sync" {
		t.Errorf("%s, %v", text, err)
	}
}

// A run that cannot start returns an *Error, and one whose context has ended returns nil.
func TestRunEnds(t *testing.T) {
	s := newSide(t)
	s.config.Tables[0].From = "Missing"
	var e *replicate.Error
	err := s.replicator(t, replicate.Once(time.Second)).Run(t.Context())
	if !errors.As(err, &e) || e.Code != diag.SourceNotFound || !strings.Contains(e.What, "Missing") || e.Fix == "" || !strings.HasPrefix(err.Error(), e.Code+": ") {
		t.Errorf("%+v (%v)", e, err)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("no more work"))
	s.config.Tables[0].From = "Orders"
	r := s.replicator(t)
	if err := r.Run(ended); err != nil {
		t.Errorf("with an ended context: %v", err)
	}
	if _, err := r.Wait(ended, replicate.GoalInSync); err == nil {
		t.Error("Wait has reached its goal without a worker")
	}
}

// Options are refused that no call can use.
func TestRefusals(t *testing.T) {
	s := newSide(t)
	var e *replicate.Error
	if _, err := replicate.New(s.config, replicate.Once(0)); !errors.As(err, &e) || e.Code != diag.Usage {
		t.Errorf("%v", err)
	}
	if _, err := s.replicator(t).Wait(t.Context(), "soon"); !errors.As(err, &e) || e.Code != diag.Usage || !strings.Contains(e.What, "soon") {
		t.Errorf("%v", err)
	}
}

// The states are those of the status document.
func TestStates(t *testing.T) {
	states := []replicate.State{replicate.Done, replicate.Cutover, replicate.Unknown, replicate.Paused, replicate.NeedsLoad, replicate.Stalled, replicate.Preparing,
		replicate.Copying, replicate.Sweeping, replicate.Parked, replicate.Differs, replicate.CatchingUp, replicate.InSync}
	if len(states) != len(standing.States) {
		t.Fatalf("%d states, %d in the document", len(states), len(standing.States))
	}
	for i, s := range standing.States {
		if string(states[i]) != string(s) {
			t.Errorf("state %d is %s, in the document %s", i, states[i], s)
		}
	}
}
