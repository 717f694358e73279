package dualwrite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// language is one in which the documentation has the recipe.
type language struct{ program, fence, file, driver string }

// TestRecipes runs the code of the documentation as it stands there, where its language is installed:
// it makes the vectors' requests, and writes both stores beside a worker.
func TestRecipes(t *testing.T) {
	vectors, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []language{{"python3", "python", "recipe.py", "drive.py"}, {"node", "js", "recipe.mjs", "drive.mjs"}} {
		t.Run(l.fence, func(t *testing.T) {
			dir := l.extract(t)
			if _, err := exec.LookPath(l.program); err != nil {
				t.Logf("its code was found, and not run: %v", err)
				return
			}
			checkRequests(t, l.run(t, dir, vectors, "vectors"), vectors)
			l.live(t, dir)
		})
	}
}

// extract writes the page's code, and what drives it, into a directory.
func (l language) extract(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/how-to/dual-writes-recipe.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(page), "\n```"+l.fence+"\n")
	code, _, closed := strings.Cut(code, "\n```\n")
	driver, err := os.ReadFile(filepath.Join("testdata", l.driver))
	if !found || !closed || err != nil {
		t.Fatalf("no code in %s (%v)", l.fence, err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, l.file), []byte(code+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, l.driver), driver, 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (l language) run(t *testing.T, dir string, input []byte, args ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), l.program, append([]string{l.driver}, args...)...)
	var failures bytes.Buffer
	c.Dir, c.Stdin, c.Stderr = dir, bytes.NewReader(input), &failures
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", l.program, args, err, failures.String())
	}
	return out
}

func checkRequests(t *testing.T, out, text []byte) {
	t.Helper()
	var vectors []vector
	var requests [][]json.RawMessage
	if err := errors.Join(json.Unmarshal(text, &vectors), json.Unmarshal(out, &requests)); err != nil || len(requests) != len(vectors) {
		t.Fatalf("%d requests for %d vectors, %v", len(requests), len(vectors), err)
	}
	for i, v := range vectors {
		if len(requests[i]) != len(v.Rows) {
			t.Errorf("%s: %d requests, want %d", v.Name, len(requests[i]), len(v.Rows))
			continue
		}
		for n, row := range v.Rows {
			if got, want := canonical(t, requests[i][n]), canonical(t, row.Request); !bytes.Equal(got, want) {
				t.Errorf("%s: row %d\n got %s\nwant %s", v.Name, n, got, want)
			}
		}
	}
}

// live has the recipe write both stores beside a worker. Then the stream brings the same.
func (l language) live(t *testing.T, dir string) {
	yaml, err := os.ReadFile("testdata/replicator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, string(yaml))
	s.replicate(t)
	last := item(t, string(l.run(t, dir, nil, "live", restOf(t), os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"))))
	for _, by := range []string{"the application", "the stream"} {
		found := s.rows(t)
		if len(found) != 7 || found["y#1#a d:note"] != "new" || found["y#1#a d:rev"] != number(last) ||
			!strings.HasPrefix(found["y#1#a version"], "n0000000"+number(last)+".0.") || found["x#1#a gone"] == "" {
			t.Errorf("as %s wrote it: %s", by, found)
		}
		if written := strings.HasSuffix(found["y#1#a version"], ".0000"); written != (by == "the application") {
			t.Errorf("as %s wrote it: version %s", by, found["y#1#a version"])
		}
		s.replicate(t)
	}
}

// restOf serves Bigtable's REST API before the embedded service: for the two methods that the recipe
// calls, requests and answers in proto's JSON, and gRPC's codes as HTTP's.
func restOf(t *testing.T) string {
	t.Helper()
	connection, err := grpc.NewClient(os.Getenv("BIGTABLE_EMULATOR_HOST"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	client := bigtablepb.NewBigtableClient(connection)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), ":")
		body, err := io.ReadAll(r.Body)
		var answers []proto.Message
		switch {
		case err != nil:
		case method == "checkAndMutateRow":
			var in bigtablepb.CheckAndMutateRowRequest
			if err = protojson.Unmarshal(body, &in); err == nil && in.TableName == name {
				var out *bigtablepb.CheckAndMutateRowResponse
				out, err = client.CheckAndMutateRow(r.Context(), &in)
				answers = append(answers, out)
			}
		case method == "readRows":
			in := bigtablepb.ReadRowsRequest{TableName: name}
			if err = protojson.Unmarshal(body, &in); err == nil {
				in.TableName = name
				answers, err = readAll(client.ReadRows(r.Context(), &in))
			}
		}
		if err != nil || len(answers) == 0 && method != "readRows" {
			code := http.StatusBadRequest
			if strings.Contains(status.Convert(err).Message(), "unknown family") { // Bigtable's own code is NotFound
				code = http.StatusNotFound
			}
			w.WriteHeader(code)
			return
		}
		texts := make([]string, len(answers))
		for i, answer := range answers {
			text, _ := protojson.Marshal(answer)
			texts[i] = string(text)
		}
		out := strings.Join(texts, ",")
		if method == "readRows" { // a stream is an array
			out = "[" + out + "]"
		}
		_, _ = io.WriteString(w, out)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v2/"
}

func readAll(stream grpc.ServerStreamingClient[bigtablepb.ReadRowsResponse], err error) (answers []proto.Message, _ error) {
	for err == nil {
		var answer *bigtablepb.ReadRowsResponse
		if answer, err = stream.Recv(); err == nil {
			answers = append(answers, answer)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return answers, err
}
