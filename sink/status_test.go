package sink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// H50, H65: reasons follow from the failure. A message reaches the text only in fixed words.
func TestH50_H65_Classify(t *testing.T) {
	const secret, named = "customer-4711", "Quota exceeded for quota metric 'Data write requests'"
	for _, c := range []struct {
		err        error
		reason     Reason
		repeatable bool
		text       string
	}{
		{status.Error(codes.DeadlineExceeded, secret), Unknown, true, ""},
		{status.Error(codes.Unavailable, secret), Unknown, true, ""},
		{status.Error(codes.Internal, secret), Unknown, true, ""},
		{status.Error(codes.Aborted, secret), Unknown, true, ""},
		{status.Error(codes.Canceled, secret), Unknown, true, ""},
		{status.Error(codes.DataLoss, secret), Unknown, true, ""},
		{status.Error(codes.Unknown, secret), Unknown, true, ""},
		{errors.New(secret), Unknown, true, ""},
		{fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), Unknown, true, ""},
		{status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`), Unknown, true,
			`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`},
		{status.Error(codes.ResourceExhausted, named+" and limit 'Writes per minute' of service 'bigtable.googleapis.com' for consumer 'project_number:1'."), Throttled, true,
			named + " and limit 'Writes per minute' of service 'bigtable.googleapis.com' for consumer 'project_number:1'"},
		{status.Error(codes.ResourceExhausted, named+" while writing "+secret), Throttled, true, named},
		{status.Error(codes.ResourceExhausted, named+" and limit '"+secret+strings.Repeat("x", 100)+"'"), Throttled, true, named},
		{status.Error(codes.ResourceExhausted, "row '"+secret+"': "+named), Throttled, true, "quota exceeded"},
		{status.Error(codes.ResourceExhausted, "Quota exceeded for "+secret), Throttled, true, "quota exceeded"},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5000000 vs. 4194304)"), Rejected, false, "the request is larger than the server accepts"},
		{status.Error(codes.ResourceExhausted, "Row size of 268435457 exceeds the limit"), Rejected, false, "the row is larger than Bigtable allows"},
		{status.Error(codes.ResourceExhausted, "table 'row size' is out of quota"), Throttled, true, "quota exceeded"},
		{status.Error(codes.FailedPrecondition, "The row is too large: '"+secret+"'"), Permanent, false, "the row is larger than Bigtable allows"},
		{status.Error(codes.PermissionDenied, "Access denied. Missing IAM permission: bigtable.tables.mutateRows. "+secret), Denied, true, "missing permission bigtable.tables.mutateRows"},
		{status.Error(codes.PermissionDenied, "Cloud Bigtable API has not been used in project "+secret+" before or it is disabled."), Denied, true, "the API has not been used in this project before, or it is disabled"},
		{status.Error(codes.PermissionDenied, "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: "+secret), Denied, true, "prohibited by the organization's policy (vpcServiceControls)"},
		{status.Error(codes.PermissionDenied, "Grant the caller a role with the serviceusage.services.use permission. "+secret), Denied, true, "missing permission serviceusage.services.use"},
		{status.Error(codes.Unauthenticated, secret), Denied, true, ""},
		{status.Error(codes.Unauthenticated, `transport: per-RPC creds failed due to error: auth: "invalid_grant"`), Denied, true, `transport: per-RPC creds failed due to error: auth: "invalid_grant"`},
		{status.Error(codes.InvalidArgument, "Row key "+secret+" is too long"), Rejected, false, ""},
		{status.Error(codes.OutOfRange, secret), Rejected, false, ""},
		{status.Error(codes.NotFound, "Error while mutating the row '"+secret+"' (projects/p/instances/i/tables/t) : Requested column family not found."), Permanent, false, "a column family does not exist"},
		{status.Error(codes.NotFound, `table "projects/p/instances/i/tables/`+secret+`" not found`), Permanent, false, "the table does not exist"},
		{status.Error(codes.NotFound, "Table not found: projects/p/instances/i/tables/family_photos"), Permanent, false, "the table does not exist"},
		{status.Error(codes.NotFound, "Table not found: projects/p/instances/app-profile/tables/"+secret), Permanent, false, "the table does not exist"},
		{status.Error(codes.NotFound, "table `family of 'app profile'` not found"), Permanent, false, "the table does not exist"},
		{status.Error(codes.NotFound, "The table 'appprofile_transactional' does not exist (projects/family:p/instances/i/tables/appprofile_transactional)."), Permanent, false, "the table does not exist"},
		{status.Error(codes.NotFound, "Error while mutating the row 'table app profile' (projects/p/instances/i/tables/table) : Requested column family not found."), Permanent, false, "a column family does not exist"},
		{status.Error(codes.NotFound, "projects/p/instances/tables/appProfiles/family was not found"), Permanent, false, "the app profile does not exist or does not allow single-row transactions"},
		{status.Error(codes.NotFound, "Instance projects/family/instances/tables not found"), Permanent, false, "the instance does not exist"},
		{status.Error(codes.NotFound, "Instance projects/p/instances/i not found"), Permanent, false, "the instance does not exist"},
		{status.Error(codes.FailedPrecondition, "Single-row transactions are not allowed by this app profile"), Permanent, false, "the app profile does not exist or does not allow single-row transactions"},
		{status.Error(codes.Unimplemented, secret), Permanent, false, ""},
		{status.Error(codes.Unknown, `unknown family "`+secret+`"`), Permanent, false, "a column family does not exist"},
	} {
		err := classify("CheckAndMutateRow", c.err)
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.reason || Repeatable(err) != c.repeatable || e.Text != c.text || e.Op != "CheckAndMutateRow" || e.Code == "" {
			t.Errorf("%v: %+v", c.err, e)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) || errors.Unwrap(err) != nil {
			t.Errorf("H65: item data shows in %v", err)
		}
	}
	if classify("x", nil) != nil {
		t.Error("no error became one")
	}
	if again := classify("y", classify("x", status.Error(codes.NotFound, ""))); again.(*Error).Op != "x" {
		t.Error("an Error was classified again")
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"ReadRows: outcome unknown (Unavailable)":                                       {Op: "ReadRows", Code: "Unavailable"},
		"CheckAndMutateRow: refused by the target (NotFound): the table does not exist": {Op: "CheckAndMutateRow", Reason: Permanent, Code: "NotFound", Text: "the table does not exist"},
	} {
		if e.Error() != want {
			t.Error(e)
		}
	}
}

// A refusal by the control plane is quoted, because its words name no item data: a disabled API
// differs from a missing permission. If row keys were sent, only fixed words are used.
func TestControlPlaneIsQuoted(t *testing.T) {
	const disabled = "Cloud Bigtable Admin API has not been used in project 1 before or it is disabled."
	const policy = "AppProfile 'replicator' would allow transactional writes in two clusters."
	for _, c := range []struct {
		err    error
		reason Reason
		text   string
	}{
		{status.Error(codes.PermissionDenied, disabled), Denied, disabled},
		{status.Error(codes.FailedPrecondition, policy), Permanent, policy},
		{status.Error(codes.Unavailable, ""), Unknown, ""},
		{context.DeadlineExceeded, Unknown, "context deadline exceeded"},
	} {
		var e *Error
		if err := classifyControl("CreateAppProfile", c.err); !errors.As(err, &e) || e.Reason != c.reason || e.Text != c.text || errors.Unwrap(err) != nil {
			t.Errorf("%v: %+v", c.err, e)
		}
	}
	if classifyControl("x", nil) != nil {
		t.Error("no error became one")
	}
	const secret = "customer-4711"
	split := TableSpec{Name: "t", SplitKeys: []string{secret}}
	for code, text := range map[codes.Code]string{codes.ResourceExhausted: "Quota exceeded for 'Tables per instance'", codes.PermissionDenied: disabled} {
		if err := split.refused(status.Error(code, text)); !strings.Contains(err.Error(), text) {
			t.Errorf("%s of a table with split keys: %v", code, err)
		}
	}
	for _, spec := range []TableSpec{{Name: "t"}, {Name: "t", SplitKeys: []string{secret}}} {
		err := spec.refused(status.Error(codes.InvalidArgument, "split key "+secret))
		if told := strings.Contains(err.Error(), secret); told != (len(spec.SplitKeys) == 0) {
			t.Errorf("H65: %d split keys, and %v", len(spec.SplitKeys), err)
		}
	}
}

// A new instance has no table, so a ping finds none, but the instance answers. Anything else that
// is not found remains an error in the service's words, and so do the client's errors while it
// opens connections.
func TestH141_PingOfAnEmptyInstance(t *testing.T) {
	for text, answers := range map[string]bool{
		"No tables found for instance projects/p/instances/i":        true,
		"No tables found for instance 1234/i":                        true,
		"Instance projects/p/instances/i not found":                  false,
		"Instance projects/p/instances/no tables found is not there": false,
		"App profile default not found":                              false,
		"":                                                           false,
	} {
		if got := ofNoTable(status.Error(codes.NotFound, text)); got != answers {
			t.Errorf("%q answers: %v", text, got)
		}
	}
	if err := classifyControl(ping, status.Error(codes.InvalidArgument, "bad")); !Is(err, Permanent) {
		t.Errorf("no row has a part in a ping: %v", err)
	}
	if ofNoTable(nil) || ofNoTable(status.Error(codes.PermissionDenied, "No tables found")) {
		t.Error("only what is not found is an empty instance")
	}
	const disabled = "Cloud Bigtable API has not been used in project 1 before or it is disabled."
	in := Instance{Project: "p", Instance: "i"}
	var e *Error
	if err := in.notOpened(fmt.Errorf("prime: %w", status.Error(codes.PermissionDenied, disabled))); !errors.As(err, &e) || e.Reason != Denied || e.Text != disabled || e.Op != "PingAndWarm" {
		t.Errorf("%+v", err)
	}
	missing := &os.PathError{Op: "open", Path: "key.json", Err: os.ErrNotExist}
	if err := in.notOpened(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%+v", err)
	}
}

// NotFound refers to the instance unless the message mentions an app profile.
func TestNoInstance(t *testing.T) {
	for text, want := range map[string]bool{
		"Instance projects/demo/instances/x not found":                      true,
		"Instance 'profiles' not found":                                     true,
		"App profile projects/p/instances/i/appProfiles/a not found":        false,
		"appProfile a of instance i does not exist":                         false,
		"Requested entity was not found":                                    false,
		"Table not found: projects/p/instances/instance/tables/my_instance": false,
	} {
		if got := NoInstance(fmt.Errorf("ping: %w", classifyControl(ping, status.Error(codes.NotFound, text)))); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if NoInstance(nil) || NoInstance(classifyControl(ping, status.Error(codes.PermissionDenied, "instance"))) {
		t.Error("something else than not found")
	}
}
