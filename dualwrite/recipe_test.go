package dualwrite_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// language is a language of the programs in examples/dualwrite.
type language struct {
	folder string
	run    func(t *testing.T, input []byte, args ...string) []byte // runs a driver from testdata
}

// programs is the folder of the programs.
const programs = "../examples/dualwrite"

// TestPrograms runs the programs of examples/dualwrite whose language is installed. The part
// without packages decides as the vectors say. In Python and Node, the program also writes both
// stores beside a worker.
func TestPrograms(t *testing.T) {
	text, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder, program string
		open            func(t *testing.T) language
	}{{"python", "python3", python}, {"node", "node", node}, {"java", "javac", java}} {
		t.Run(c.folder, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Logf("the programs in %s/%s are not run: %v", programs, c.folder, err)
				return
			}
			l := c.open(t)
			if c.folder == "java" { // it has no parser of JSON
				checkDecisions(t, l.run(t, linesOf(t, vectors), "vectors"), vectors)
				return
			}
			checkDecisions(t, l.run(t, text, "vectors"), vectors)
			l.live(t)
		})
	}
}

func python(t *testing.T) language {
	return language{"python", func(t *testing.T, input []byte, args ...string) []byte {
		return execute(t, input, []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + programs + "/python"}, "python3", append([]string{"testdata/drive.py"}, args...)...)
	}}
}

func node(t *testing.T) language {
	return language{"node", func(t *testing.T, input []byte, args ...string) []byte {
		return execute(t, input, nil, "node", append([]string{"testdata/drive.mjs"}, args...)...)
	}}
}

func java(t *testing.T) language {
	classes := t.TempDir()
	execute(t, nil, nil, "javac", "-J-XX:TieredStopAtLevel=1", "-d", classes, programs+"/java/Rows.java", "testdata/Drive.java")
	return language{"java", func(t *testing.T, input []byte, args ...string) []byte {
		return execute(t, input, nil, "java", append([]string{"-XX:TieredStopAtLevel=1", "-cp", classes, "Drive"}, args...)...)
	}}
}

func execute(t *testing.T, input []byte, env []string, program string, args ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	var failures bytes.Buffer
	c.Env, c.Stdin, c.Stderr = append(os.Environ(), env...), bytes.NewReader(input), &failures
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, args, err, failures.String())
	}
	return out
}

// linesOf returns vectors for a program that reads no JSON: lines of field, tab and value, with
// "end" after each vector.
func linesOf(t *testing.T, vectors []vector) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, v := range vectors {
		for side, text := range map[string]json.RawMessage{"old": v.Old, "new": v.New} {
			var values map[string]map[string]any
			if err := json.Unmarshal(text, &values); err != nil {
				t.Fatal(err)
			}
			for name, value := range values {
				for kind, content := range value {
					fmt.Fprintf(&b, "%s\t%s\t%s\t%v\n", side, name, kind, content)
				}
			}
		}
		fmt.Fprintf(&b, "at\t%d\nfence\t%s\nremembered\t%s\nend\n", v.At, v.Fence, cmp.Or(v.Remembered, "0"))
	}
	return b.Bytes()
}

// decision is a program's answer to a vector.
type decision struct {
	Requests  []json.RawMessage `json:"requests"`
	Number    string            `json:"number"`    // of the image; "" if the item is removed
	Condition string            `json:"condition"` // of the write to DynamoDB
}

func checkDecisions(t *testing.T, out []byte, vectors []vector) {
	t.Helper()
	var decisions []decision
	if err := json.Unmarshal(out, &decisions); err != nil || len(decisions) != len(vectors) {
		t.Fatalf("%d decisions for %d vectors, %v", len(decisions), len(vectors), err)
	}
	for i, v := range vectors {
		d := decisions[i]
		want, condition := "", "attribute_not_exists(#v)"
		if string(v.New) != "null" {
			want = number(item(t, string(v.New)))
		}
		if string(v.Old) != "null" && number(item(t, string(v.Old))) != "" {
			condition = "#v = :v"
		}
		if d.Number != want || d.Condition != condition || len(d.Requests) != len(v.Rows) {
			t.Errorf("%s: number %q under %q, %d requests; want %q under %q, %d", v.Name, d.Number, d.Condition, len(d.Requests), want, condition, len(v.Rows))
			continue
		}
		for n, row := range v.Rows {
			if got, want := canonical(t, d.Requests[n]), canonical(t, row.Request); !bytes.Equal(got, want) {
				t.Errorf("%s: row %d\n got %s\nwant %s", v.Name, n, got, want)
			}
		}
	}
}

// live runs the programs against both stores beside a worker. Then the stream brings the same
// changes, and the item that was created while Bigtable was unavailable.
func (l language) live(t *testing.T) {
	yaml, err := os.ReadFile("testdata/replicator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, string(yaml))
	s.replicate(t)
	last := item(t, string(l.run(t, nil, "live", restOf(t), os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"))))
	for _, by := range []string{"the application", "the stream"} {
		cells := 14
		if by == "the stream" {
			s.replicate(t)
			cells = 20
		}
		found := s.rows(t)
		if len(found) != cells || found["y#1#a d:note"] != "new" || found["y#1#a d:rev"] != number(last) ||
			!strings.HasPrefix(found["y#1#a version"], "n0000000"+number(last)+".0.") || found["x#1#a gone"] == "" || found["x#2#a gone"] == "" ||
			found["x#4#a d:rev"] != "70000000000000001" {
			t.Errorf("as %s wrote it: %s", by, found)
		}
		if written := strings.HasSuffix(found["y#1#a version"], ".0000"); written != (by == "the application") {
			t.Errorf("as %s wrote it: version %s", by, found["y#1#a version"])
		}
		if blind := found["x#3#a d:note"]; (blind == "blind") != (by == "the stream") {
			t.Errorf("as %s wrote it: what was created while Bigtable was away is %q", by, blind)
		}
	}
}

// restOf serves Bigtable's REST API in front of the embedded service, for the two methods that the
// recipe calls. Bodies are proto's JSON, and gRPC codes become HTTP codes.
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
