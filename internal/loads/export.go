package loads

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// ImageMargin is the minimum difference between the age of tombstones and the age of an image that
// is written. It allows for clocks that differ, and for requests that are executed late. The
// shortest tombstone age is four days. So images up to 48 hours old are always written. That is
// twice the stream's retention. So a change that the stream still holds is never too old, even with
// a fast clock or after hours of throttling.
const ImageMargin = 48 * time.Hour

// ImageAge returns the maximum age of an image that is written.
func ImageAge(cfg *config.Config) time.Duration { return cfg.State.TombstoneAge - ImageMargin }

// named holds the images of the exports that a request names, in order. The images were checked
// against the table.
type named struct {
	records []checkpoint.Export
	size    source.Size
}

func (e *named) String() string {
	text := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	first, last := e.records[0], e.records[len(e.records)-1]
	what := "the " + source.Noun(first.Address) + " of " + text(first.At)
	switch n := len(e.records); {
	case !first.From.IsZero():
		what = fmt.Sprintf("%s of changes from %s to %s", terminal.Plural(n, "window"), text(first.From), text(last.At))
	case n > 1:
		what += fmt.Sprintf(" and %s up to %s", terminal.Plural(n-1, "window"), text(last.At))
	}
	return fmt.Sprintf("from %s: %s in %s", what, terminal.Plural(int(e.size.Items), "item"), terminal.Plural(e.size.Files, "file"))
}

// readImages reads the exports that the request names. It refuses exports that no worker could
// load, before the load is requested.
func (o *Operator) readImages(ctx context.Context, m *desk.Migration, in *Input, r Request) (*named, error) {
	if len(r.From) > checkpoint.MaxExports {
		return nil, diag.BadUsage(fmt.Sprintf("%d exports are named, but a load takes at most %d", len(r.From), checkpoint.MaxExports), "request a newer full export, and name only it and the windows that follow it")
	}
	if err := m.Connect(ctx); err != nil {
		return nil, err
	}
	t := in.Tables[0]
	x := Examiner{Cfg: o.Cfg, Source: m.From, Env: o.Env, Whole: r.Whole, SayWhole: "add --whole-export"}
	e, d, err := x.read(ctx, t.Config, r.From, r.Repair)
	if err != nil {
		return nil, err
	}
	if !e.records[0].From.IsZero() {
		if err := o.mends(ctx, m.From, t.State, e.records[0]); err != nil {
			return nil, err
		}
	}
	shards, err := in.ledger.Shards(ctx, t.Config.From)
	if err != nil {
		return nil, explain(ctx, "cannot read the ledger in table "+in.Cfg.State.Table, err)
	}
	return e, x.admits(t, shards, d, e)
}

// sourceEnd holds the requests to DynamoDB that describe tables and exports.
type sourceEnd interface {
	preflight.Describer
	source.Reporter
	// Recovery returns a table's settings for point-in-time recovery, on which exports depend.
	Recovery(ctx context.Context, table string) (backfill.Recovery, error)
	// OpenFolder opens the folder from which a load copies. It returns the store and the folder's
	// name in the store.
	OpenFolder(ctx context.Context, env config.Lookup, address string) (store source.Store, name string, err error)
}

// Examiner reads the exports of loads, and checks whether they can be loaded.
type Examiner struct {
	Cfg    *config.Config
	Source sourceEnd
	Env    config.Lookup
	// Whole is an operator's confirmation that the export contains the whole table. It is needed if
	// DynamoDB cannot confirm that. SayWhole tells the operator how to confirm it.
	Whole    bool
	SayWhole string
}

// read opens the named exports of a table, and proves that they are complete and that no time
// between them is missing. With repair, incremental exports without a full export are allowed.
func (x Examiner) read(ctx context.Context, t config.Table, names []string, repair bool) (*named, backfill.Description, error) {
	var d backfill.Description
	addresses := make([]string, len(names))
	for i, name := range names {
		var err error
		if addresses[i], err = source.Parse(name); err != nil {
			return nil, d, preflight.ImagesFailed(name, err)
		}
	}
	images, err := source.Open(ctx, source.Ends{Table: t.From, Folders: x.folder}, addresses...)
	var failed *source.OpenError
	if errors.As(err, &failed) {
		return nil, d, preflight.ImagesFailed(failed.Address, failed.Err)
	}
	table, err := preflight.DescribeTable(ctx, x.Source, t)
	if err != nil {
		return nil, d, err
	}
	windows := images.Windows()
	alone := repair && windows
	images, err = images.Fit(source.Wanted{Table: table.Description, Mapping: table.Mapping, Late: x.Cfg.Late(t), Alone: alone})
	if err != nil {
		var fault *source.Fault
		if errors.As(err, &fault) && windows && !alone {
			fault.Fix += "; to repair a gap with incremental exports alone, add --repair-gap"
		}
		return nil, d, preflight.ImagesFailed(strings.Join(names, ", "), err)
	}
	if err := images.Whole(ctx, source.Proof{Service: x.Source, Said: x.Whole, Say: x.SayWhole}); err != nil {
		return nil, d, unproven(err)
	}
	return &named{images.Records(), images.Size()}, table.Description, nil
}

// folder opens a folder in the same way as a worker.
func (x Examiner) folder(ctx context.Context, address string) (source.Store, string, error) {
	return x.Source.OpenFolder(ctx, x.Env, address)
}

// unproven returns the error for an export without proof that it is complete.
func unproven(err error) error {
	var failed *source.OpenError
	if told := (*diag.Error)(nil); errors.As(err, &told) || !errors.As(err, &failed) {
		return err
	}
	return preflight.ExplainSource("cannot verify that the "+source.Noun(failed.Address)+" "+failed.Address+" contains the whole table", "", failed.Err)
}

// Unfit returns the error for an export with images that must not be applied to the table.
func Unfit(address string, d backfill.Description, cause string) *diag.Error {
	return &diag.Error{Code: diag.LoadRefused, What: "cannot load the " + source.Noun(address) + " " + address, Cause: cause, Fix: source.Again(address, d)}
}

// admits returns an error if the images are too old, or end before the position from which the
// stream resumes.
func (x Examiner) admits(t TableInput, shards []checkpoint.Shard, d backfill.Description, e *named) error {
	first, last := e.records[0], e.records[len(e.records)-1]
	refused := Unfit(last.Address, d, "")
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.AdmissibleExport(t.State, shards, last.At, d.At, x.Cfg.Late(t.Config)); errors.As(err, &hole) && (!hole.Yet || toBegin(t.State)) {
		refused.Cause = hole.Reason
		if !last.From.IsZero() {
			// An export that ends earlier would be refused too.
			until := t.State.AdoptedAt.Add(checkpoint.Slack)
			if d.At.After(until) {
				until = d.At
			}
			refused.Fix = source.NextWindow(d, last.At, until)
		}
		return refused
	}
	if most := ImageAge(x.Cfg) / 2; d.At.Sub(checkpoint.Aged(first.At, t.State.AdoptedAt)) > most {
		return Unfit(first.Address, d, fmt.Sprintf("it is dated %s, but with this state.tombstone_age it may be at most %s old", first.At.UTC().Format(time.RFC3339), most))
	}
	return nil
}

// mends returns an error unless incremental exports alone, without a full export, can repair the
// table's loss. That requires point-in-time recovery since before the loss. If the table has no
// loss, the method decide handles the request.
func (o *Operator) mends(ctx context.Context, from sourceEnd, state checkpoint.TableState, first checkpoint.Export) error {
	if load := standing.LoadOf(state, false); !load.Needed || load.State == standing.LoadDone {
		return nil
	}
	copied := "copy everything instead of windows: replicator backfill start --repair-gap --table " + state.Source + ", or name a new full export"
	refused := &diag.Error{Code: diag.LoadRefused, What: "cannot repair the gap of table " + state.Source + " with windows", Fix: copied}
	err := checkpoint.MendsFrom(state, first.From)
	if err != nil && checkpoint.Mendable(state) == nil {
		refused.Fix = source.Missing(state.WindowsBy(), first.From) + ", and name it too; or " + copied
	}
	if err == nil {
		var recovery backfill.Recovery
		if recovery, err = from.Recovery(ctx, state.Source); err != nil {
			return preflight.ExplainSource("cannot check whether point-in-time recovery of table "+state.Source+" was on the whole time", state.Source, err)
		}
		if !recovery.On {
			recovery.From = time.Time{}
		}
		err = checkpoint.Unbroken(recovery.From, first.From)
	}
	var hole *checkpoint.NotAdmissible
	if errors.As(err, &hole) {
		refused.Cause = hole.Reason
		return refused
	}
	return err
}
