package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		var asked bytes.Buffer
		err := Confirm(context.Background(), strings.NewReader(answer), &asked, "Sure?")
		if (err == nil) != want || asked.String() != "Sure? [y/N] \n" {
			t.Errorf("%q: %v, asked %q", answer, err, asked.String())
		}
		if err != nil && diag.ExitCode(err) != diag.ExitUsage {
			t.Errorf("%q: exit status %d", answer, diag.ExitCode(err))
		}
	}
	silent, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("interrupted")
	cancel(stopped)
	if err := Confirm(ctx, silent, io.Discard, "Sure?"); !errors.Is(err, stopped) {
		t.Error("a signal does not end the question: ", err)
	}
}
