package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// probeTime bounds one question to one dependency. Without it an unreachable endpoint holds a first run for minutes, and the
	// Bigtable client says only "context deadline exceeded" then.
	probeTime = 5 * time.Second
	// createTime bounds the making of each of the target's tables, split at keys sampled from the source, which takes Bigtable
	// seconds. That the instance answers is known by then.
	createTime = time.Minute
)

// ledgerFamily is the family of the state table that the ledger's rows use.
const ledgerFamily = "ledger"

// probed is what the probes have found out.
type probed struct {
	tables  []probedTable
	cluster string // that the app profile routes to; "" if it cannot be told
	ageing  []*sink.SchemaError
	aside   []string // tables of patterns with which something is wrong
}

// probedTable is one table of the configuration with what DynamoDB says of it.
type probedTable struct {
	config      config.Table
	description backfill.Description
	mapping     *transform.Mapping
}

// prober asks every dependency one question and tells the answers, one line each.
type prober struct {
	out     io.Writer
	colored bool
	hints   string // flags of the commands in remedies
	cfg     *config.Config
	source  *source
	target  *target // once reach has connected it
	worker  string
	dry     bool // change nothing, not even the target's tables
	// acceptMapping: a changed mapping is no reason to refuse a table.
	acceptMapping bool
	noViews       []string // <table>:<view>, of those that the service cannot make
	found         probed
	failed        []error
	// told has every answer, for commands that tell them in another form too. With inFull the cause and the fix of a failure are
	// told where it is met, and not at the end.
	told   []answer
	inFull bool
}

// answer is what a dependency has answered to a probe.
type answer struct {
	Name   string      `json:"name"`
	OK     *bool       `json:"ok"` // null if it cannot be told
	Detail string      `json:"detail,omitempty"`
	Error  *diag.Error `json:"error,omitempty"`
}

// run asks everything that can be asked, so that one run shows all that is wrong.
func (p *prober) run(ctx context.Context) (probed, error) {
	if p.ask(ctx, probeTime, "AWS credentials", p.credentials) {
		tables, _ := p.find(ctx)
		for _, t := range tables {
			p.table(ctx, t)
		}
		if err := p.source.clock.Refuse(); err != nil && !p.dry {
			return probed{}, err // whatever else failed may come of it
		}
	}
	name := targetName(p.cfg)
	if p.ask(ctx, probeTime, name, p.reach) {
		p.ask(ctx, probeTime, "app profile "+p.cfg.Target.AppProfile, p.profile)
		p.tables(ctx)
	}
	if ctx.Err() != nil {
		return probed{}, ended(ctx)
	}
	return p.found, errors.Join(p.failed...)
}

// untold is the answer of a probe that cannot tell: no failure, and no reason for a tick either.
type untold string

func (u untold) Error() string { return string(u) }

// ask runs one probe and tells its outcome. The cause and the fix of a failure are told in full at the end of the run, in
// the form all errors have; here stands which of the dependencies it was.
func (p *prober) ask(ctx context.Context, limit time.Duration, name string, question func(ctx context.Context) (string, error)) bool {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	detail, err := question(limited)
	mark, color := "✓", "\x1b[32m"
	var known *diag.Error
	ok := err == nil
	answered := &ok
	if open := untold(""); errors.As(err, &open) {
		mark, color, detail, err, answered = "?", "\x1b[33m", string(open), nil, nil
	}
	if err != nil {
		mark, color = "✗", "\x1b[31m"
		if errors.As(err, &known) {
			if errors.Is(limited.Err(), context.DeadlineExceeded) {
				known.Cause = fmt.Sprintf("no answer within %s", config.FormatDuration(limit))
			}
			detail = known.Code + ", see below"
		} else {
			detail = "see below"
		}
		p.failed = append(p.failed, err)
	}
	if p.colored {
		mark = color + mark + "\x1b[0m"
	}
	remedy := ""
	if p.inFull && err != nil {
		if known == nil {
			known = &diag.Error{Code: diag.Internal, What: "cannot check " + name, Err: err}
		}
		detail, remedy = inPlace(known, p.hints)
		var more diag.List
		if errors.As(err, &more) && len(more) > 1 {
			for _, e := range more[1:] {
				headline, lines := inPlace(e, p.hints)
				remedy += "  also " + headline + "\n" + lines
			}
		}
	}
	p.told = append(p.told, answer{name, answered, detail, known})
	_, _ = fmt.Fprintf(p.out, "%s %-28s %s\n%s", mark, name, detail, remedy)
	return err == nil
}

// inPlace is an error told where it is met: its headline, and the lines below it.
func inPlace(e *diag.Error, hints string) (headline, remedy string) {
	var text strings.Builder
	_ = diag.List{e}.WithFlags(hints).Render(&text)
	headline, remedy, _ = strings.Cut(text.String(), "\n")
	_, headline, _ = strings.Cut(headline, " ") // without the word error or warning
	return headline, remedy
}

func (p *prober) credentials(ctx context.Context) (string, error) {
	if p.source.config.Credentials == nil {
		return "", &diag.Error{Code: diag.NoAWSCredentials, What: "no AWS credentials are configured"}
	}
	c, err := p.source.config.Credentials.Retrieve(ctx)
	if err != nil {
		return "", explainCredentials(err)
	}
	return "from " + c.Source, nil
}

// table asks for a table and its stream. What is wrong with a table of a pattern is told in full, and no reason not to begin: the table
// is set aside, and the others go on.
func (p *prober) table(ctx context.Context, t config.Table) {
	if t.Pattern() != "" {
		inFull, failed := p.inFull, p.failed
		p.inFull = true
		defer func() { p.inFull, p.failed = inFull, failed }()
	}
	found, ok := p.describe(ctx, t)
	if ok && p.ask(ctx, probeTime, "stream of "+t.From, func(ctx context.Context) (string, error) { return p.stream(ctx, found) }) {
		p.found.tables = append(p.found.tables, found)
	} else if t.Pattern() != "" {
		p.found.aside = append(p.found.aside, t.From)
	}
}

// describe asks for a table alone.
func (p *prober) describe(ctx context.Context, t config.Table) (probedTable, bool) {
	var found probedTable
	ok := p.ask(ctx, probeTime, "table "+t.From, func(ctx context.Context) (string, error) {
		var err error
		if found, err = describeTable(ctx, p.source.tables, t); err != nil {
			return "", err
		}
		d := found.description
		return fmt.Sprintf("about %s items, key %s", backfill.FormatCount(float64(d.Items)), keyNames(d.PrimaryKey)), nil
	})
	return found, ok
}

func (p *prober) stream(ctx context.Context, t probedTable) (string, error) {
	if !t.description.StreamEnabled || t.description.StreamARN == "" {
		return "", diag.StreamDisabledError(t.config.From)
	}
	info, err := p.source.stream(t.description.StreamARN).Describe(ctx)
	if err != nil {
		return "", explainSource("cannot read the stream of table "+t.config.From, "", err)
	}
	t.description.ViewType = string(info.View) // the stream's own word, should the two differ
	if err := pipeline.CheckStream(t.description, t.mapping.DependsOnKeyOnly()); err != nil {
		return "", explain("the stream of table "+t.config.From+" cannot be used", err)
	}
	return string(info.View), nil
}

// reach connects to Bigtable. The clients outlive the probe, so they are not made under its context.
func (p *prober) reach(ctx context.Context) (string, error) {
	var err error
	if p.target, err = connectTarget(context.WithoutCancel(ctx), p.cfg); err != nil {
		return "", err
	}
	return "answers", p.target.ping(ctx, p.cfg)
}

func (p *prober) profile(ctx context.Context) (string, error) {
	profile, err := p.target.admin.Profile(ctx)
	if err != nil {
		return "", explainTarget("cannot use app profile "+p.cfg.Target.AppProfile, err)
	}
	p.found.cluster = profile.Cluster
	if profile.Note != "" {
		return "", untold(profile.Note)
	}
	return "single cluster " + profile.Cluster + ", single-row transactions", nil
}

// specs are the tables that must be there: the state table first, then those of the configuration in their order.
func specs(cfg *config.Config) []sink.TableSpec {
	out := []sink.TableSpec{sink.StateSpec(cfg.State.Table, ledgerFamily)}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		lists, counters := t.FamiliesAs(transform.AsCells), t.FamiliesAs(transform.AsCounter)
		for _, target := range t.Targets() {
			families := sink.DataFamilies(target.Families)
			for i := range families {
				// Stamps are counted from the rule's age; elements of lists stay only under the rule that keeps everything; an age rule would
				// remove values that hold, and counters, whose cells are at the time 0.
				if t.TTL.Expire == "gc" || t.KeepVersions || slices.Contains(lists, families[i].Name) {
					families[i].Check = sink.Same
				} else if slices.Contains(counters, families[i].Name) {
					families[i].Check = sink.NoAge
				}
			}
			if n := slices.IndexFunc(out, func(s sink.TableSpec) bool { return s.Name == target.Table }); n >= 0 {
				out[n].Families = mergeFamilies(out[n].Families, families)
				continue
			}
			spec := sink.TargetSpec(target.Table, cfg.State.TombstoneAge)
			spec.Families = append(families, spec.Families...)
			spec.View = cfg.Target.View
			out = append(out, spec)
		}
	}
	return out
}

// mergeFamilies adds the families of another source table with the same target, which declares those that both have alike: what
// does not is refused with the configuration. The stricter check of an existing family stands for both.
func mergeFamilies(have, more []sink.FamilySpec) []sink.FamilySpec {
	for _, f := range more {
		if n := slices.IndexFunc(have, func(o sink.FamilySpec) bool { return o.Name == f.Name }); n >= 0 {
			have[n].Check = max(have[n].Check, f.Check)
		} else {
			have = append([]sink.FamilySpec{f}, have...)
		}
	}
	return have
}

// state tries what the ledger lives on: a conditional write, and reading it back. It also shows, where the app profile could
// not be looked at, that single-row transactions are allowed.
func (p *prober) state(ctx context.Context) (string, error) {
	if p.dry {
		return "not tried in a dry run", nil
	}
	store := p.ledgerStore()
	key := p.cfg.Name + "/probe/" + p.worker
	what := "cannot read and write the state table " + p.cfg.State.Table
	if ok, err := store.Swap(ctx, key, 0, 1, []byte(`{}`)); err != nil || !ok {
		return "", explainTarget(what, orUnexpected(err))
	}
	rows, err := store.Read(ctx, key)
	if err != nil || len(rows) != 1 {
		return "", explainTarget(what, orUnexpected(err))
	}
	if ok, err := store.Swap(ctx, key, rows[0].Counter, rows[0].Counter+1, nil); err != nil || !ok {
		return "", explainTarget(what, orUnexpected(err))
	}
	return "read and written", nil
}

// orUnexpected stands in for an error where there was none and still the answer was wrong.
func orUnexpected(err error) error {
	if err == nil {
		return errors.New("a row that was just written was not there, or had changed")
	}
	return err
}

func (p *prober) ledgerStore() checkpoint.Store {
	return ledgerStore(p.target, p.cfg)
}

// ledgerStore is the place of the ledger.
func ledgerStore(t *target, cfg *config.Config) checkpoint.Store {
	return checkpoint.Bigtable(t.data.Open(cfg.State.Table), ledgerFamily)
}
