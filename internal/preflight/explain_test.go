package preflight

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// plan creates what is missing, with the families of each kind of table: the state table has other
// families than targets.
func TestMissingTablesAreNotDescribed(t *testing.T) {
	for _, missing := range []*sink.SchemaError{{Problem: sink.MissingTable, Table: "replicator_state"},
		{Problem: sink.MissingFamily, Table: "replicator_state", Family: "ledger", Want: "maxversions=1"},
		{Problem: sink.MissingFamily, Table: "T", Family: "n", Want: "never:intsum"}} {
		var told *diag.Error
		if err := Explain("cannot begin", missing); !errors.As(err, &told) {
			t.Fatal(err)
		}
		fix := told.Facts().Fix
		if !strings.Contains(fix, "run `replicator plan --apply`") || strings.Contains(fix, "_cdc") || !strings.Contains(fix, missing.Family) {
			t.Errorf("%v: %s", missing, fix)
		}
	}
}

// Every error that ends a run has a code, and so a cause, a fix, a page and an exit status.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
		exit int
	}{
		{checkpoint.ErrMappingChanged, diag.MappingChanged, 2},
		{checkpoint.ErrLedgerExchanged, diag.LedgerLost, 1},
		{checkpoint.ErrForeignPipeline, diag.TargetTaken, 1},
		{checkpoint.ErrClusterChanged, diag.ClusterChanged, 1},
		{checkpoint.ErrFormat, diag.LedgerUnreadable, 1},
		{sink.ErrParkedLimit, diag.ParkedLimit, 1},
		{&sink.BadItem{Source: "T", Reason: "too long"}, diag.BadItemStop, 1},
		{&checkpoint.SourceError{Table: "T"}, diag.SourceMoved, 1},
		{&engine.KeyError{Table: "T"}, diag.SourceRekeyed, 1},
		{&engine.StreamError{Table: "T"}, diag.StreamDisabled, 1},
		{&engine.StreamError{Table: "T", View: "KEYS_ONLY"}, diag.StreamViewUnusable, 1},
		{&cdc.Error{Op: "GetRecords", Reason: cdc.Denied, Err: errors.New("denied")}, diag.SourceDenied, 1},
		{&cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable, Err: errors.New("gone")}, diag.SourceUnreachable, 1},
		{&sink.Error{Op: "ReadRows", Reason: sink.Denied, Code: "PermissionDenied"}, diag.TargetDenied, 1},
		{&sink.Error{Op: "ReadRows", Reason: sink.Permanent, Code: "NotFound"}, diag.TargetNotFound, 1},
		{&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "FailedPrecondition"}, diag.ProfileNoTxn, 1},
		{&sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Unavailable"}, diag.TargetUnreachable, 1},
		{&sink.SchemaError{Problem: sink.MissingTable, Table: "T"}, diag.TargetTableMissing, 1},
		{&sink.SchemaError{Problem: sink.MissingFamily, Table: "T", Family: "d"}, diag.FamilyMissing, 1},
		{&sink.SchemaError{Problem: sink.EatsVersions, Table: "T", Family: "_cdc"}, diag.FamilyGC, 1},
		{&sink.SchemaError{Problem: sink.WrongAge, Table: "T", Family: "_cdc_gone"}, diag.FamilyGC, 1},
		{&sink.ProfileError{Problem: sink.MultiCluster}, diag.ProfileMulti, 1},
		{&sink.ProfileError{Problem: sink.NoTransactions}, diag.ProfileNoTxn, 1},
		{&sink.ProfileError{Problem: sink.MissingProfile}, diag.TargetNotFound, 1},
	} {
		got := Explain("something failed", fmt.Errorf("in a step: %w", c.err))
		if !diag.Has(got, c.code) || diag.ExitCode(got) != c.exit {
			t.Errorf("%v: %v with exit status %d; want %s and %d", c.err, got, diag.ExitCode(got), c.code, c.exit)
		}
	}
}

// An error about a refused control plane does not mention single-row transactions or the network.
func TestExplainControlPlane(t *testing.T) {
	for _, op := range []string{"CreateAppProfile", "CreateTable", "ModifyColumnFamilies"} {
		for code, reason := range map[string]sink.Reason{"FailedPrecondition": sink.Permanent, "InvalidArgument": sink.Rejected} {
			err := ExplainTarget("cannot create", &sink.Error{Op: op, Reason: reason, Code: code, Text: "why"})
			var known *diag.Error
			if !errors.As(err, &known) || known.Code == diag.ProfileNoTxn || known.Fix == "" || !strings.Contains(known.Error(), "why") {
				t.Errorf("%s, %s: %+v", op, code, known)
			}
		}
	}
}

// plan creates an app profile that is named, but never one called default.
func TestMissingProfileIsCreatedByWhoCan(t *testing.T) {
	for name, byPlan := range map[string]bool{"replicator": true, "default": false} {
		fix := profileFix(&sink.ProfileError{Problem: sink.MissingProfile, Instance: "i", Profile: name})
		if strings.Contains(fix, "plan --apply") != byPlan || !strings.Contains(fix, "app-profiles create replicator --instance=i --route-to=CLUSTER --transactional-writes") {
			t.Errorf("%s: %s", name, fix)
		}
	}
}

// An advised command is valid for a shell and cbt. A family for an aggregate is created as one,
// because it cannot become one later.
func TestAdviceIsForShells(t *testing.T) {
	for want, e := range map[string]*sink.SchemaError{
		"cbt createfamily T d && cbt setgcpolicy T d maxversions=1, or run `replicator plan --apply`, or set target.create_missing: true":                 {Problem: sink.MissingFamily, Want: "maxversions=1"},
		"cbt createfamily T d && cbt setgcpolicy T d 'maxversions=1 || maxage=30d', or run `replicator plan --apply`, or set target.create_missing: true": {Problem: sink.MissingFamily, Want: "maxversions=1 || maxage=30d"},
		"cbt createfamily T d:never:intsum, or run `replicator plan --apply`, or set target.create_missing: true":                                         {Problem: sink.MissingFamily, Want: "never:intsum"},
		"cbt createfamily T 'd:maxversions=1 && maxversions=2:intsum', or run `replicator plan --apply`, or set target.create_missing: true":              {Problem: sink.MissingFamily, Want: "maxversions=1 && maxversions=2:intsum"},
		"cbt setgcpolicy T d 'maxversions=1 || (maxage=30d && maxversions=3)'":                                                                            {Problem: sink.WrongRule, Want: "maxversions=1 || (maxage=30d && maxversions=3)"},
		"cbt setgcpolicy T d maxage=14d": {Problem: sink.WrongAge, Want: "maxage=14d"},
		"cbt setgcpolicy T d never":      {Problem: sink.EatsVersions, Want: "never:intsum"},
	} {
		e.Table, e.Family = "T", "d"
		if got := schemaFix(e); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

func TestExplainLedger(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.PermissionDenied:   diag.TargetDenied,
		codes.NotFound:           diag.TargetNotFound,
		codes.FailedPrecondition: diag.ProfileNoTxn,
		codes.Unavailable:        diag.TargetUnreachable,
	} {
		if err := ExplainLedger("what", fmt.Errorf("read: %w", status.Error(code, "why"))); !diag.Has(err, want) {
			t.Errorf("%s: %v, want %s", code, err, want)
		}
	}
	known := &diag.Error{Code: diag.CutoverRefused, What: "said"}
	if err := ExplainLedger("what", known); err != error(known) {
		t.Errorf("an error that is explained already becomes %v", err)
	}
	if err := ExplainLedger("what", checkpoint.ErrFormat); !diag.Has(err, diag.LedgerUnreadable) {
		t.Errorf("a newer format: %v", err)
	}
	if Explain("what", nil) != nil {
		t.Error("no error is none")
	}
	unforeseen := errors.New("unforeseen")
	if Explain("what", unforeseen) != unforeseen {
		t.Error("what nobody foresaw must stay as it is")
	}
}

// The first line of a run names both AWS services if their endpoints differ, and marks endpoints that
// are not Amazon's as EMULATOR.
func TestBothEndsNameEndpoints(t *testing.T) {
	const tables, streams, vpc = "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"
	cfg := &config.Config{Target: config.Target{Project: "p", Instance: "i"}}
	profile := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(profile, []byte("[default]\nendpoint_url = http://localhost:8000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{tables: "http://localhost:8000", streams: "http://localhost:8000"}, " at EMULATOR localhost:8000"},
		{map[string]string{"AWS_ENDPOINT_URL": "http://amazonaws.com.example"}, " at EMULATOR amazonaws.com.example"},
		{map[string]string{tables: vpc, streams: vpc}, " at vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"},
		{map[string]string{tables: vpc, streams: "http://localhost:8000"}, " at vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com, streams at EMULATOR localhost:8000"},
		{map[string]string{"AWS_CONFIG_FILE": profile}, " at EMULATOR localhost:8000"},
		{map[string]string{"AWS_CONFIG_FILE": profile, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, ""},
	} {
		env := map[string]string{"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull}
		maps.Copy(env, c.env)
		got := BothEnds(cfg, "eu-west-1", func(name string) (string, bool) { value, ok := env[name]; return value, ok })
		if want := "DynamoDB eu-west-1" + c.want + " → Bigtable p/i"; got != want {
			t.Errorf("%v: %s, want %s", c.env, got, want)
		}
	}
}
