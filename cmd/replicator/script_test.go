package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
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
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/inspect"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func TestMain(m *testing.M) {
	// Most tests wait for processes, so more of them run in parallel than there are processors.
	// -parallel overrides this.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"replicator": main})
}

// TestScripts runs the program as a user would, one process per command, against services in this
// process.
func TestScripts(t *testing.T) {
	t.Parallel()
	play(t, "testdata/script")
}

// TestWaitingScripts does the same for scripts that wait ten seconds or more, for leases, settles
// and demos. make prove runs it; make test does not.
func TestWaitingScripts(t *testing.T) {
	t.Parallel()
	play(t, "testdata/waiting")
}

// scriptFiles returns the scripts of both tests whose names match a pattern.
func scriptFiles(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/script/" + pattern + ".txtar")
	waiting, failed := filepath.Glob("testdata/waiting/" + pattern + ".txtar")
	if err := errors.Join(err, failed); err != nil || len(files)+len(waiting) == 0 {
		t.Fatalf("no script %s: %v", pattern, err)
	}
	return append(files, waiting...)
}

func play(t *testing.T, folder string) {
	testscript.Run(t, testscript.Params{
		Dir:                 folder,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    exits,
			"services": withServices,
			"table":    withTable,
			"region":   inRegion,
			"account":  fromAccount,
			"allow":    allowAccount,
			"put":      func(ts *testscript.TestScript, _ bool, args []string) { eachItem(ts, args, "PutItem", "Item") },
			"delete":   func(ts *testscript.TestScript, _ bool, args []string) { eachItem(ts, args, "DeleteItem", "Key") },
			"fill":     fill,
			"refuse":   refuse,
			"replica":  func(ts *testscript.TestScript, _ bool, args []string) { servicesOf(ts).replica.Store(&args[0]) },
			"cloud":    withCloud,
			"putlong":  putLong,
			"split":    split,
			"trim":     trim,
			"rows":     printRows,
			"await":    await,
			"until":    untilOutput,
			"target":   changeTarget,
			"damage":   damage,
			"mended":   mended,
			"follows":  follows,
			"busy":     busy,
			"stream":   enableStream,
			"drop": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(servicesOf(ts).call("DeleteTable", map[string]any{"TableName": args[0]}))
			},
			"expire": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(servicesOf(ts).call("UpdateTimeToLive", map[string]any{"TableName": args[0], "TimeToLiveSpecification": map[string]any{"AttributeName": args[1], "Enabled": true}}))
			},
			"putexpired": putExpired,
			"sweep": func(ts *testscript.TestScript, _ bool, args []string) {
				_, err := servicesOf(ts).dynamo.SweepTTL(args[0])
				ts.Check(err)
			},
			"pubsub":       withPubSub,
			"topic":        withTopic,
			"subscription": withSubscription,
			"poison":       withPoison,
			"messages":     messages,
			"occupy":       occupy,
			"pack":         pack,
			"export":       export,
			"pass":         passTime,
			"moment":       moment,
			"whole":        window(true),
			"window":       window(false),
			"recovery":     recovery,
			"exports":      exportsAre,
			"serve-demo":   serveDemo,
			"demo-put":     putIntoDemo,
			"receiver":     withReceiver,
			"received":     received,
		},
		Setup: func(env *testscript.Env) error {
			// The AWS SDK must find neither the user's files nor an instance's metadata service.
			env.Setenv("AWS_CONFIG_FILE", "/nowhere")
			env.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
			env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			// Scripts read what a person at a terminal reads. TestEachLineOfStderrIsADocument reads
			// what a service writes otherwise.
			env.Setenv("REPLICATOR_LOG_FORMAT", "text")
			consumer, err := filepath.Abs("../../examples/relay/consumer.py")
			if err != nil {
				return err
			}
			env.Setenv("CONSUMER", consumer)
			wrapper, err := filepath.Abs("../../deploy/cutover/newest-token.sh")
			if err != nil {
				return err
			}
			env.Setenv("WRAPPER", wrapper)
			env.Values[slotKey{}] = &slot{}
			env.Values[damageKey{}] = new(*damaged)
			env.Values[receiverKey{}] = &receiver{}
			return nil
		},
	})
}

// pack FILE PACKED compresses a file with gzip.
func pack(ts *testscript.TestScript, _ bool, args []string) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, ts.ReadFile(args[0]))
	ts.Check(errors.Join(err, w.Close(), os.WriteFile(ts.MkAbs(args[1]), packed.Bytes(), 0o644)))
}

// exits CODE COMMAND… runs a command and checks its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("cannot run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// slot holds a script's services, once it has started them.
type (
	slotKey struct{}
	slot    struct {
		services *embedded
		regions  map[string]*embedded // DynamoDB by region, once a script has used a second one
		backup   *backup
		pubsub   *pstest.Server
	}
)

// services [WINDOW] starts the embedded services and points the script's environment at them. With a
// window, a way back is possible.
func withServices(ts *testscript.TestScript, _ bool, args []string) {
	var window time.Duration
	if len(args) > 0 {
		var err error
		window, err = time.ParseDuration(args[0])
		ts.Check(err)
	}
	s, stop, err := startEmbedded(window)
	ts.Check(err)
	ts.Defer(stop)
	for _, entry := range s.environment() {
		name, value, _ := strings.Cut(entry, "=")
		ts.Setenv(name, value)
	}
	ts.Value(slotKey{}).(*slot).services = s
}

func servicesOf(ts *testscript.TestScript) *embedded {
	s := ts.Value(slotKey{}).(*slot).services
	if s == nil {
		ts.Fatalf("no services: begin with `services`")
	}
	return s
}

// region NAME replaces DynamoDB by the one in another region. With the same name again, it is the
// same one.
func inRegion(ts *testscript.TestScript, _ bool, args []string) {
	before, of := servicesOf(ts), ts.Value(slotKey{}).(*slot)
	if of.regions == nil {
		of.regions = map[string]*embedded{"us-east-1": before}
	}
	s := of.regions[args[0]]
	if s == nil {
		s = &embedded{dynamo: dynamodbtest.New(dynamodbtest.Options{Seed: 1, Region: args[0]}), cloud: before.cloud, bigtable: before.bigtable}
		server := httptest.NewServer(http.HandlerFunc(s.serve))
		ts.Defer(func() { server.CloseClientConnections(); server.Close() })
		s.endpoint = server.URL
		of.regions[args[0]] = s
	}
	of.services = s
	for _, entry := range s.environment() {
		name, value, _ := strings.Cut(entry, "=")
		ts.Setenv(name, value)
	}
}

// table NAME VIEW creates a table.
func withTable(ts *testscript.TestScript, _ bool, args []string) {
	s := servicesOf(ts)
	if len(args) > 2 { // its age
		age, err := time.ParseDuration(args[2])
		ts.Check(err)
		s.behind.Store(int64(age))
		defer s.behind.Store(0)
	}
	ts.Check(s.create(args[0], args[1]))
}

// eachItem sends a request for each line of a file. A line is an item or a key in DynamoDB's JSON.
func eachItem(ts *testscript.TestScript, args []string, operation, field string) {
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		ts.Check(servicesOf(ts).call(operation, map[string]any{"TableName": args[0], field: json.RawMessage(line)}))
	}
}

// refuse OPERATION… makes DynamoDB deny these operations from now on; with ! it serves them again.
func refuse(ts *testscript.TestScript, not bool, args []string) {
	for _, operation := range args {
		if not {
			servicesOf(ts).refused.Delete(operation)
			continue
		}
		servicesOf(ts).refused.Store(operation, true)
	}
}

// fill TABLE COUNT writes COUNT items.
func fill(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	for i := range n {
		ts.Check(servicesOf(ts).call("PutItem", map[string]any{"TableName": args[0], "Item": map[string]any{
			"pk": map[string]string{"S": fmt.Sprintf("p%03d", i)}, "sk": map[string]string{"S": "1"}, "size": map[string]string{"N": "5"},
		}}))
	}
}

// putlong TABLE PK writes an item with an attribute name that is too long for Bigtable.
func putLong(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(servicesOf(ts).call("PutItem", map[string]any{"TableName": args[0], "Item": map[string]any{
		"pk": map[string]string{"S": args[1]}, "sk": map[string]string{"S": "1"},
		strings.Repeat("n", 17<<10): map[string]string{"S": "secret"},
	}}))
}

// putexpired TABLE writes an item whose attribute until is a minute in the past, and that DynamoDB
// has not removed yet.
func putExpired(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(servicesOf(ts).call("PutItem", map[string]any{"TableName": args[0], "Item": map[string]any{
		"pk": map[string]string{"S": "a"}, "sk": map[string]string{"S": "1"}, "colour": map[string]string{"S": "red"},
		"until": map[string]string{"N": strconv.FormatInt(time.Now().Add(-time.Minute).Unix(), 10)},
	}}))
}

// split TABLE splits its first open shard.
func split(ts *testscript.TestScript, _ bool, args []string) {
	s := servicesOf(ts)
	shards, err := s.dynamo.Shards(args[0])
	ts.Check(err)
	for _, shard := range shards {
		if shard.Open {
			_, err := s.dynamo.SplitShard(args[0], shard.ID)
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("no open shard")
}

// trim TABLE removes all records of the table's stream, as if they were 24 hours old.
func trim(ts *testscript.TestScript, _ bool, args []string) {
	s := servicesOf(ts)
	ts.Check(s.dynamo.TrimTo(args[0], s.dynamo.Now().Add(time.Second)))
}

// rows TABLE prints a target table: each row with its cells, without versions, and tombstones
// marked.
func printRows(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(writeRows(ts, args[0], ts.Stdout()))
}

// await REGEXP rows TABLE reads a target table repeatedly until the output of rows matches.
func await(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	for began := time.Now(); time.Since(began) < time.Minute; {
		var text bytes.Buffer
		if err := writeRows(ts, args[2], &text); err == nil && want.Match(text.Bytes()) {
			return
		}
	}
	ts.Fatalf("%s never has a row like %s", args[2], args[0])
}

// stream TABLE enables its stream.
func enableStream(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(servicesOf(ts).call("UpdateTable", map[string]any{"TableName": args[0],
		"StreamSpecification": map[string]any{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}}))
}

func writeRows(ts *testscript.TestScript, table string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+servicesOf(ts).bigtable, grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	b, err := sink.Connect(ctx, sink.Instance{Project: "p", Instance: "i"}, option.WithGRPCConn(conn))
	ts.Check(err)
	defer b.Close()
	return b.ReadRows(ctx, table, sink.Range{}, func(row sink.Row) error {
		switch {
		case strings.HasPrefix(row.Key, transform.WitnessPrefix):
			return nil
		case row.Gone != "" && len(row.Cells) == 0:
			_, err = fmt.Fprintf(out, "%s removed\n", row.Key)
			return err
		}
		_, err := fmt.Fprintf(out, "%s\n", row.Key)
		for _, c := range row.Cells {
			if err == nil {
				_, err = fmt.Fprintf(out, "  %s:%s %s\n", c.Family, c.Qualifier, inspect.Octets(c.Value))
			}
		}
		return err
	})
}

// occupy NAME takes a loopback port and puts its address into the environment.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// testConfiguration is the minimal configuration for tests that are not scripts. A fast load would only
// take longer.
const testConfiguration = "version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders, backfill_mode: guarded }]\n"

func writeTestConfiguration(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/replicator.yaml"
	if err := os.WriteFile(path, []byte(testConfiguration), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
