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

// LedgerStore returns the store of the ledger.
func LedgerStore(t *Target, cfg *config.Config) checkpoint.Store {
	return t.Ledger(cfg.State.Table)
}

// OpenLedger opens the ledger for a command that reads it and makes an operator's changes. It
// returns nil without an error if no migration has begun. The command writes to the ledger under an
// id that begins with the command's name and is unique to this process. The argument `version` is
// the program's version.
func OpenLedger(ctx context.Context, store checkpoint.Store, cfg *config.Config, command, version string) (*checkpoint.Ledger, error) {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // crypto/rand.Read never fails
	ledger, err := checkpoint.Open(ctx, store, cfg.Name, checkpoint.Options{ReadOnly: true, Worker: command + "-" + hex.EncodeToString(id), Lease: cfg.State.Lease,
		About: checkpoint.About{Version: version}})
	if errors.Is(err, checkpoint.ErrNoLedger) || status.Code(err) == codes.NotFound {
		return nil, nil
	}
	return ledger, err
}
