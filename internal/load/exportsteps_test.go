package load

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The next step for a requested export follows only from the record and the service's clock,
// whichever coordinator decides. Every further attempt costs, and an overtaken one leads to no
// load.
func TestH106_WhatIsNextForAnExport(t *testing.T) {
	now := enginetest.ListingsBegin.Add(100 * time.Hour)
	const oldest = 20 * time.Hour
	begun := func(edit func(r *checkpoint.ExportRequest)) func(s *checkpoint.TableState) {
		return func(s *checkpoint.TableState) {
			s.Load.Request.Serial, s.Load.Request.Attempts, s.Load.Request.Generation, s.Load.Request.At = 1, 1, 2, now.Add(-time.Hour)
			edit(&s.Load.Request)
		}
	}
	taken := func(age time.Duration) func(s *checkpoint.TableState) {
		return begun(func(r *checkpoint.ExportRequest) { r.ARN, r.At = "arn", now.Add(-age) })
	}
	same := func(*checkpoint.ExportRequest) {}
	for name, c := range map[string]struct {
		edit func(s *checkpoint.TableState)
		want exportStep
	}{
		"nothing was done yet":        {func(*checkpoint.TableState) {}, exportBegins},
		"there is none":               {func(s *checkpoint.TableState) { s.Load.Request.Failed = "no" }, exportWaits},
		"the load is paused":          {func(s *checkpoint.TableState) { s.Load.Paused = checkpoint.PausedByOperator }, exportWaits},
		"the stream has ended":        {func(s *checkpoint.TableState) { s.StreamEnded = true }, exportWaits},
		"backups begin now":           {func(s *checkpoint.TableState) { s.Load.Request.NotBefore = now }, exportBegins},
		"backups begin later":         {func(s *checkpoint.TableState) { s.Load.Request.NotBefore = now.Add(time.Second) }, exportWaits},
		"not every shard has adopted": {func(s *checkpoint.TableState) { s.Adopted = 1 }, exportWaits},
		"the stream is not listed":    {func(s *checkpoint.TableState) { s.Listed = 0 }, exportWaits},
		"it is begun":                 {begun(same), exportAsked},
		"it is taken":                 {taken(time.Hour), exportReport},
		"it is there":                 {func(s *checkpoint.TableState) { taken(time.Hour)(s); s.Load.Export.Address = "s3://b/1" }, exportThere},
		"it is there, and paused": {func(s *checkpoint.TableState) {
			taken(time.Hour)(s)
			s.Load.Export.Address, s.Load.Paused = "s3://b/1", "busy"
		}, exportWaits},
		"its token lives":          {begun(func(r *checkpoint.ExportRequest) { r.At = now.Add(-tokenLives) }), exportAsked},
		"its token is over":        {begun(func(r *checkpoint.ExportRequest) { r.At = now.Add(-tokenLives - time.Second) }), exportBegins},
		"taken, its token is over": {taken(tokenLives + time.Second), exportReport},
		"as old as it may be":      {taken(oldest), exportReport},
		"older":                    {taken(oldest + time.Second), exportBegins},
		"of the generation before": {func(s *checkpoint.TableState) { taken(time.Hour)(s); s.Load.Request.Generation = 1 }, exportBegins},
		"of before the adoption": {func(s *checkpoint.TableState) {
			taken(3 * time.Hour)(s)
			s.GapCount, s.AdoptedAt = 1, now.Add(-2*time.Hour)
		}, exportBegins},
		"what is missing may be waited for": {func(s *checkpoint.TableState) { taken(time.Hour)(s); s.Listed = 0 }, exportReport},
		"the last attempt is overtaken": {func(s *checkpoint.TableState) {
			taken(oldest + time.Second)(s)
			s.Load.Request.Attempts = checkpoint.MaxTries
		}, exportEnds},
		"the last attempt goes on": {func(s *checkpoint.TableState) {
			taken(time.Hour)(s)
			s.Load.Request.Attempts = checkpoint.MaxTries
		}, exportReport},
		"one attempt is left": {func(s *checkpoint.TableState) {
			taken(oldest + time.Second)(s)
			s.Load.Request.Attempts = checkpoint.MaxTries - 1
		}, exportBegins},
	} {
		state := checkpoint.TableState{Source: "Orders", Label: "label", Generation: 2, Adopted: 2, Listed: 2, Load: checkpoint.Load{AskedAt: now, Request: checkpoint.ExportRequest{To: "s3://b"}}}
		c.edit(&state)
		if got, why := nextExportStep(engine.View{State: state}, now, 0, oldest); got != c.want || (why != "") != (got == exportEnds) {
			t.Errorf("%s: %d %q, want %d", name, got, why, c.want)
		}
	}
	state := checkpoint.TableState{Source: "Orders", Generation: 2, Adopted: 2, Listed: 2, Load: checkpoint.Load{AskedAt: now, Request: checkpoint.ExportRequest{To: "s3://b"}}}
	if got, _ := nextExportStep(engine.View{State: state}, time.Time{}, 0, oldest); got != exportWaits {
		t.Errorf("the service's time is not known: %d", got)
	}
	state.Load.Request.Serial, state.Load.Request.Generation, state.Load.Request.At, state.Load.Request.ARN = 1, 2, now.Add(-50*time.Hour), "arn"
	if got, _ := nextExportStep(engine.View{State: state}, now, 0, 0); got != exportReport {
		t.Errorf("images of any age are put: %d", got)
	}
}

// If the service does not know an export yet, or cannot export its time yet, the request is
// repeated for a quarter of an hour. After that it has failed.
func TestH106_ARefusalThatTimeMends(t *testing.T) {
	for _, code := range []string{"ExportNotFoundException", "InvalidExportTimeException"} {
		for lasts, mended := range map[time.Duration]bool{10 * time.Minute: true, 20 * time.Minute: false} {
			loads(t, func(ctx context.Context, s *loadScene) {
				a := s.wishes(ctx, &archive{})
				refusal := &backfill.ExportRefusal{Code: code, Message: "m"}
				began := task.Mono(ctx)
				a.unknown = func() error {
					if task.Mono(ctx)-began < lasts {
						return refusal
					}
					return nil
				}
				state := s.conducts(ctx, 30*time.Minute)
				if state.Loaded() != mended || (state.Load.Request.Failed == "") != mended || !mended && !strings.Contains(state.Load.Request.Failed, code) {
					t.Errorf("%s for %s: %+v", code, lasts, state.Load)
				}
			})
		}
	}
}

// The service is asked about an export less and less often, and about another export immediately.
func TestHowOftenTheServiceIsAskedAboutAnExport(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		a := s.wishes(ctx, &archive{takes: 100 * time.Hour})
		s.check(s.conduct(ctx, 30*time.Minute))
		if a.reports < 55 || a.reports > 90 { // each second at first, each half minute in the end
			t.Errorf("asked %d times in half an hour", a.reports)
		}
		if a.calls != 1 {
			t.Errorf("%d orders", a.calls)
		}
		s.raised(ctx)
		began := task.Mono(ctx)
		s.check(s.conduct(ctx, 10*time.Second))
		if len(a.orders) != 2 || a.orders[0].Token == a.orders[1].Token || task.Mono(ctx)-began > 11*time.Second {
			t.Errorf("%+v", a.orders)
		}
	})
}

// A worker that cannot request exports or read their files says so. It neither drops the request
// nor scans, because another coordinator may be able to.
func TestAWorkerThatReadsNoExports(t *testing.T) {
	for name, blind := range map[string]func(s *loadScene){
		"it asks for none":   func(s *loadScene) { s.Exporter = nil },
		"it reads no bucket": func(s *loadScene) { s.Options.Folders = nil },
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.wishes(ctx, &archive{})
			blind(s)
			s.Reset()
			told := 0
			s.Events.Retry = func(_, _ string, _ time.Duration, err error) {
				if told++; !errors.Is(err, source.ErrNone) {
					t.Errorf("%s: %v", name, err)
				}
			}
			s.check(s.conduct(ctx, time.Minute))
			if state := s.state(ctx); told == 0 || state.Load.Request.Failed != "" || state.Stage() != checkpoint.StageAsked || s.shop.reads > 0 {
				t.Errorf("%s: told %d times, %+v", name, told, state.Load)
			}
		})
	}
}

// The files at the address must be the complete export that was ordered, in the expected format;
// otherwise the request has failed. If the bucket does not answer, it is read again.
func TestWhatAnExportThatIsDoneHasToBe(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(a *archive)
		want  string
	}{
		"in another form":  {func(a *archive) { a.ion = true }, "JSON"},
		"another export":   {func(a *archive) { a.renamed = true }, "another export"},
		"it is torn":       {func(a *archive) { a.opens = &exports.Error{Place: "p", What: "torn", Fix: "f"} }, "torn"},
		"no answer":        {func(a *archive) { a.opens = errors.New("no answer") }, ""},
		"no word from AWS": {func(a *archive) { a.unknown = func() error { return errors.New("no answer") } }, ""},
		"refused for good": {func(a *archive) {
			a.unknown = func() error { return &backfill.ExportRefusal{Code: "ValidationException"} }
		}, "ValidationException"},
		"nothing is amiss":  {func(*archive) {}, ""},
		"its order is lost": {func(a *archive) { a.refuse = errors.New("no answer") }, ""},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			a := s.wishes(ctx, &archive{})
			c.spoil(a)
			var told []string
			s.Events.Exporting = func(_, _, why string) { told = append(told, why) }
			s.Reset()
			s.check(s.work(ctx, 2*time.Minute, true))
			state := s.state(ctx)
			if r := state.Load.Request; state.Loaded() != (name == "nothing is amiss") || (r.Failed != "") != (c.want != "") || !strings.Contains(r.Failed, c.want) {
				t.Errorf("%s: %+v", name, state.Load)
			}
			if said := slices.ContainsFunc(told, func(why string) bool { return why != "" }); said != (c.want != "") {
				t.Errorf("%s: told %q", name, told)
			}
		})
	}
}

// closing is a store that counts its open objects.
type closing struct {
	exports.Store
	open, opened int
}

type closer struct {
	io.ReadCloser
	s *closing
}

func (c *closing) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	in, err := c.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	c.open++
	c.opened++
	return closer{in, c}, nil
}

func (c closer) Close() error { c.s.open--; return c.ReadCloser.Close() }

// A part closes its file, whether it is copied to its end or released before. A load of thousands
// of files would otherwise run out of connections.
func TestAPartClosesItsFile(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			now := task.Now(ctx)
			s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, now.Add(-time.Hour) })
			o, _ := s.exported(ctx, 3000, now.Add(-time.Minute))
			store := &closing{Store: o}
			s.Options.Folders = func(_ context.Context, address string) (exports.Store, string, error) {
				return store, path.Base(address), nil
			}
			rows := 1.0
			s.Limits.RowsPerSecond = &rows
			if !stopped {
				s.Limits.RowsPerSecond = nil
			}
			s.Reset()
			s.check(s.work(ctx, time.Minute, true))
			if state := s.state(ctx); store.open != 0 || store.opened < 3 || state.Load.DoneAt.IsZero() != stopped {
				t.Errorf("stopped %v: %d of %d are open, %+v", stopped, store.open, store.opened, state.Load)
			}
		})
	}
}

// Only the first load waits for a named export, and only on a worker that copies. No load is
// requested until it is known whether its images may be applied, and changes meanwhile count.
func TestWhenANamedExportIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(ctx context.Context, s *loadScene)
		judged  bool
	}{
		"a first load":      {func(context.Context, *loadScene) {}, true},
		"it copies nothing": {func(_ context.Context, s *loadScene) { s.Copy = false }, false},
		"its stream has ended": {func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(t *checkpoint.TableState) { t.StreamEnded = true })
		}, false},
		"it is suspended": {func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(t *checkpoint.TableState) { t.Suspended.Reason = engine.GoneReason })
		}, false},
		"the stream is not listed": {func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(t *checkpoint.TableState) { t.Listed = 0 })
		}, false},
		"an operator has asked": {func(ctx context.Context, s *loadScene) {
			_, err := s.Ledger.RequestExport(ctx, "Orders", true, checkpoint.ExportRequest{To: "s3://b"})
			s.check(err)
		}, false},
		"refused before": {func(ctx context.Context, s *loadScene) {
			_, err := s.Ledger.RefuseExport(ctx, "Orders", "/exports/1", "no")
			s.check(err)
		}, true},
		"refused, and paused": {func(ctx context.Context, s *loadScene) {
			_, err := s.Ledger.RefuseExport(ctx, "Orders", "/exports/1", "no")
			s.check(err)
			_, err = s.Ledger.PauseLoad(ctx, "Orders", checkpoint.PausedByOperator)
			s.check(err)
		}, false},
		"refused, and the stream has ended": {func(ctx context.Context, s *loadScene) {
			_, err := s.Ledger.RefuseExport(ctx, "Orders", "/exports/1", "no")
			s.check(err)
			s.change(ctx, func(t *checkpoint.TableState) { t.StreamEnded = true })
		}, false},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			judged := s.named(ctx, func() error { return nil })
			s.Exporter = &archive{scene: s, refuse: errors.New("no answer")}
			c.prepare(ctx, s)
			_ = s.step(ctx)
			if (*judged > 0) != c.judged || (s.state(ctx).Load.Export.Address != "") != c.judged {
				t.Errorf("%s: judged %d times, %+v", name, *judged, s.state(ctx).Load)
			}
		})
	}
}

// A refusal is reported when it changes, and not with every pass.
func TestARefusalIsToldOnce(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		why := "it has a filter"
		s.named(ctx, func() error { return &source.Refused{Why: why} })
		var told []string
		s.Events.Exporting = func(_, address, why string) { told = append(told, address+": "+why) }
		s.check(s.conduct(ctx, 5*time.Minute))
		why = "it is too old"
		s.check(s.conduct(ctx, 5*time.Minute))
		if want := []string{"/exports/1: it has a filter", "/exports/1: it is too old"}; !slices.Equal(told, want) || s.state(ctx).Load.Request.Failed != why {
			t.Errorf("told %q, %+v", told, s.state(ctx).Load.Request)
		}
	})
}
