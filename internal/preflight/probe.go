package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// ProbeTime is the timeout of one probe. Without it, an endpoint that cannot be reached would
	// block a first run for minutes. After that, Bigtable's client would return only "context
	// deadline exceeded".
	ProbeTime = 5 * time.Second
	// CreateTime is the time limit for creating one target table with split points, which takes
	// Bigtable some seconds. The limit can be long, because earlier probes have shown that the
	// instance answers.
	CreateTime = time.Minute
)

// ledgerFamily is the family of the ledger's cells in the state table.
const ledgerFamily = "ledger"

// Found holds the results of the probes.
type Found struct {
	Tables    []Table
	Cluster   string // the cluster to which the app profile routes; "" if it is unknown
	Ageing    []*sink.SchemaError
	Made      []string    // target tables that were created
	Suspended []string    // tables that match a pattern but cannot be replicated
	Shared    *diag.Error // warning that the ledger seems to belong to another migration, or nil
	// Left reports whether the application has left the source. In that case the source was not
	// probed.
	Left bool
}

// Table is one table of the configuration, with DynamoDB's description of the table.
type Table struct {
	Config      config.Table
	Description backfill.Description
	Mapping     *transform.Mapping
}

// Prober probes every dependency and writes the answers, one line each.
type Prober struct {
	Out     io.Writer
	Colored bool
	// Record is called with each answer. If it is nil, answers are written to Out as lines instead.
	Record func(line string, a Answer)
	Hints  string // flags to append to commands in fixes
	Cfg    *config.Config
	Source *Source
	// Unsourced is the reason why Source is nil.
	Unsourced error
	Target    *Target // nil before reach has connected it
	Worker    string
	Dry       bool // change nothing, including the target's tables
	// Idles accepts tables that are cut over. This process then idles.
	Idles bool
	// AcceptMapping accepts a table with a changed mapping.
	AcceptMapping bool
	// AdoptRows accepts a table whose target has rows.
	AdoptRows bool
	// Mode determines whether changes are written, published or both. AcceptMode accepts a table
	// for which the ledger has another mode.
	Mode       checkpoint.Mode
	AcceptMode bool
	// Topic is the client of relay.pubsub_topic; nil before the topic was checked.
	Topic *relay.PubSub
	// Subscription is the client of relay.subscription. Applies reports that this process applies
	// messages of the subscription and does not publish.
	Subscription *relay.PubSubscription
	// DeadLetter is the client of relay.dead_letter, or nil. Retention is how long Subscription
	// keeps messages.
	DeadLetter *relay.PubSubscription
	Retention  time.Duration
	// DeadTopic is the dead-letter topic of Subscription; "" if it has none.
	DeadTopic string
	// ParkTopic is the client of the topic in errors.park_to; nil if parked items are not
	// published.
	ParkTopic *relay.PubSub
	Applies   bool
	written   map[string]bool // target tables that were written before, according to the ledger
	noViews   []string        // views that the service cannot create, as <table>:<view>
	Found     Found
	Failed    []error
	// Told holds all answers, for commands that also show them in another form. With InFull, the
	// cause and the fix of a failure are written at once, not at the end.
	Told   []Answer
	InFull bool
}

// Answer is a dependency's answer to a probe.
type Answer struct {
	Name   string      `json:"name"`
	OK     *bool       `json:"ok"` // null if unknown
	Detail string      `json:"detail,omitempty"`
	Error  *diag.Error `json:"error,omitempty"`
}

// Run makes all probes, even after failures, so that one run shows all problems. It probes the
// target first. If the application has left the source, it does not probe the source.
func (p *Prober) Run(ctx context.Context) (Found, error) {
	reached := p.Ask(ctx, ProbeTime, TargetName(p.Cfg), p.reach)
	if !reached || p.Dry || !p.cutOver(ctx) {
		if err := p.examine(ctx, reached); err != nil {
			return Found{}, err
		}
	}
	if ctx.Err() != nil {
		return Found{}, terminal.Ended(ctx)
	}
	return p.Found, errors.Join(p.Failed...)
}

// examine probes everything except the connection to the target. It returns an error only if all
// other findings are worthless because of the error.
func (p *Prober) examine(ctx context.Context, reached bool) error {
	if p.Unsourced != nil {
		return p.Unsourced
	}
	if p.Ask(ctx, ProbeTime, "AWS credentials", p.Credentials) {
		tables, _ := p.Find(ctx)
		for _, t := range tables {
			p.table(ctx, t)
		}
		if err := p.Source.clock.Refuse(); err != nil && !p.Dry {
			return err // other failures may be consequences of this error
		}
	}
	if reached {
		p.askProfile(ctx)
		if p.tables(ctx); p.Found.Left {
			return nil
		}
	}
	if p.Mode.Publishes() && !p.Applies {
		p.AskTopic(ctx)
	}
	if p.Mode == checkpoint.Topic {
		p.AskSubscription(ctx)
	}
	if !p.Dry {
		p.AskParkTopic(ctx)
	}
	return nil
}

func (p *Prober) askProfile(ctx context.Context) {
	p.Ask(ctx, ProbeTime, "app profile "+p.Cfg.Target.AppProfile, p.Profile)
}

// Untold is the error of a probe without a result. Such a probe has neither failed nor succeeded.
type Untold string

func (u Untold) Error() string { return string(u) }

// Ask runs one probe and writes its outcome. For a failure it writes only the name of the
// dependency. Cause and fix are written at the end of the run, in the usual form of errors.
func (p *Prober) Ask(ctx context.Context, limit time.Duration, name string, question func(ctx context.Context) (string, error)) bool {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	detail, err := AskSource(limited, question)
	mark, color := "✓", "\x1b[32m"
	var known *diag.Error
	ok := err == nil
	answered := &ok
	if open := Untold(""); errors.As(err, &open) {
		mark, color, detail, err, answered = "?", "\x1b[33m", string(open), nil, nil
	}
	if err != nil {
		mark, color = "✗", "\x1b[31m"
		if errors.As(err, &known) {
			if errors.Is(limited.Err(), context.DeadlineExceeded) && unanswered(known) {
				known.Cause = fmt.Sprintf("no answer within %s", timespan.Format(limit))
			}
			detail = known.Code + ", see below"
		} else {
			detail = "see below"
		}
		p.Failed = append(p.Failed, err)
	}
	if p.Colored {
		mark = color + mark + "\x1b[0m"
	}
	remedy := ""
	if p.InFull && err != nil {
		if known == nil {
			known = &diag.Error{Code: diag.Internal, What: "cannot check " + name, Err: err}
		}
		detail, remedy = InPlace(known, p.Hints)
		var more diag.List
		if errors.As(err, &more) && len(more) > 1 {
			for _, e := range more[1:] {
				headline, lines := InPlace(e, p.Hints)
				remedy += "  also " + headline + "\n" + lines
			}
		}
	}
	detail = diag.Printable(detail)
	answer := Answer{name, answered, detail, known}
	p.Told = append(p.Told, answer)
	if p.Record != nil {
		p.Record(fmt.Sprintf("%s %-28s %s", mark, name, detail), answer)
		return err == nil
	}
	_, _ = fmt.Fprintf(p.Out, "%s %-28s %s\n%s", mark, name, detail, remedy)
	return err == nil
}

// InPlace formats an error that is written immediately. It returns the headline, and the lines
// below the headline.
func InPlace(e *diag.Error, hints string) (headline, remedy string) {
	var text strings.Builder
	_ = diag.List{e}.WithFlags(hints).Render(&text)
	headline, remedy, _ = strings.Cut(text.String(), "\n")
	_, headline, _ = strings.Cut(headline, " ") // drop the first word, which is error or warning
	return headline, remedy
}

func (p *Prober) Credentials(ctx context.Context) (string, error) {
	if p.Source.config.Credentials == nil {
		return "", &diag.Error{Code: diag.NoAWSCredentials, What: "no AWS credentials are configured"}
	}
	c, err := p.Source.config.Credentials.Retrieve(ctx)
	if err != nil {
		return "", explainCredentials("cannot get AWS credentials", err)
	}
	return "from " + c.Source, nil
}

// table checks a table and its stream. If a pattern matched the table, its error is written in
// full, but does not prevent the start. Only that table is suspended.
func (p *Prober) table(ctx context.Context, t config.Table) {
	if t.Pattern() != "" {
		inFull, failed := p.InFull, p.Failed
		p.InFull = true
		defer func() { p.InFull, p.Failed = inFull, failed }()
	}
	found, ok := p.Describe(ctx, t)
	if ok && p.Ask(ctx, ProbeTime, "stream of "+t.From, func(ctx context.Context) (string, error) { return p.Stream(ctx, found) }) {
		p.Found.Tables = append(p.Found.Tables, found)
	} else if t.Pattern() != "" {
		p.Found.Suspended = append(p.Found.Suspended, t.From)
	}
}

// Describe checks only a table, not its stream.
func (p *Prober) Describe(ctx context.Context, t config.Table) (Table, bool) {
	var found Table
	ok := p.Ask(ctx, ProbeTime, "table "+t.From, func(ctx context.Context) (string, error) {
		var err error
		if found, err = DescribeTable(ctx, p.Source.Tables, t); err != nil {
			return "", err
		}
		d := found.Description
		return "about " + backfill.Counted(float64(d.Items), "item") + ", key " + itemkey.Names(d.PrimaryKey), nil
	})
	return found, ok
}

func (p *Prober) Stream(ctx context.Context, t Table) (string, error) {
	if !t.Description.StreamEnabled || t.Description.StreamARN == "" {
		return "", diag.StreamDisabledError(t.Config.From)
	}
	info, err := p.Source.Stream(t.Description.StreamARN).Describe(ctx)
	if err != nil {
		return "", ExplainSource("cannot read the stream of table "+t.Config.From, "", err)
	}
	t.Description.ViewType = string(info.View) // the stream's description takes precedence
	if err := engine.CheckStream(t.Description, engine.NeedsOldImages(t.Mapping, p.Cfg.Late(t.Config))); err != nil {
		return "", Explain("the stream of table "+t.Config.From+" cannot be used", err)
	}
	return string(info.View), nil
}

// reach connects to Bigtable. The clients stay usable after the probe.
func (p *Prober) reach(ctx context.Context) (_ string, err error) {
	p.Target, err = Reach(ctx, p.Cfg)
	return "answers", err
}

func (p *Prober) Profile(ctx context.Context) (string, error) {
	profile, err := p.Target.Profile(ctx)
	if err != nil {
		return "", ExplainTarget("cannot use app profile "+p.Cfg.Target.AppProfile, err)
	}
	p.Found.Cluster = profile.Cluster
	if profile.Note != "" {
		return "", Untold(profile.Note)
	}
	return "single cluster " + profile.Cluster + ", single-row transactions", nil
}

// Specs returns the specifications of the required tables: first the state table, and then the
// target tables in the order of the configuration.
func Specs(cfg *config.Config) []sink.TableSpec {
	out := []sink.TableSpec{sink.StateSpec(cfg.State.Table, ledgerFamily)}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		lists, counters := t.FamiliesAs(transform.AsCells), t.FamiliesAs(transform.AsCounter)
		for _, target := range t.Targets() {
			families := sink.DataFamilies(target.Families)
			for i := range families {
				// These families need exactly the declared rule. With `expire: gc`, the timestamps
				// are computed from the rule's age. Elements of lists need a rule that keeps all
				// cells. A rule by age would remove valid values. It would also remove counters,
				// because their cells have the timestamp 0.
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
			spec.View, spec.ChangeStream = cfg.Target.View, cfg.Cutover.KeepFallback
			out = append(out, spec)
		}
	}
	return out
}

// mergeFamilies adds the families of another source table with the same target. Families of the
// same name are declared in the same way, because the configuration refuses differences. If one of
// the source tables requires a strict check of an existing family, the merged family does too.
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

// state tries the operations that the ledger needs: a conditional write, and a read of its result.
// The conditional write also shows whether the app profile allows single-row transactions, which
// matters if the profile could not be read. All attempts use the same row.
func (p *Prober) state(ctx context.Context) (string, error) {
	if p.Dry {
		return "not tested in a dry run", nil
	}
	store := p.ledgerStore()
	key := p.Cfg.Name + "/probe/" + p.Worker
	what := "cannot read and write the state table " + p.Cfg.State.Table
	before := uint64(0)
	if rows, err := store.Read(ctx, key); err != nil {
		return "", ExplainTarget(what, err)
	} else if len(rows) == 1 {
		before = rows[0].Counter
	}
	if ok, err := store.Swap(ctx, key, before, before+1, []byte(`{}`)); err != nil || !ok {
		return "", ExplainTarget(what, orUnexpected(err))
	}
	rows, err := store.Read(ctx, key)
	if err != nil || len(rows) != 1 {
		return "", ExplainTarget(what, orUnexpected(err))
	}
	if ok, err := store.Swap(ctx, key, rows[0].Counter, rows[0].Counter+1, nil); err != nil || !ok {
		return "", ExplainTarget(what, orUnexpected(err))
	}
	return "read and written", nil
}

// orUnexpected returns err. If err is nil, it returns the error for an unexpected answer.
func orUnexpected(err error) error {
	if err == nil {
		return errors.New("a row that was just written is missing or has changed")
	}
	return err
}

func (p *Prober) ledgerStore() checkpoint.Store {
	return LedgerStore(p.Target, p.Cfg)
}
