package loads

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// TestRefusalsOfExports: a problem that a retry may fix is not a refusal. A problem that an
// operator must fix comes with its fix.
func TestRefusalsOfExports(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nothing":       {nil, ""},
		"a bad file":    {preflight.ImagesFailed("s3://b/1", &exports.Error{Place: "x", What: "it is torn", Fix: "copy it again"}), "x: it is torn; copy it again"},
		"no permission": {preflight.ImagesFailed("s3://b/1", fs.ErrPermission), "permission denied; allow this identity"},
		"no answer":     {preflight.ImagesFailed("s3://b/1", errors.New("connection refused")), ""},
		"too old":       {&diag.Error{Code: diag.LoadRefused, Cause: "it is old", Fix: "ask\n  again"}, "it is old; ask again"},
		"another error": {&diag.Error{Code: diag.SourceDenied, Cause: "no"}, ""},
	} {
		if got := Refusal(c.err); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWhatALoadCopiesIsShown: the status names what a load copies, and which export it does not
// copy, with the command to retry.
func TestWhatALoadCopiesIsShown(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	full := checkpoint.Export{Address: "s3://b/1", At: at.Add(-time.Hour)}
	window := checkpoint.Export{Address: "s3://b/2", From: full.At, At: at}
	for want, l := range map[string]checkpoint.Load{
		"": {},
		"from the export s3://b/1, as of 2026-11-24T11:00:00Z":              {Export: full},
		"from the export s3://b/1 and 1 window, as of 2026-11-24T12:00:00Z": {Export: full, Windows: []checkpoint.Export{window}},
	} {
		if got := CopiedFrom(l); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if l.DoneAt = at; CopiedFrom(l) != "" {
			t.Errorf("a load that is over: %q", CopiedFrom(l))
		}
	}
	s := checkpoint.TableState{Source: "Orders", Generation: 2, Adopted: 2}
	if err := s.RefuseExport(at, "s3://b/1", "it has a filter"); err != nil {
		t.Fatal(err)
	}
	if why := NoExport(s); why != "the export s3://b/1 is refused: it has a filter" {
		t.Error(why)
	}
	if step, ok := Next(s, false, ""); !ok || step.Command != "replicator backfill start --table Orders --export s3://b/1" {
		t.Errorf("%+v", step)
	}
}
