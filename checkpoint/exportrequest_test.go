package checkpoint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// TestH106_TokensOfExports: a repeated request has the same token for the service, and any other
// request has another one.
func TestH106_TokensOfExports(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	s := checkpoint.TableState{Source: "T", Generation: 7, Adopted: 7}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "one", checkpoint.Options{Worker: "w", ID: "1"})
	check(err)
	other, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "two", checkpoint.Options{Worker: "w", ID: "1"})
	check(err)
	seen := map[string]string{}
	take := func(name string) {
		t.Helper()
		for _, token := range []string{ledger.ExportToken(s), other.ExportToken(s)} {
			if before, known := seen[token]; known {
				t.Errorf("%s has the token of %s", name, before)
			}
			seen[token] = name
		}
	}
	check(s.RequestExport(at, false, checkpoint.ExportRequest{To: "s3://b"}))
	check(s.BeginExport(1, 7, at))
	take("the first")
	token := ledger.ExportToken(s)
	check(s.BeginExport(1, 7, at))
	check(s.AcceptExport(1, "arn/1"))
	if check(s.AcceptExport(1, "arn/1")); ledger.ExportToken(s) != token || s.ExportsAsked != 1 || s.Load.Request.Attempts != 1 {
		t.Errorf("the same again: %+v", s.Load.Request)
	}
	s.Generation, s.Adopted = 8, 8
	check(s.BeginExport(2, 8, at.Add(time.Hour)))
	if take("another generation"); s.Load.Request.ARN != "" || s.Load.Request.Attempts != 2 {
		t.Errorf("%+v", s.Load.Request)
	}
	check(s.FailExport(2, "no"))
	check(s.RequestExport(at, false, checkpoint.ExportRequest{To: "s3://b"}))
	check(s.BeginExport(3, 8, at.Add(time.Hour)))
	if take("asked for anew"); s.Load.Request.Attempts != 1 {
		t.Errorf("%+v", s.Load.Request)
	}
	check(s.FinishExport(3, checkpoint.Export{Address: "s3://b/AWSDynamoDB/3", ARN: "arn/3", At: at.Add(time.Hour)}))
	check(s.SealLoad(checkpoint.Plan{Generation: 8, Number: 1, Parts: 1, Source: "export", ExportARNs: []string{"arn/3"}, StartedAt: at}))
	s.Load.DoneAt, s.Load.SweptAt, s.Generation, s.Adopted = at, at, 9, 9
	check(s.RequestExport(at, false, checkpoint.ExportRequest{To: "s3://b"}))
	check(s.BeginExport(s.ExportsAsked+1, 9, at.Add(time.Hour)))
	take("another load")
}

// TestAnExportThatNobodyWishesForAnyMore: such an export changes nothing, and no load is sealed in
// its place.
func TestAnExportThatNobodyWishesForAnyMore(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	yet := func(name string, err error) {
		t.Helper()
		if refused := (*checkpoint.LoadError)(nil); !errors.As(err, &refused) || !refused.Yet {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := checkpoint.TableState{Source: "T", Generation: 7, Adopted: 7}
	if err := errors.Join(s.RequestExport(at, false, checkpoint.ExportRequest{To: "s3://b"}), s.BeginExport(1, 7, at)); err != nil {
		t.Fatal(err)
	}
	yet("a scan", s.SealLoad(checkpoint.Plan{Generation: 7, Number: 1, Parts: 1, Source: "scan", StartedAt: at}))
	yet("another attempt", s.AcceptExport(2, "arn"))
	yet("a number that was passed over", s.BeginExport(3, 7, at))
	yet("another generation", s.BeginExport(2, 6, at))
	if err := s.AskLoad(at, false); err != nil {
		t.Fatal(err)
	}
	yet("an answer", s.AcceptExport(1, "arn"))
	yet("an export", s.FinishExport(1, checkpoint.Export{Address: "s3://b", ARN: "arn"}))
	yet("a failure", s.FailExport(1, "no"))
	if s.Load.Request.Wanted() || s.Load.Export != (checkpoint.Export{}) {
		t.Errorf("%+v", s.Load)
	}
}

// TestAnExportThatIsRefused: the load is requested and waits until a new process withdraws it. A
// refusal does not replace an operator's request, but an operator's request replaces a refusal.
func TestAnExportThatIsRefused(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	s := checkpoint.TableState{Source: "Orders", Generation: 2, Adopted: 2, Load: checkpoint.Load{Number: 3, Before: 1}}
	if err := s.RefuseExport(at, "s3://b/AWSDynamoDB/1", "it has a filter"); err != nil {
		t.Fatal(err)
	}
	if s.Stage() != checkpoint.StageAsked || !s.Load.Request.Refused() {
		t.Errorf("%+v", s.Load)
	}
	if err := s.SealLoad(checkpoint.Plan{Generation: 2, Number: 4, Parts: 1, Source: "scan", StartedAt: at}); err == nil {
		t.Error("a scan takes the place of the export")
	}
	if err := s.RefuseExport(at, "s3://b/AWSDynamoDB/1", "it is too old"); err != nil || s.Load.Request.Failed != "it is too old" {
		t.Errorf("%v, %+v", err, s.Load.Request)
	}
	if err := s.ForgetRefusal(); err != nil || s.Stage() != checkpoint.StageNone || s.Load.Number != 3 || s.Load.Begun() != 1 {
		t.Errorf("%v, %+v", err, s.Load)
	}
	if err := s.AskLoad(at, false); err != nil {
		t.Fatal(err)
	}
	var refused *checkpoint.LoadError
	if err := s.RefuseExport(at, "s3://b/AWSDynamoDB/1", "it has a filter"); !errors.As(err, &refused) || !refused.Yet || s.Load.Request.Wanted() {
		t.Errorf("%v, %+v", err, s.Load)
	}
	if err := s.ForgetRefusal(); err != nil || s.Stage() != checkpoint.StageAsked {
		t.Errorf("%v, %+v", err, s.Load)
	}
}
