package replicate_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/replicate"
)

// run copies and drains the table once, and returns the log and the error.
func (s *side) run(t *testing.T, options ...replicate.Option) (log string, err error) {
	t.Helper()
	var out bytes.Buffer
	r := s.replicator(t, append(options, replicate.Once(time.Second), replicate.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))...)
	err = r.Run(t.Context())
	return out.String(), err
}

// cell returns the only cell of an order in the target; "" if there is none.
func (s *side) cell(t *testing.T, id, column string) string {
	t.Helper()
	row, err := s.target.ReadRow(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range row["o"] {
		if cell.Column == column {
			return string(cell.Value)
		}
	}
	return ""
}

// A changed mapping is refused, and accepted on request.
func TestAcceptMappingChange(t *testing.T) {
	s := newSide(t)
	s.put("1", "new")
	if log, err := s.run(t); err != nil || s.cell(t, "1", "o:state") != "new" {
		t.Fatalf("%v\n%s", err, log)
	}
	s.config.Tables[0].Columns[0].To = "o:status"
	var e *replicate.Error
	if _, err := s.run(t); !errors.As(err, &e) || e.Code != diag.MappingChanged {
		t.Errorf("%v", err)
	}
	if _, err := s.run(t, replicate.AcceptMappingChange()); !errors.As(err, &e) || e.Code != diag.NeedsLoad || s.cell(t, "1", "o:state") != "new" {
		t.Errorf("without a load: %v", err)
	}
	s.config.Backfill.OnGap = "load"
	log, err := s.run(t)
	if state, status := s.cell(t, "1", "o:state"), s.cell(t, "1", "o:status"); err != nil || status != "new" || state != "" {
		t.Errorf("state %q, status %q, %v\n%s", state, status, err, log)
	}
}

// Rows of a target table are overwritten only on request.
func TestAdoptRows(t *testing.T) {
	s := newSide(t)
	s.put("1", "new")
	conn, err := grpc.NewClient("passthrough:///"+s.config.Target.Emulator, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	admin, err := bigtable.NewAdminClient(t.Context(), "my-project", "my-instance", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreateTableFromConf(t.Context(), &bigtable.TableConf{TableID: "Orders", Families: map[string]bigtable.GCPolicy{"o": bigtable.MaxVersionsPolicy(1)}}); err != nil {
		t.Fatal(err)
	}
	row := bigtable.NewMutation()
	row.Set("o", "state", 0, []byte("old"))
	if err := s.target.Apply(t.Context(), "1", row); err != nil {
		t.Fatal(err)
	}
	var e *replicate.Error
	if _, err := s.run(t); !errors.As(err, &e) || e.Code != diag.TargetHoldsRows || s.cell(t, "1", "o:state") != "old" {
		t.Errorf("%v", err)
	}
	if log, err := s.run(t, replicate.AdoptRows()); err != nil || s.cell(t, "1", "o:state") != "new" {
		t.Errorf("%v\n%s", err, log)
	}
}

// Without a backfill, only the stream is applied.
func TestNoBackfill(t *testing.T) {
	s := newSide(t)
	s.put("1", "new")
	log, err := s.run(t, replicate.NoBackfill())
	if strings.Contains(log, "copy") || s.cell(t, "1", "o:state") != "new" {
		t.Errorf("%v\n%s", err, log)
	}
}

// Options for Bigtable's clients can name another endpoint and credentials.
func TestBigtableOptions(t *testing.T) {
	s := newSide(t)
	s.put("1", "new")
	address := s.config.Target.Emulator
	s.config.Target.Emulator = ""
	log, err := s.run(t, replicate.WithBigtableOptions(option.WithEndpoint(address), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))))
	if err != nil || s.cell(t, "1", "o:state") != "new" {
		t.Errorf("%v\n%s", err, log)
	}
	if strings.Contains(log, "EMULATOR at "+address) {
		t.Errorf("a configured endpoint is called an emulator: %s", log)
	}
}
