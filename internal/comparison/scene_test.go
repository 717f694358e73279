package comparison

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/test/kit/opened"
)

// scene is an operator with the kit's migration, whose ten items are in the target.
type scene struct {
	*kit.Migration
	stdout, stderr bytes.Buffer
}

func playScene(t *testing.T, script func(s *scene)) {
	t.Helper()
	kit.Play(t, kit.Parse(t, ""), func(m *kit.Migration) {
		s := &scene{Migration: m}
		for _, pk := range strings.Split("abcdefghij", "") {
			s.Must(m.Source.Put(m.Ctx, "Orders", kit.Item(pk, "total="+pk)))
		}
		m.Load("Orders")
		script(s)
	})
}

// operator returns an operator that prints documents.
func (s *scene) operator(change func(o *Operator)) *Operator {
	o := &Operator{
		Console: &terminal.Console{Stdout: &s.stdout, Stderr: &s.stderr, Env: func(string) (string, bool) { return "", false }, Output: "json"},
		Cfg:     s.Config, With: " -c f", Table: "Orders", Waits: true, Ends: opened.By(s.Migration),
		reach: func(*desk.Migration) ends { return ends{source: s.Source, target: s.Target, repair: s.Target} },
	}
	if change != nil {
		change(o)
	}
	return o
}

// begin starts a verify, and returns the document and the error's code.
func (s *scene) begin(change func(o *Operator)) (*Document, string) {
	s.Helper()
	return s.run(func(ctx context.Context) error { return s.operator(change).Begin(ctx) })
}

func (s *scene) run(command func(ctx context.Context) error) (*Document, string) {
	s.Helper()
	s.stdout.Reset()
	s.stderr.Reset()
	err := command(s.Ctx)
	code := ""
	for _, known := range []string{diag.RowsDiffer, diag.VerifyRefused, diag.VerifyWaits, diag.Usage, diag.Internal} {
		if diag.Has(err, known) {
			code = known
		}
	}
	if err != nil && code == "" {
		s.Fatal(err)
	}
	d := &Document{}
	if s.stdout.Len() == 0 {
		return d, code
	}
	s.valid()
	s.Must(json.Unmarshal(s.stdout.Bytes(), d))
	return d, code
}

// valid validates the printed document against its schema.
func (s *scene) valid() {
	s.Helper()
	var text, document any
	s.Must(errors.Join(json.Unmarshal(Schema, &text), json.Unmarshal(s.stdout.Bytes(), &document)))
	compiler := jsonschema.NewCompiler()
	s.Must(compiler.AddResource("verify.json", text))
	schema, err := compiler.Compile("verify.json")
	s.Must(err)
	if err := schema.Validate(document); err != nil {
		s.Error(err)
	}
}

// reading returns ends with the stream, so that no worker is needed.
func (s *scene) reading(*desk.Migration) ends {
	return ends{source: s.Source, target: s.Target, repair: s.Target, stream: s.Source.Open}
}

// unfollowed is the record of a table that no worker has followed.
func unfollowed(state *checkpoint.TableState) { state.Generation = 0 }
