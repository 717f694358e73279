package loads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/bucket"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// ImageMargin is how much younger than a tombstone's age an image must be to be put: a clock may be
// behind, and a request may be executed long after it was made. The least age of the configuration
// leaves twice the stream's day, so that nothing that is read in time is taken for too old, by a
// clock that is ahead or after hours of throttles.
const ImageMargin = 48 * time.Hour

// ImageAge is the age above which an image is not put any more.
func ImageAge(cfg *config.Config) time.Duration { return cfg.State.TombstoneAge - ImageMargin }

// exported are exports that were read for a request, in their order, and fit the table.
type exported struct {
	exports []checkpoint.Export
	items   int64
	bytes   int64 // of the items, as the service counts them
	files   int
}

func (e *exported) String() string {
	text := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	first, last := e.exports[0], e.exports[len(e.exports)-1]
	what := "the export of " + text(first.At)
	switch n := len(e.exports); {
	case !first.From.IsZero():
		what = fmt.Sprintf("%s of changes from %s to %s", terminal.Plural(n, "window"), text(first.From), text(last.At))
	case n > 1:
		what += fmt.Sprintf(" and %s up to %s", terminal.Plural(n-1, "window"), text(last.At))
	}
	return fmt.Sprintf("from %s: %s in %s", what, terminal.Plural(int(e.items), "item"), terminal.Plural(e.files, "file"))
}

// readExports reads the manifests of the request's exports, and refuses those that no worker could
// load: nothing is asked for then.
func (o *Operator) readExports(ctx context.Context, m *desk.Migration, in *Input, r Request) (*exported, error) {
	names := append([]string{r.Export}, r.Windows...)
	if len(names) > checkpoint.MaxExports {
		return nil, diag.BadUsage(fmt.Sprintf("%d exports are named, and a load has %d at the most", len(names), checkpoint.MaxExports), "ask for a full export of a later time, and name that with the windows behind it")
	}
	if err := m.Connect(ctx); err != nil {
		return nil, err
	}
	t := in.Tables[0]
	x := Examiner{Cfg: o.Cfg, Source: m.From, Env: o.Env, Whole: r.Whole, SayWhole: "add --whole-export"}
	e, d, err := x.read(ctx, t.Config, names, r.Repair)
	if err != nil {
		return nil, err
	}
	if !e.exports[0].From.IsZero() {
		if err := o.mends(ctx, m.From, t.State, e.exports[0]); err != nil {
			return nil, err
		}
	}
	shards, err := in.ledger.Shards(ctx, t.Config.From)
	if err != nil {
		return nil, explain(ctx, "cannot read the ledger in table "+in.Cfg.State.Table, err)
	}
	return e, x.admits(t, shards, d, e)
}

// source is the source's own account of its tables and exports.
type source interface {
	preflight.Describer
	preflight.ExportReporter
	// Recovery is whether a table can be exported.
	Recovery(ctx context.Context, table string) (backfill.Recovery, error)
	// OpenExport reads the manifests of the export at an address.
	OpenExport(ctx context.Context, env config.Lookup, address string) (*exports.Export, error)
}

// Examiner reads exports, and finds whether they can be loaded.
type Examiner struct {
	Cfg    *config.Config
	Source source
	Env    config.Lookup
	// Whole: somebody says that they show the whole table, where DynamoDB does not. SayWhole is how.
	Whole    bool
	SayWhole string
}

// read reads the manifests of exports of a table, and proves that they are whole and follow one
// another. Repair lets windows be alone.
func (x Examiner) read(ctx context.Context, t config.Table, names []string, repair bool) (*exported, backfill.Description, error) {
	var d backfill.Description
	var all []*exports.Export
	addresses := map[*exports.Export]string{}
	for _, named := range names {
		place, err := bucket.Parse(named)
		if err != nil {
			return nil, d, preflight.ExportFailed(named, err)
		}
		e, err := x.Source.OpenExport(ctx, x.Env, place.String())
		if err != nil {
			return nil, d, preflight.ExportFailed(place.String(), err)
		}
		all = append(all, e)
		addresses[e] = place.String()
	}
	table, err := preflight.DescribeTable(ctx, x.Source, t)
	if err != nil {
		return nil, d, err
	}
	windows := !slices.ContainsFunc(all, func(e *exports.Export) bool { return !e.Incremental })
	alone := repair && windows
	steps, err := backfill.Chain(all, table.Description, table.Mapping, x.Cfg.Late(t), alone)
	if err != nil {
		var fault *exports.Error
		if errors.As(err, &fault) && windows && !alone {
			fault.Fix += "; if windows alone are to mend a gap, add --repair-gap"
		}
		return nil, d, preflight.ExportFailed(strings.Join(names, ", "), err)
	}
	out := &exported{files: backfill.Files(steps)}
	for _, s := range steps {
		if err := preflight.WholeExport(ctx, x.Source, addresses[s.Export], s.ARN, x.Whole, x.SayWhole); err != nil {
			return nil, d, err
		}
		out.exports = append(out.exports, checkpoint.Export{Address: addresses[s.Export], ARN: s.ARN, From: s.From.UTC(), At: s.At.UTC()})
		out.items, out.bytes = out.items+s.Items, out.bytes+s.Bytes
	}
	return out, table.Description, nil
}

const exportCommand = "aws dynamodb export-table-to-point-in-time --table-arn "

// AskAgain says how to get an export that may be loaded where another is too old.
func AskAgain(d backfill.Description) string {
	return "ask for an export of now: " + exportCommand + d.ARN + " --s3-bucket BUCKET, and name that"
}

// admits fails if the exports show less than the stream goes on from, or are too old.
func (x Examiner) admits(t TableInput, shards []checkpoint.Shard, d backfill.Description, e *exported) error {
	first, last := e.exports[0], e.exports[len(e.exports)-1]
	refused := &diag.Error{Code: diag.LoadRefused, What: "cannot load the export " + last.Address, Fix: AskAgain(d)}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.AdmissibleExport(t.State, shards, last.At, d.At, x.Cfg.Late(t.Config)); errors.As(err, &hole) && (!hole.Yet || toBegin(t.State)) {
		refused.Cause = hole.Reason
		if !last.From.IsZero() {
			refused.Fix = fmt.Sprintf("ask for a window from %s on, and name it too: %s%s --s3-bucket BUCKET --export-type INCREMENTAL_EXPORT --incremental-export-specification ExportFromTime=%d,ExportToTime=NOW,ExportViewType=%s",
				last.At.Format(time.RFC3339), exportCommand, d.ARN, last.At.Unix(), exports.ViewNewAndOld)
		}
		return refused
	}
	if most := ImageAge(x.Cfg) / 2; d.At.Sub(checkpoint.Aged(first.At, t.State.AdoptedAt)) > most {
		refused.What = "cannot load the export " + first.Address
		refused.Cause = fmt.Sprintf("it is of %s, and with this state.tombstone_age it may be %s old at the most", first.At.UTC().Format(time.RFC3339), most)
		return refused
	}
	return nil
}

// mends fails unless windows alone mend what the table has lost, under backups that were on since
// before. A table that has lost nothing is for decide.
func (o *Operator) mends(ctx context.Context, source source, state checkpoint.TableState, first checkpoint.Export) error {
	if load := standing.LoadOf(state, false); !load.Needed || load.State == standing.LoadDone {
		return nil
	}
	copied := "copy everything in place of windows: replicator backfill start --repair-gap --table " + state.Source + ", or name a full export of now"
	refused := &diag.Error{Code: diag.LoadRefused, What: "cannot mend the gap of table " + state.Source + " by windows", Fix: copied}
	err := checkpoint.MendsFrom(state, first.From)
	if err != nil && checkpoint.Mendable(state) == nil {
		refused.Fix = fmt.Sprintf("ask for a window from %s to %s, and name it too; or %s", state.WindowsBy().Format(time.RFC3339), first.From.UTC().Format(time.RFC3339), copied)
	}
	if err == nil {
		var recovery backfill.Recovery
		if recovery, err = source.Recovery(ctx, state.Source); err != nil {
			return preflight.ExplainSource("cannot look whether the backups of table "+state.Source+" were on all the time", state.Source, err)
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
