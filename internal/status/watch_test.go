package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func TestWatch(t *testing.T) {
	m := judged(TableInput{})
	var out, errs bytes.Buffer
	explain := func(failed error) error {
		_, err := fmt.Fprintln(&errs, failed)
		return err
	}
	for _, c := range []struct {
		name   string
		output string
		screen bool
		want   []string
	}{
		{"blocks", "text", false, []string{"2026-11-02T12:00:00Z\ntest   phase 1 of 5", "\n\n2026-11-02T12:00:00Z\ntest"}},
		{"lines of JSON", "json", false, []string{`{"schema":"replicator.status/v1"`, "}\n{\"schema\""}},
		{"a screen", "text", true, []string{"\x1b[Htest   phase 1 of 5", "12:00:00 UTC\x1b[K\n\x1b[J"}},
	} {
		out.Reset()
		errs.Reset()
		p := &terminal.Console{Stdout: &out, Output: c.output}
		ctx, cancel := context.WithCancelCause(context.Background())
		readings := 0
		read := func(context.Context) (*Document, error) {
			readings++
			switch readings {
			case 2:
				return nil, errors.New("the ledger cannot be read just now")
			case 4:
				cancel(terminal.Signalled{Signal: os.Interrupt})
			}
			return m, nil
		}
		err := watch(ctx, read, views(p, false, c.screen, explain), time.Nanosecond)
		if err == nil || diag.ExitCode(err) != diag.ExitInterrupted {
			t.Errorf("%s: ended with %v", c.name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in %q", c.name, want, out.String())
			}
		}
		told := errs.String()
		if c.screen {
			told = out.String()
		}
		if !strings.Contains(told, "the ledger cannot be read just now") {
			t.Errorf("%s: a failed reading is not told: %q", c.name, told)
		}
	}
	// If the first reading fails, the watch ends.
	p := &terminal.Console{Stdout: &out, Output: "text"}
	failure := errors.New("wrong project")
	if err := watch(context.Background(), func(context.Context) (*Document, error) { return nil, failure }, views(p, false, false, explain), time.Hour); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
