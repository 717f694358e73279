package dashboard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

const (
	// mostPipelines is the maximum number of pipelines that a page lists.
	mostPipelines = 100
	// mostJudged is the maximum number of tables of a pipeline whose state the page judges, and
	// allJudged that of all pipelines together. To judge a table, all its shards are read.
	mostJudged, allJudged = 100, 1000
	// pipelinesAtOnce is the number of pipelines that are read concurrently.
	pipelinesAtOnce = 8
	// pipelinesFor is the maximum age of a list that answers a request.
	pipelinesFor = 10 * time.Second
)

// pipelinesPage is the list of the pipelines in the state table.
type pipelinesPage struct {
	StateTable string
	Lease      string // with which other pipelines are judged
	Lines      []pipelineLine
	More       bool // there are pipelines that are not listed
}

// pipelineLine is a pipeline in the list.
type pipelineLine struct {
	checkpoint.Summary
	Own     bool // the pipeline of this page
	Verdict state
	Value   string // the state for programs; "" if the pipeline was not judged
	Cutover string // the step of the most urgent cutover; "" if none has begun
	Written string
	Count   int // number of tables
}

// pipelinesPageOf lists the pipelines. The verdict on the page's own pipeline is that of the document.
func pipelinesPageOf(ctx context.Context, m *status.Document, ledger *Ledger) (pipelinesPage, error) {
	list, err := ledger.pipelines(ctx)
	if err != nil {
		return pipelinesPage{}, err
	}
	v := pipelinesPage{StateTable: ledger.Config.State.Table, Lease: timespan.Format(ledger.Config.State.Lease), More: list.more}
	for _, p := range list.all {
		line := pipelineLine{Summary: p.Summary, Own: p.Name == m.Name, Written: timeText(p.WrittenAt), Count: len(p.Tables)}
		step := string(cutoverStep(p.cutovers))
		if line.Own {
			p.judged, step = m, ""
			if c := m.Cutover; c.Attempt > 0 {
				step = c.Step
			}
		}
		line.judge(p)
		line.Cutover = stepWord(step)
		v.Lines = append(v.Lines, line)
	}
	return v, nil
}

// judge sets the verdict: the headline of the pipeline's status or, without a status, the reason.
func (v *pipelineLine) judge(p pipeline) {
	soft := func(text string) { v.Verdict = state{text, "●", "soft"} }
	switch m := p.judged; {
	case m != nil:
		v.Verdict, v.Value = verdictOf(m).state, string(m.State)
	case p.failed != "":
		v.Verdict = state{p.failed, "✗", "bad"}
	case !p.Begun:
		v.Verdict = state{"The ledger is lost: only other rows of this pipeline remain", "▲", "warn"}
	case p.Newer():
		soft(fmt.Sprintf("Not judged: the ledger has format %d, and this version knows %d", p.Format, checkpoint.Format))
	case len(p.Tables) == 0:
		soft("No table is known yet")
	default:
		soft("Not judged: " + terminal.Plural(len(p.Tables), "table") + " are too many for this page")
	}
}

// pipeline is a pipeline of the state table.
type pipeline struct {
	checkpoint.Summary
	cutovers checkpoint.Cutovers
	judged   *status.Document // nil if its state was not judged
	failed   string           // why it could not be read; "" if it was
}

// cutoverStep returns the step of a running cutover, else that of the last one; "" if none has begun.
func cutoverStep(all checkpoint.Cutovers) (step checkpoint.CutoverStep) {
	var last time.Time
	for _, c := range all {
		switch {
		case c.Attempt == 0:
		case c.Step.Active():
			return c.Step
		case step == "" || c.EndedAt.After(last):
			step, last = c.Step, c.EndedAt
		}
	}
	return step
}

// pipelineList is the beginning of the list of the pipelines in the state table.
type pipelineList struct {
	all  []pipeline
	more bool
}

// pipelines reads the pipelines of the state table. It judges the other pipelines without their
// configurations: with this pipeline's lease, and by the tables that their ledgers know.
func (l *Ledger) pipelines(ctx context.Context) (pipelineList, error) {
	return glanceOf(ctx, l, "pipelines", pipelinesFor, func(ctx context.Context) (list pipelineList, err error) {
		store := l.Target.Ledger(l.Config.State.Table)
		names, more, err := checkpoint.Pipelines(ctx, store, mostPipelines)
		if err != nil {
			return list, preflight.ReadingFailed(ctx, "cannot list the pipelines of state table "+l.Config.State.Table, err)
		}
		if more && !slices.Contains(names, l.Config.Name) {
			names = append(names, l.Config.Name) // this pipeline is always listed
		}
		list = pipelineList{make([]pipeline, len(names)), more}
		g := task.NewGroup(ctx, pipelinesAtOnce)
		for i, name := range names {
			g.Go("summarize "+name, func(ctx context.Context) error {
				p := &list.all[i]
				var err error
				if p.Summary, err = checkpoint.Summarize(ctx, store, name); err != nil {
					p.fail(ctx, err)
				}
				return nil
			})
		}
		_ = g.Wait() // these tasks return no error
		l.judgeAll(ctx, list.all)
		return list, nil
	})
}

// judgeAll judges the pipelines whose records this version can read, until they have too many tables.
func (l *Ledger) judgeAll(ctx context.Context, all []pipeline) {
	g := task.NewGroup(ctx, pipelinesAtOnce)
	tables := 0
	for i := range all {
		p := &all[i]
		n := len(p.Tables)
		if p.Name == l.Config.Name || p.failed != "" || !p.Begun || p.Newer() || n == 0 || n > mostJudged || tables+n > allJudged {
			continue
		}
		tables += n
		g.Go("judge "+p.Name, func(ctx context.Context) error {
			in, err := status.Read(ctx, l.configOf(p.Summary), l.Target, "")
			if err != nil {
				p.fail(ctx, err)
				return nil
			}
			p.cutovers = in.Cutovers
			p.judged = in.Judge(func(string) (string, bool) { return "", false }, "", task.Now(ctx))
			return nil
		})
	}
	_ = g.Wait() // these tasks return no error
}

// configOf returns the configuration with which another pipeline is judged.
func (l *Ledger) configOf(s checkpoint.Summary) *config.Config {
	cfg := &config.Config{Name: s.Name, Source: l.Config.Source, Target: l.Config.Target, State: l.Config.State}
	for _, source := range s.Tables {
		cfg.Tables = append(cfg.Tables, config.Table{From: source})
	}
	return cfg
}

// fail records why a pipeline could not be read.
func (p *pipeline) fail(ctx context.Context, err error) {
	p.failed = preflight.ReadingFailed(ctx, "the ledger cannot be read", err).Error()
}
