package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/sink"
)

const realConfiguration = `version: 1
target: { project: p, instance: i }
tables:
  - from: S3ExportTest
    families: { d: maxversions=1 }
    rules: [{ columns: { "*": { to: d, as: dynamodb_json } } }]
`

// TestARealExportIsLoaded: the commands load an export that AWS wrote, and the table then has its
// items. Only two things in its summary are changed: the table's id, which the embedded DynamoDB
// draws itself, and the time, because the export is years old.
func TestARealExportIsLoaded(t *testing.T) {
	t.Parallel()
	s, stop, err := startEmbedded(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	s.dynamo = dynamodbtest.New(dynamodbtest.Options{Seed: 1, Region: "eu-central-1", AccountID: "164221962816"})
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	s.endpoint = server.URL
	if err := s.call("CreateTable", map[string]any{
		"TableName": "S3ExportTest", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": []map[string]string{{"AttributeName": "id", "AttributeType": "S"}},
		"KeySchema":           []map[string]string{{"AttributeName": "id", "KeyType": "HASH"}},
		"StreamSpecification": map[string]any{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
	}); err != nil {
		t.Fatal(err)
	}
	configuration := filepath.Join(t.TempDir(), "replicator.yaml")
	if err := os.WriteFile(configuration, []byte(realConfiguration), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(arguments ...string) string {
		t.Helper()
		cmd := exec.Command("replicator", append(arguments, "-c", configuration, "--allow-emulator")...)
		cmd.Env = append(append(os.Environ(), s.environment()...), "AWS_REGION=eu-central-1", "AWS_CONFIG_FILE=/nowhere", "AWS_SHARED_CREDENTIALS_FILE=/nowhere")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
	command("run", "--once", "--idle", "200ms", "--no-backfill", "--listen", "off")
	folder := s.copyOfTheRealExport(t)
	command("backfill", "start", "--table", "S3ExportTest", "--export", folder, "--whole-export")
	command("run", "--once", "--idle", "200ms", "--no-backfill", "--listen", "off")
	if out := command("backfill", "status"); !strings.Contains(out, "done") {
		t.Error(out)
	}
	want, got := itemsOf(t, folder), s.itemsOfRows(t, "S3ExportTest")
	if len(want) != 3 || !slices.Equal(got, want) {
		t.Errorf("the rows hold\n%s\nand the export holds\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// copyOfTheRealExport returns the folder of the copied export.
func (s *embedded) copyOfTheRealExport(t *testing.T) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.endpoint, strings.NewReader(`{"TableName":"S3ExportTest"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.DescribeTable")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	described, err := io.ReadAll(response.Body)
	_, id, found := bytes.Cut(described, []byte(`"TableId":"`))
	id, _, ended := bytes.Cut(id, []byte(`"`))
	if err != nil || !found || !ended {
		t.Fatalf("%s, %v", described, err)
	}
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join(repository, "exports/testdata/full"))); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "AWSDynamoDB", "01715685260608-c488b4e1")
	summary := filepath.Join(folder, "manifest-summary.json")
	text, err := os.ReadFile(summary)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("11991185-e7ab-4da5-8bab-03f0db0b7bfd"), id, 1)
	text = bytes.Replace(text, []byte(`"exportTime":"2024-05-14T11:14:20.608Z"`), []byte(`"exportTime":"`+s.dynamo.Now().UTC().Format(time.RFC3339Nano)+`"`), 1)
	if err := os.WriteFile(summary, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// itemsOf returns the items of an export, as text.
func itemsOf(t *testing.T, folder string) (items []string) {
	t.Helper()
	root, name := exports.Split(folder)
	e, err := exports.Read(t.Context(), exports.Folder(root), name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.Files {
		r, err := e.Open(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		for {
			record, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := attribute.MarshalItem(record.New)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, string(text))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(items)
	return items
}

// itemsOfRows returns the items in the rows of a target table, whose cells are in DynamoDB's JSON.
func (s *embedded) itemsOfRows(t *testing.T, table string) (items []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+s.bigtable, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	b, err := sink.Connect(ctx, sink.Instance{Project: "p", Instance: "i"}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.ReadRows(ctx, table, sink.Range{}, func(row sink.Row) error {
		var attributes []string
		for _, c := range row.Cells {
			if c.Family == "d" {
				attributes = append(attributes, fmt.Sprintf("%q:%s", c.Qualifier, c.Value))
			}
		}
		if len(attributes) > 0 {
			items = append(items, "{"+strings.Join(attributes, ",")+"}")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(items)
	return items
}
