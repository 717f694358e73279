package preflight

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// LedgerStore is the place of the ledger.
func LedgerStore(t *Target, cfg *config.Config) checkpoint.Store {
	return t.Ledger(cfg.State.Table)
}

// OpenLedger opens the ledger for a command that reads it and changes what an operator may change.
// It is nil, without an error, where no migration has begun. The command's name begins the id under
// which it writes, which is unique to this start of the program: by it the ledger recognizes its own
// writes. Version is that of the program.
func OpenLedger(ctx context.Context, store checkpoint.Store, cfg *config.Config, command, version string) (*checkpoint.Ledger, error) {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // it never fails, says its documentation
	ledger, err := checkpoint.Open(ctx, store, cfg.Name, checkpoint.Options{ReadOnly: true, Worker: command + "-" + hex.EncodeToString(id), Lease: cfg.State.Lease,
		About: checkpoint.About{Version: version}})
	if errors.Is(err, checkpoint.ErrNoLedger) || status.Code(err) == codes.NotFound {
		return nil, nil
	}
	return ledger, err
}
