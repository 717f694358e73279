package loads

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// facts reports whether a text names every fact of a list, in its order.
func facts(text, list string) bool {
	for _, fact := range strings.Split(list, ", ") {
		_, after, found := strings.Cut(text, fact)
		if !found {
			return false
		}
		text = after
	}
	return true
}

// The text about a requested export names its furthest step, and ends when the load is planned.
func TestEachStepOfARequestedExportHasItsText(t *testing.T) {
	wanted := checkpoint.ExportRequest{To: "s3://bucket/p"}
	with := func(edit func(r *checkpoint.ExportRequest)) checkpoint.Load {
		r := wanted
		edit(&r)
		return checkpoint.Load{Request: r}
	}
	planned, found := with(func(*checkpoint.ExportRequest) {}), with(func(*checkpoint.ExportRequest) {})
	planned.Generation, found.Export.Address = 7, at+"full"
	for name, c := range map[string]struct {
		load checkpoint.Load
		want string
	}{
		"none":      {checkpoint.Load{}, ""},
		"waiting":   {with(func(*checkpoint.ExportRequest) {}), "s3://bucket/p, once"},
		"requested": {with(func(r *checkpoint.ExportRequest) { r.Serial, r.At = 1, noon }), "2026-11-24T12:00:00Z, s3://bucket/p, being requested"},
		"running":   {with(func(r *checkpoint.ExportRequest) { r.Serial, r.At, r.ARN = 1, noon, "arn" }), "2026-11-24T12:00:00Z, running, arn"},
		"failed":    {with(func(r *checkpoint.ExportRequest) { r.Serial, r.ARN, r.Failed = 1, "arn", "no bucket" }), "failed, no bucket"},
		"found":     {found, ""},
		"planned":   {planned, ""},
	} {
		if got := exportText(c.load); (got == "") != (c.want == "") || !facts(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A pause is described by its kind. Another migration is named as a refusal.
func TestEachPauseHasItsText(t *testing.T) {
	for why, want := range map[string]string{
		checkpoint.PausedByOperator:                    "operator",
		checkpoint.PausedForHeadroom:                   "stream",
		checkpoint.PausedForStranger + "it is written": "refused, it is written",
		"target_cpu": "paused, target cpu",
	} {
		if got := pausedText(why); !facts(got, want) {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
}

// A request names how many exports it copies, up to which time.
func TestARequestNamesItsExports(t *testing.T) {
	full, w1, w2 := checkpoint.Export{Address: at + "full", At: noon}, checkpoint.Export{From: noon, At: noon.Add(time.Hour)}, checkpoint.Export{From: noon.Add(time.Hour), At: noon.Add(2 * time.Hour)}
	for want, records := range map[string][]checkpoint.Export{
		"from the export of 2026-11-24T12:00:00Z: 1 item in 2 files":                                          {full},
		"from the export of 2026-11-24T12:00:00Z and 1 window up to 2026-11-24T13:00:00Z: 1 item in 2 files":  {full, w1},
		"from the export of 2026-11-24T12:00:00Z and 2 windows up to 2026-11-24T14:00:00Z: 1 item in 2 files": {full, w1, w2},
		"from 2 windows of changes from 2026-11-24T12:00:00Z to 2026-11-24T14:00:00Z: 1 item in 2 files":      {w1, w2},
		"from 1 window of changes from 2026-11-24T13:00:00Z to 2026-11-24T14:00:00Z: 1 item in 2 files":       {w2},
	} {
		if got := (&named{records, source.Size{Items: 1, Files: 2}}).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Options that belong together are refused alone, and options that fit are accepted.
func TestWhichOptionsBelongTogether(t *testing.T) {
	one, two := []string{"s3://bucket/p"}, []string{"s3://bucket/p", "s3://bucket/q"}
	for name, c := range map[string]struct {
		request Request
		table   string
		refused string
	}{
		"a scan of all tables":           {Request{}, "", ""},
		"an approved scan of all tables": {Request{Approve: true, Repair: true}, "", ""},
		"exports":                        {Request{From: two, Approve: true}, "Orders", ""},
		"whole exports":                  {Request{From: two, Whole: true}, "Orders", ""},
		"a requested export":             {Request{From: one, Wish: true}, "Orders", ""},
		"an export of all tables":        {Request{From: one}, "", "no table is given"},
		"a wish without a bucket":        {Request{Wish: true}, "Orders", "needs one table and a bucket"},
		"two wishes":                     {Request{From: two, Wish: true}, "Orders", "takes one --export"},
		"a wish for no bucket":           {Request{From: []string{"gs://bucket/p"}, Wish: true}, "Orders", "names no bucket there"},
		"a whole wish":                   {Request{From: one, Wish: true, Whole: true}, "Orders", "needs an existing export"},
		"a whole scan":                   {Request{Whole: true}, "Orders", "needs an existing export"},
		"a scan as an export":            {Request{From: []string{"scan"}}, "Orders", "names no export"},
	} {
		err := c.request.Check(c.table)
		if (err != nil) != (c.refused != "") || err != nil && (!diag.Has(err, diag.Usage) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A start, a pause, a resume and a cancel name the state in which they find the load.
func TestADecisionNamesTheStateOfTheLoad(t *testing.T) {
	load := func(edit func(l *checkpoint.Load)) checkpoint.TableState {
		s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, NeedsLoad: true, Reason: "lost",
			Load: checkpoint.Load{Generation: 7, Number: 3, Before: 2, Parts: 4}}
		edit(&s.Load)
		return s
	}
	copying := load(func(*checkpoint.Load) {})
	paused := load(func(l *checkpoint.Load) { l.Paused = checkpoint.PausedForHeadroom })
	asked := load(func(l *checkpoint.Load) { *l = checkpoint.Load{AskedAt: noon} })
	approval := load(func(l *checkpoint.Load) {
		l.DoneAt, l.Sweep = noon, checkpoint.Sweep{BegunAt: noon, Waiting: true, Counts: checkpoint.Counts{Put: 1, Removed: 2, Unexplained: 3}}
	})
	sweeping := load(func(l *checkpoint.Load) { l.DoneAt, l.Sweep = noon, checkpoint.Sweep{BegunAt: noon, Approved: true} })
	for name, c := range map[string]struct {
		state   checkpoint.TableState
		request Request
		action  string
		why     string
	}{
		"start while copying":          {copying, Request{Action: ActionStart}, actionNone, "load 3, running"},
		"start while asked":            {asked, Request{Action: ActionStart}, actionNone, "already requested"},
		"resume while copying":         {copying, Request{Action: ActionResume}, actionNone, "not paused"},
		"resume, approved early":       {copying, Request{Action: ActionResume, Approve: true}, ActionResume, "after the copy, approved"},
		"resume, approved again":       {sweeping, Request{Action: ActionResume, Approve: true}, actionNone, "not paused"},
		"resume a pause":               {paused, Request{Action: ActionResume}, ActionResume, "paused, stream"},
		"resume without an answer":     {approval, Request{Action: ActionResume}, actionRefused, "write 1 row, remove 2 rows, 3 rows unexplained, --yes"},
		"resume with an answer":        {approval, Request{Action: ActionResume, Approve: true}, ActionResume, "writes about 1 row, removes about 2 rows"},
		"cancel what is asked":         {asked, Request{Action: ActionCancel}, ActionCancel, "withdrawn, replicator backfill start --table Orders"},
		"cancel what runs":             {copying, Request{Action: ActionCancel}, ActionCancel, "load 3 ends, replicator backfill start --table Orders"},
		"limits":                       {copying, Request{Action: ActionThrottle}, ActionThrottle, "until changed or reset"},
		"limits of the configuration":  {copying, Request{Action: ActionThrottle, Reset: true}, ActionThrottle, "configuration"},
		"pause what the stream pauses": {paused, Request{Action: ActionPause}, ActionPause, "paused"},
	} {
		table := TableInput{Config: config.Table{From: "Orders"}, Found: true, State: c.state}
		if d := c.request.decide(table); d.Action != c.action || !facts(d.Why, c.why) {
			t.Errorf("%s: %s, %q", name, d.Action, d.Why)
		}
	}
}

// Each note below the table stands only where its fact is known.
func TestNotesStandWhereTheyAreTrue(t *testing.T) {
	reason, kind, pass := "lost", "stream_trimmed", 2
	table := func(edit func(t *Table)) *Document {
		one := Table{Source: "Orders", Target: "orders-rows", State: standing.LoadNotStarted}
		edit(&one)
		return &Document{Tables: []Table{one}, PricesDate: "2026-01-01"}
	}
	for name, c := range map[string]struct {
		document *Document
		want     string // before the note about prices
	}{
		"nothing":               {table(func(*Table) {}), ""},
		"a load is needed":      {table(func(t *Table) { t.Needed, t.NeedsLoadReason = true, &reason }), "Orders, load, : lost"},
		"and its kind":          {table(func(t *Table) { t.Needed, t.NeedsLoadReason, t.LossKind = true, &reason, &kind }), "Orders, load, : lost (stream trimmed)"},
		"a reason of the past":  {table(func(t *Table) { t.NeedsLoadReason, t.LossKind = &reason, &kind }), ""},
		"a loss with a time":    {table(func(t *Table) { t.LostFrom = &noon }), "Orders, since 2026-11-24T12:00:00Z, lost"},
		"windows may repair it": {table(func(t *Table) { t.WindowsBy = &noon }), "Orders, 2026-11-24T12:00:00Z, repair"},
		"windows are too late":  {table(func(t *Table) { t.WindowsBy, t.State = &noon, standing.LoadCopying }), ""},
		"a slow copy":           {table(func(t *Table) { t.Load = &Load{copiedFrom: "from the export x", Slowed: []string{"a", "b"}} }), "Orders, from the export x, slow: a, slow: b"},
		"a sweep": {table(func(t *Table) { t.Load = &Load{Sweep: Sweep{Pass: &pass, Seen: 1, Put: 2, Removed: 3, Unexplained: 4}} }),
			"Orders, pass 2, 1 row read, 2 written, 3 removed, 4 unexplained"},
		"limits": {table(func(t *Table) { rows := 5.0; t.Limits.MaxRowsPerSecond = &rows }), "Orders, 5 rows a second"},
	} {
		notes := c.document.notes()
		prices := notes[len(notes)-1]
		if got := strings.Join(notes[:len(notes)-1], "\n"); (got == "") != (c.want == "") || !facts(got, c.want) || !strings.Contains(prices, "2026-01-01") {
			t.Errorf("%s: %q, %q", name, got, prices)
		}
	}
	if notes := (&Document{}).notes(); len(notes) != 0 {
		t.Errorf("no table: %q", notes)
	}
}

// The columns of a load show what is known, and never a share above the estimate.
func TestTheColumnsOfALoad(t *testing.T) {
	pass, estimate, bytes := 3, int64(100), int64(1<<20)
	for want, table := range map[string]Table{
		"not started yet":             {State: standing.LoadNotStarted},
		"needed":                      {State: standing.LoadNotStarted, Needed: true},
		"done":                        {State: standing.LoadDone},
		"done, but another is needed": {State: standing.LoadDone, Needed: true},
		"sweeping":                    {State: standing.LoadSweeping, Load: &Load{}},
		"sweeping, pass 3":            {State: standing.LoadSweeping, Load: &Load{Sweep: Sweep{Pass: &pass}}},
		"waiting for approval":        {State: standing.LoadApproval, Load: &Load{Sweep: Sweep{Pass: &pass}}},
	} {
		if got := table.stateText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, l := range map[string]Load{
		"50 of about 100 (50%)": {Items: 50, Estimate: &estimate, EstimateBytes: &bytes},
		"101":                   {Items: 101, Estimate: &estimate, EstimateBytes: &bytes},
		"99":                    {Items: 99, Estimate: &estimate, EstimateBytes: &bytes, CopiedAt: &noon},
		"7":                     {Items: 7},
	} {
		if got := l.itemsText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Only a configured limit is a limit.
func TestOnlyAConfiguredLimitIsALimit(t *testing.T) {
	if l := Configured(config.Backfill{}); l.RowsPerSecond != nil || l.Read != nil || l.TargetCPU != nil {
		t.Errorf("%+v", l)
	}
	if l := Configured(config.Backfill{MaxRowsPerSecond: 1}); l.RowsPerSecond == nil || *l.RowsPerSecond != 1 || l.Read != nil || l.TargetCPU != nil {
		t.Errorf("%+v", l)
	}
}

// The number of parts in an estimate follows the configured segments.
func TestAnEstimateHasTheConfiguredSegments(t *testing.T) {
	d := backfill.Description{Items: 10_000, Bytes: 1 << 40}
	for _, segments := range []int{2, 9} {
		in := &Input{Cfg: &config.Config{Backfill: config.Backfill{Segments: segments, MaxRowsPerSecond: 1}}}
		if e := in.estimate(d, cost.Default(), Request{}, TableInput{}); e.Parts != source.OfScan(d, segments).Parts {
			t.Errorf("%d segments: %d parts", segments, e.Parts)
		}
	}
}

// After a switch of the application, the text has the reason in place of notes and next steps.
func TestTheTextAfterASwitch(t *testing.T) {
	var out strings.Builder
	d := (&Input{Cfg: &config.Config{}, left: errors.New("the application left"), Tables: []TableInput{{Config: config.Table{From: "Orders"}}}}).judge(cost.Default(), "", noon)
	if err := d.render(&out); err != nil || !strings.HasSuffix(out.String(), "\nthe application left\n") || strings.Contains(out.String(), "Costs") {
		t.Errorf("%v\n%s", err, &out)
	}
}
