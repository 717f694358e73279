package switchover

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/reverse"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Hooks returns the hooks of the configuration, with those of a rollback if they are given.
func Hooks(cfg *config.Config) (*hook.Hooks, error) {
	hooks, err := sectionHooks(cfg, "cutover.hooks.", cfg.Cutover.Hooks.ByStep(), "a cutover")
	if err == nil && cfg.Cutover.RollbackHooks.Given() {
		hooks.Rollback, err = sectionHooks(cfg, "cutover.rollback_hooks.", cfg.Cutover.RollbackHooks.ByStep(), "a rollback")
	}
	return hooks, err
}

// sectionHooks parses the hooks of a section of the configuration.
func sectionHooks(cfg *config.Config, section string, texts map[string]string, of string) (*hook.Hooks, error) {
	parsed := map[string]hook.Hook{}
	var without []string // a rollback needs all hooks
	if section == "cutover.hooks." {
		without = missing(cfg)
	}
	for _, name := range cutover.HookNames {
		if slices.Contains(without, name) {
			continue
		}
		text, key := texts[name], section+name
		if text == "" {
			return nil, &diag.Error{Code: diag.MissingValue, What: key + " is missing", Cause: of + " needs it to freeze, switch or unfreeze the application",
				Fix: "name an executable or an https:// address in the configuration"}
		}
		where := cfg.Where(key)
		h, err := hook.Parse(text, filepath.Dir(where.File))
		if err != nil {
			return nil, &diag.Error{Code: diag.InvalidValue, Pos: where, What: key + " cannot be called", Cause: err.Error()}
		}
		parsed[name] = h
	}
	return hook.New(parsed, nil, without...)
}

// missing returns the names of the hooks that are not configured, and that a cutover does not need.
func missing(cfg *config.Config) (names []string) {
	needed := cfg.Cutover.MissingHooks()
	for name, text := range cfg.Cutover.Hooks.ByStep() {
		if text == "" && !slices.Contains(needed, name) {
			names = append(names, name)
		}
	}
	return names
}

// Driver returns a driver. Without hooks, it can only judge gates.
func Driver(e Ends, hooks cutover.Hooks) *cutover.Driver {
	parking := sink.NewParking(e.Target.Records(e.Cfg.State.Table), e.Cfg.Name)
	d := &cutover.Driver{
		Ledger: e.Ledger, Fence: fence.Fence{Ledger: e.Ledger, Families: e.Target}, Hooks: hooks, Parked: parking.ItemsOf,
		Settings: cutover.Settings{
			Ready:   status.ReadyOf(e.Cfg),
			Call:    e.Cfg.Cutover.Hooks.Timeout,
			Carried: e.Timings.Carried,
		},
		Version: e.Version, Cluster: e.Cluster,
	}
	d.Announce, d.WayBack, d.Missing = e.announce, e.WayBack, missing(e.Cfg)
	if e.Source != nil {
		d.Source, d.Open = e.Source, e.Source.Open
		d.Verifier = verifier{e}
		if e.Freezing != nil {
			d.Freezer = e.freezer(func(step string, err error) {
				if d.Failed != nil {
					d.Failed(step, err)
				}
			})
		}
	}
	return d
}

// verifier makes the final comparisons of a cutover.
type verifier struct{ Ends }

// Begin begins a verify of all items. A verify of recent changes is not enough, because a row whose
// change was lost has no recent cell.
func (v verifier) Begin(ctx context.Context, state checkpoint.TableState) (uint32, error) {
	b, err := v.beginning(ctx, state)
	if err != nil {
		return 0, err
	}
	state, err = b.Begin(ctx, state)
	return state.Verify.Number, err
}

// Compare compares all items and rows in this process.
func (v verifier) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	b, err := v.beginning(ctx, state)
	if err != nil {
		return checkpoint.VerifyResult{}, err
	}
	return b.Compare(ctx, state)
}

// Sample compares random items in this process.
func (v verifier) Sample(ctx context.Context, state checkpoint.TableState, items int) (checkpoint.VerifyResult, error) {
	b, err := v.beginning(ctx, state)
	if err != nil {
		return checkpoint.VerifyResult{}, err
	}
	return b.SampleItems(ctx, state, items)
}

// Reverse compares all items and rows of a table that is cut over.
func (v verifier) Reverse(ctx context.Context, source string) (checkpoint.ReverseResult, error) {
	form, err := v.inverse(ctx, source)
	if err != nil {
		return checkpoint.ReverseResult{}, err
	}
	c := reverse.New(v.Ledger, form.Mapping, form.Types, v.Back.Read, v.Back.Rows)
	c.Frozen = true
	r, err := c.Compare(ctx)
	return r.ReverseResult, err
}

// beginning returns the settings with which a comparison of all items and rows begins.
func (v verifier) beginning(ctx context.Context, state checkpoint.TableState) (b comparison.Beginning, err error) {
	t, ok := v.Cfg.Table(state.Source)
	if !ok {
		return b, fmt.Errorf("table %s is not in the configuration of this process", state.Source)
	}
	found, err := preflight.DescribeTable(ctx, v.Source, t)
	if err != nil {
		return b, err
	}
	b = comparison.Beginning{Ledger: v.Ledger, Source: v.Source, Target: v.Target, Mapping: found.Mapping, Hash: v.Cfg.Hash(t),
		Items: found.Description.Items, Bytes: found.Description.Bytes, Late: v.Cfg.Late(t), Owned: t.Owned}
	if state.MappingHash != b.Hash {
		return b, checkpoint.ErrMappingChanged
	}
	return b, nil
}

// announce writes the current number of the fence into the witness row of a source table in a
// target table. It does so only if the application makes guarded writes, which need this number.
func (e Ends) announce(ctx context.Context, source, target string) error {
	if t, found := e.Cfg.Table(source); !found || !e.Cfg.DualWritten(t) || e.Cfg.Late(t) > 0 {
		return nil
	}
	state, _, err := e.Ledger.Table(ctx, source)
	i := slices.Index(state.Targets, target)
	if err != nil || i < 0 {
		return err
	}
	mark, err := fence.Marks(e.Ledger)(ctx, target)
	if err != nil {
		return err
	}
	at := checkpoint.Place{Store: e.Target.WitnessStore(target), Key: transform.WitnessKeyOf(source), Fence: cmp.Or(mark.Family, checkpoint.NoFence)}
	if i > 0 {
		at.Further = target
	}
	verdict, _, err := e.Ledger.Beat(ctx, source, at)
	if err == nil && verdict != checkpoint.Fine {
		err = fmt.Errorf("the witness of table %s in %s was changed by another program", source, target)
	}
	return err
}

// hashOf returns a hash of the mappings of all tables.
func hashOf(cfg *config.Config, tables []config.Table) string {
	h := sha256.New()
	for _, t := range tables {
		_, _ = fmt.Fprintf(h, "%s %s\n", t.From, cfg.Hash(t))
	}
	return hex.EncodeToString(h.Sum(nil))
}
