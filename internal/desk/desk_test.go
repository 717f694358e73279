package desk

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

const ofHere = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders/stream/L"

// scene is a migration of the tables Orders and Parts, with both ends in memory.
type scene struct {
	*testing.T
	Target
	Source
	store   *checkpointtest.Memory
	cluster string // the cluster to which the app profile routes
	stream  string // the stream of every source table
	id      string // the id of every source table
	calls   []string
	env     map[string]string
	stderr  bytes.Buffer
	cfg     *config.Config
	ledger  *checkpoint.Ledger
}

func (s *scene) Ledger(string) checkpoint.Store { return s.store }
func (s *scene) Cluster(context.Context) (string, error) {
	s.calls = append(s.calls, "cluster")
	return s.cluster, nil
}
func (s *scene) Close() error { s.calls = append(s.calls, "close"); return nil }

func (s *scene) Describe(_ context.Context, table string) (backfill.Description, error) {
	s.calls = append(s.calls, "describe "+table)
	return backfill.Description{Name: table, ID: s.id, StreamARN: s.stream, At: noon, PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}}, nil
}

// newScene returns a scene in which nothing is started yet.
func newScene(t *testing.T) *scene {
	t.Helper()
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}, {from: Parts}]\n"),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return &scene{T: t, store: &checkpointtest.Memory{}, cluster: "c1", stream: ofHere, id: "first", env: map[string]string{}, cfg: cfg}
}

// started returns a scene in which a worker follows Orders in cluster c1.
func started(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	var err error
	if s.ledger, err = checkpoint.Open(t.Context(), s.store, "test", checkpoint.Options{Worker: "w", ID: "l"}); err == nil {
		err = s.ledger.CheckCluster(t.Context(), "c1")
	}
	if err == nil {
		orders, _ := s.cfg.Table("Orders")
		_, err = s.ledger.UpdateTable(t.Context(), "Orders", func(state *checkpoint.TableState) error {
			state.StreamARN, state.Label, state.MappingHash, state.Generation = ofHere, "L", s.cfg.Hash(orders), 1
			state.Load = checkpoint.Load{Generation: 1, TableID: "first"}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stands sets the step of the cutover.
func (s *scene) stands(step checkpoint.CutoverStep) {
	s.Helper()
	if _, err := s.ledger.UpdateCutover(s.Context(), "", func(c *checkpoint.Cutover) error {
		c.Attempt, c.Step = 1, step
		return nil
	}); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) ends() Ends {
	return Ends{
		Target: func(context.Context, *config.Config) (Target, error) {
			s.calls = append(s.calls, "target")
			return s, nil
		},
		Source: func(context.Context, *config.Config) (Source, error) {
			s.calls = append(s.calls, "source")
			return s, nil
		},
	}
}

func (s *scene) open(r Request) (*Migration, error) {
	s.calls = nil
	s.stderr.Reset()
	r.With = " -c f"
	console := &terminal.Console{Stderr: &s.stderr, Env: func(name string) (string, bool) { v, ok := s.env[name]; return v, ok }}
	return s.ends().Open(s.Context(), console, s.cfg, r)
}

// codeOf returns the code of a refusal, or "".
func (s *scene) codeOf(err error) string {
	s.Helper()
	var told *diag.Error
	if err != nil && !errors.As(err, &told) {
		s.Fatalf("an operator reads %v", err)
	}
	if told == nil {
		return ""
	}
	return told.Code
}

// demand describes the refusals of a command, by code; "" is none.
type demand struct{ unstarted, elsewhere, requested, frozen, over, mapping, region, emulator string }

// The requirements of each command that opens a migration.
func TestWhatCommandsDemand(t *testing.T) {
	load := demand{diag.LoadRefused, diag.ClusterChanged, "", diag.CutoverRefused, diag.CutOver, "", "", diag.EmulatorNotAllowed}
	verify := demand{diag.VerifyRefused, diag.ClusterChanged, "", diag.CutoverRefused, diag.CutOver, "", "", diag.EmulatorNotAllowed}
	step := demand{diag.CutoverRefused, diag.ClusterChanged, "", "", "", "", "", diag.EmulatorNotAllowed}
	status := demand{"", diag.ClusterChanged, "", "", "", "", "", ""}
	record := demand{diag.CutoverRefused, diag.ClusterChanged, "", "", "", "", "", ""}
	parked := demand{"", diag.ClusterChanged, "", diag.CutoverRefused, diag.CutOver, "", "", diag.EmulatorNotAllowed}
	demands := map[string]demand{
		"explain": {"", diag.ClusterChanged, "", "", diag.CutOver, diag.MappingChanged, "", ""}, "status": {},
		"backfill status": {}, "verify status": {}, "parked list": {}, "parked show": {}, "relay dead-letter list": {},
		"backfill start": load, "backfill repair": load, "backfill pause": load, "backfill resume": load, "backfill redo": load, "backfill cancel": load,
		"throttle":                 {diag.LoadRefused, diag.ClusterChanged, "", "", diag.CutOver, "", "", diag.EmulatorNotAllowed},
		"pause":                    {diag.LoadRefused, diag.ClusterChanged, diag.CutoverRefused, diag.CutoverRefused, diag.CutOver, "", "", diag.EmulatorNotAllowed},
		"resume":                   {diag.LoadRefused, diag.ClusterChanged, "", "", diag.CutOver, "", "", diag.EmulatorNotAllowed},
		"failover":                 {diag.FailoverRefused, "", "", "", "", "", "", diag.EmulatorNotAllowed},
		"failover --source-region": {diag.FailoverRefused, diag.ClusterChanged, "", "", "", "", "", diag.EmulatorNotAllowed},
		"verify":                   {diag.VerifyRefused, diag.ClusterChanged, "", "", diag.CutOver, diag.MappingChanged, diag.SourceMoved, diag.EmulatorNotAllowed},
		"lend":                     {diag.LoadRefused, diag.ClusterChanged, "", diag.CutoverRefused, diag.CutOver, diag.MappingChanged, diag.SourceMoved, diag.EmulatorNotAllowed},
		"verify pause":             verify,
		"verify cancel":            verify,
		"verify resume":            {diag.VerifyRefused, diag.ClusterChanged, "", "", diag.CutOver, "", "", diag.EmulatorNotAllowed},
		"verify --repair": {diag.VerifyRefused, diag.ClusterChanged, "", diag.CutoverRefused, diag.CutOver, diag.MappingChanged, diag.SourceMoved,
			diag.EmulatorNotAllowed},
		"verify --reverse": {diag.VerifyRefused, diag.ClusterChanged, "", "", "", diag.MappingChanged, "", diag.EmulatorNotAllowed},
		"parked retry":     parked, "parked drop": parked, "relay dead-letter drop": {"", diag.ClusterChanged, "", "", "", "", "", diag.EmulatorNotAllowed},
		"cutover check":   {diag.CutoverRefused, diag.ClusterChanged, "", "", "", diag.MappingChanged, diag.SourceMoved, diag.EmulatorNotAllowed},
		"cutover start":   {diag.CutoverRefused, diag.ClusterChanged, "", "", "", diag.MappingChanged, diag.SourceMoved, diag.EmulatorNotAllowed},
		"cutover approve": step, "cutover postpone": step, "cutover cancel": step, "cutover resolve": step, "cutover rollback": step, "cutover end-fallback": step,
		"cutover status": status, "cutover evidence": record,
		"finalize": {diag.CutoverRefused, diag.ClusterChanged, "", "", "", "", "", diag.EmulatorNotAllowed},
	}
	for command := range commands {
		want, listed := demands[command]
		if !listed {
			t.Errorf("%s is not in this table", command)
			continue
		}
		t.Run(command, func(t *testing.T) {
			got := func(s *scene) string {
				t.Helper()
				m, err := s.open(Request{Command: command})
				if opened := slices.Contains(s.calls, "target"); err != nil && opened != slices.Contains(s.calls, "close") {
					t.Errorf("refused after %v: %v", s.calls, err)
				}
				if err == nil && m.Close() != nil {
					t.Error("it does not close")
				}
				return s.codeOf(err)
			}
			cutover := func(step checkpoint.CutoverStep) string { s := started(t); s.stands(step); return got(s) }
			have := demand{unstarted: got(newScene(t)), requested: cutover(checkpoint.CutoverRequested), frozen: cutover(checkpoint.CutoverVerify), over: cutover(checkpoint.CutoverDone)}
			s := started(t)
			s.cluster = "c2"
			have.elsewhere = got(s)
			s = started(t)
			if _, err := s.ledger.UpdateTable(t.Context(), "Orders", func(state *checkpoint.TableState) error { state.MappingHash = "another"; return nil }); err != nil {
				t.Fatal(err)
			}
			have.mapping = got(s)
			s = started(t)
			s.stream = strings.Replace(ofHere, "eu-west-1", "us-east-1", 1)
			have.region = got(s)
			s = started(t)
			s.stream = strings.Replace(ofHere, "stream/L", "stream/M", 1)
			renewed := got(s)
			s = started(t)
			s.id = "another"
			if other := got(s); renewed != other || (other != "") != (want.mapping != "" && want.region != "") {
				t.Errorf("with another stream it is refused by %q, with another table of the name by %q", renewed, other)
			}
			s = started(t)
			s.env["BIGTABLE_EMULATOR_HOST"] = "localhost:1"
			have.emulator = got(s)
			if have != want {
				t.Errorf("refusals are %+v, want %+v", have, want)
			}
			if code := got(started(t)); code != "" {
				t.Errorf("a migration in order is refused: %s", code)
			}
			for _, over := range []checkpoint.CutoverStep{checkpoint.CutoverCancelled, checkpoint.CutoverRehearsed} {
				if code := cutover(over); code != "" {
					t.Errorf("after a cutover that was %s it is refused: %s", over, code)
				}
			}
		})
	}
}

// While writes are frozen, or the application is being moved, commands that would change what is
// compared are refused. Before that, commands that make the gates ready are allowed.
func TestStepsOfACutover(t *testing.T) {
	// For backfill start and for pause.
	for step, want := range map[checkpoint.CutoverStep][2]string{
		checkpoint.CutoverRequested: {"", diag.CutoverRefused}, checkpoint.CutoverChecks: {"", diag.CutoverRefused},
		checkpoint.CutoverFreeze: {diag.CutoverRefused, diag.CutoverRefused}, checkpoint.CutoverDrain: {diag.CutoverRefused, diag.CutoverRefused},
		checkpoint.CutoverVerify: {diag.CutoverRefused, diag.CutoverRefused}, checkpoint.CutoverFence: {diag.CutoverRefused, diag.CutoverRefused},
		checkpoint.CutoverSwitching: {diag.CutoverRefused, diag.CutoverRefused}, checkpoint.CutoverCancelling: {diag.CutoverRefused, diag.CutoverRefused},
		checkpoint.CutoverWatching: {diag.CutOver, diag.CutOver}, checkpoint.CutoverDone: {diag.CutOver, diag.CutOver},
	} {
		s := started(t)
		s.stands(step)
		for i, command := range []string{"backfill start", "pause"} {
			_, err := s.open(Request{Command: command, Table: "Orders"})
			if got := s.codeOf(err); got != want[i] {
				t.Errorf("%s at %s: %q, want %q", command, step, got, want[i])
			}
			if cancels := err != nil && strings.Contains(err.(*diag.Error).Fix, "cutover cancel -c f"); cancels != (want[i] == diag.CutoverRefused && step.Cancellable()) {
				t.Errorf("%s at %s: %v", command, step, err)
			}
		}
	}
}

// The checks have a fixed order, so that a later refusal never hides an earlier one.
func TestOrderOfTheChecks(t *testing.T) {
	s := started(t)
	s.env["BIGTABLE_EMULATOR_HOST"] = "localhost:1"
	expect := func(r Request, code, calls, stderr string) {
		t.Helper()
		_, err := s.open(r)
		if got := s.codeOf(err); got != code || strings.Join(s.calls, ", ") != calls || s.stderr.String() != stderr {
			t.Errorf("%q after %v\n%s", got, s.calls, &s.stderr)
		}
	}
	const named = "Bigtable p/i EMULATOR at localhost:1\n"
	start := Request{Command: "cutover start", Table: "Order"}
	expect(start, diag.Usage, "", "")
	start.Table = "Orders"
	expect(start, diag.EmulatorNotAllowed, "", "")
	start.Allowed.Emulator = true
	s.cluster, s.stream = "c2", "arn:aws:dynamodb:us-east-1:1:table/Orders/stream/L"
	expect(start, diag.ClusterChanged, "target, cluster, close", named)
	s.cluster = "c1"
	was := s.cfg.Tables[0]
	s.cfg.Tables[0].To = "elsewhere"
	expect(start, diag.MappingChanged, "target, cluster, close", named)
	s.cfg.Tables[0] = was
	s.stream = ofHere
	_, err := s.open(start)
	if err != nil || strings.Join(s.calls, ", ") != "target, cluster, source, describe Orders" || s.stderr.String() != named {
		t.Errorf("%v after %v\n%s", err, s.calls, &s.stderr)
	}
}

// An open migration has what the command asked for: the ledger, the tables, and the source's
// description of them. A command that only reads may ask the source later.
func TestWhatIsOpen(t *testing.T) {
	s := started(t)
	m, err := s.open(Request{Command: "verify"})
	if err != nil || m.Ledger == nil || len(m.Tables) != 2 || m.Tables[0].Mapping == nil || m.Tables[1].Description.Name != "Parts" || m.Ledger.ServiceTime(t.Context()).IsZero() {
		t.Fatalf("%+v, %v", m, err)
	}
	if !strings.HasPrefix(m.Ledger.Worker(), "verify-") {
		t.Errorf("it writes as %s", m.Ledger.Worker())
	}
	if m, err = s.open(Request{Command: "verify status", Table: "Parts"}); err != nil || len(m.Tables) != 1 || m.Tables[0].Mapping != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	s.env["AWS_ENDPOINT_URL_DYNAMODB"] = "http://localhost:8000"
	if err := m.Connect(t.Context()); s.codeOf(err) != diag.OneEndpoint {
		t.Errorf("with one of two endpoints: %v", err)
	}
	s.env["AWS_ENDPOINT_URL_DYNAMODB_STREAMS"] = "http://localhost:8000" // an emulator, which a reading command may read
	for range 2 {
		if err := m.Connect(t.Context()); err != nil || m.Tables[0].Mapping == nil || strings.Join(s.calls, ", ") != "target, source, describe Parts" {
			t.Errorf("%v after %v", err, s.calls)
		}
	}
	s = newScene(t)
	if m, err = s.open(Request{Command: "backfill status"}); err != nil || m.Ledger != nil || len(m.Tables) != 2 {
		t.Errorf("%+v, %v", m, err)
	}
}

// From its first answer on, the time of a migration is the source's, whatever this machine's clock
// shows.
func TestTimeOfAMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unstarted, err := newScene(t).open(Request{Command: "verify status"})
		if err != nil || !unstarted.Now(t.Context()).Equal(time.Now()) {
			t.Fatal(err)
		}
		m, err := started(t).open(Request{Command: "verify status", Table: "Orders"})
		if err != nil || !m.Now(t.Context()).Equal(time.Now()) {
			t.Fatal(err)
		}
		if err := m.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := m.Now(t.Context()); !got.Equal(noon.Add(time.Minute)) || got.Location() != time.UTC {
			t.Errorf("the time is %s", got)
		}
	})
}

// A command about single tables describes only those, connects once, and refuses the region of
// another table too.
func TestDescribeOneTable(t *testing.T) {
	s := started(t)
	m, err := s.open(Request{Command: "throttle"})
	if err != nil || m.From != nil || m.To == nil {
		t.Fatalf("%+v, %v", m, err)
	}
	for range 2 {
		if d, err := m.Describe(t.Context(), "Parts"); err != nil || d.Name != "Parts" {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if got := strings.Join(s.calls, ", "); got != "target, cluster, source, describe Parts, describe Parts" || m.Tables[1].Mapping == nil {
		t.Errorf("after %s", got)
	}
	if !m.Now(t.Context()).Before(noon.Add(time.Hour)) {
		t.Error("its time is not the ledger's")
	}
	s.stream = strings.Replace(ofHere, "eu-west-1", "us-east-1", 1)
	if _, err := m.Describe(t.Context(), "Orders"); s.codeOf(err) != diag.SourceMoved {
		t.Errorf("of another region: %v", err)
	}
	if _, err := m.Describe(t.Context(), "Order"); s.codeOf(err) != diag.LoadRefused {
		t.Errorf("of no table: %v", err)
	}
}

// "Not started yet" has the same words for the migration and for a table.
func TestNotStarted(t *testing.T) {
	s := newScene(t)
	for table, what := range map[string]string{"": "the migration is not started yet", "Parts": "table Parts is not started yet"} {
		_, err := s.open(Request{Command: "pause", Table: table})
		var told *diag.Error
		if !errors.As(err, &told) || told.What != what || told.Cause != "no ledger with the name test is in table replicator_state" ||
			told.Fix != "start the workers: replicator run -c f" {
			t.Errorf("%v", err)
		}
	}
	s = started(t)
	m, err := s.open(Request{Command: "pause", Table: "Parts"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.NotStarted("Parts"); s.codeOf(err) != diag.LoadRefused || err.(*diag.Error).Cause != "it has no record in ledger test of table replicator_state" {
		t.Errorf("%v", err)
	}
	if _, err := s.open(Request{Command: "no such command"}); err == nil {
		t.Error("a command without demands is opened")
	}
}

// A refusal names the command and its object.
func TestRefusalsNameTheCommand(t *testing.T) {
	for r, want := range map[Request]string{
		{Command: "verify pause"}:                 "cannot pause the verify of test",
		{Command: "parked drop", Table: "Orders"}: "cannot drop parked items of table Orders",
	} {
		s := started(t)
		s.cluster = "c2"
		_, err := s.open(r)
		var told *diag.Error
		if !errors.As(err, &told) || told.What != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Once the application has left one table, commands for that table are refused, and commands for all tables
// leave it out: they neither describe it nor refuse the others. A cutover of one group keeps a command from
// the tables of that group only.
func TestACommandIsForTheTablesThatStay(t *testing.T) {
	s := started(t)
	stands := func(group string, step checkpoint.CutoverStep) {
		_, err := s.ledger.UpdateCutover(t.Context(), group, func(c *checkpoint.Cutover) error {
			c.Attempt, c.Step, c.Group, c.Tables = 1, step, group, []string{group}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	stands("Parts", checkpoint.CutoverDone)
	if _, err := s.open(Request{Command: "verify", Table: "Parts"}); s.codeOf(err) != diag.CutOver {
		t.Errorf("the table that was left: %v", err)
	}
	m, err := s.open(Request{Command: "verify"})
	if err != nil || len(m.Tables) != 1 || m.Tables[0].Config.From != "Orders" || m.Left() != nil || slices.Contains(s.calls, "describe Parts") {
		t.Errorf("all tables: %v, %v, %v", err, m, s.calls)
	}
	if m, err := s.open(Request{Command: "cutover check"}); err != nil || len(m.Tables) != 2 || slices.Contains(s.calls, "describe Parts") {
		t.Errorf("a command about cutovers: %v, %v", err, s.calls)
	}
	stands("Orders", checkpoint.CutoverDrain)
	if _, err := s.open(Request{Command: "backfill start", Table: "Orders"}); s.codeOf(err) != diag.CutoverRefused || !strings.Contains(err.Error(), "a cutover of Orders is running") {
		t.Errorf("a table whose group is frozen: %v", err)
	}
	stands("Orders", checkpoint.CutoverDone)
	if _, err := s.open(Request{Command: "verify"}); s.codeOf(err) != diag.CutOver {
		t.Errorf("all tables, all left: %v", err)
	}
}
