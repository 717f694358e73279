package environment

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

func lookup(env map[string]string) Lookup {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// noProfile is an environment without any AWS profile, whatever this machine has.
func noProfile(env map[string]string) Lookup {
	return func(name string) (string, bool) {
		if name == "AWS_CONFIG_FILE" || name == "AWS_SHARED_CREDENTIALS_FILE" {
			return os.DevNull, true
		}
		return lookup(env)(name)
	}
}

// TestH67StrayEmulatorVariable covers hazard H67, and the endpoint trap of the two AWS services.
func TestH67StrayEmulatorVariable(t *testing.T) {
	const both, table, streams = "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS"
	const bigtable, pubsub = "BIGTABLE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST"
	const url = "http://localhost:8000"
	var text bytes.Buffer
	for _, c := range []struct {
		name  string
		env   map[string]string
		allow bool
		want  []string
	}{
		{"clean", nil, false, nil},
		{"empty variables", map[string]string{table: "", bigtable: ""}, false, nil},
		{"both AWS endpoints", map[string]string{table: url, streams: url}, true, nil},
		{"the general endpoint", map[string]string{both: url}, true, nil},
		{"the general endpoint covers the other", map[string]string{both: url, table: url}, true, nil},
		{"tables only", map[string]string{table: url}, true, []string{diag.OneEndpoint}},
		{"streams only", map[string]string{streams: url, table: ""}, true, []string{diag.OneEndpoint}},
		{"allowing emulators does not allow half of one", map[string]string{table: url}, true, []string{diag.OneEndpoint}},
		{"Bigtable emulator", map[string]string{bigtable: "localhost:8086"}, false, []string{diag.EmulatorNotAllowed}},
		{"both emulators", map[string]string{bigtable: "localhost:8086", pubsub: "localhost:8085"}, false, []string{diag.EmulatorNotAllowed, diag.EmulatorNotAllowed}},
		{"allowed", map[string]string{bigtable: "localhost:8086", pubsub: "localhost:8085"}, true, nil},
	} {
		found := Check(noProfile(c.env), Allowed{Emulator: c.allow})
		var codes []string
		for _, e := range found {
			codes = append(codes, e.Code)
		}
		if strings.Join(codes, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %v, want %v", c.name, codes, c.want)
		}
		if err := found.Err(); err != nil && diag.ExitCode(err) != diag.ExitUsage {
			t.Errorf("%s: exit status %d", c.name, diag.ExitCode(err))
		}
		text.WriteString("# " + c.name + "\n")
		if err := found.Render(&text); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/environment.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("testdata/environment.txt (-want +got):\n%s", diff)
	}
}
