package source

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A requested load waits, or may begin, or never may. A scan always waits. Windows alone must also
// repair the gap.
func TestWhenARequestedLoadMayBegin(t *testing.T) {
	full := checkpoint.Load{Export: checkpoint.Export{Address: "/e", At: noon}}
	windows := checkpoint.Load{Export: checkpoint.Export{Address: "/w", From: noon.Add(-2 * time.Hour), At: noon}}
	for name, c := range map[string]struct {
		load  checkpoint.Load
		edit  func(s *checkpoint.TableState)
		yet   bool
		never string
	}{
		"a scan":                               {load: checkpoint.Load{}},
		"a scan, and the stream is not listed": {load: checkpoint.Load{}, edit: func(s *checkpoint.TableState) { s.Listed = 0 }, yet: true},
		"an export":                            {load: full},
		"an export, and the stream is not listed":     {load: full, edit: func(s *checkpoint.TableState) { s.Listed = 0 }, yet: true},
		"an export from before the generation":        {load: full, edit: func(s *checkpoint.TableState) { s.AdoptedAt = noon.Add(time.Hour) }, never: "is too old for this generation"},
		"an old export, and the stream is not listed": {load: full, edit: func(s *checkpoint.TableState) { s.AdoptedAt, s.Listed = noon.Add(time.Hour), 0 }, never: "is too old for this generation"},
		"windows":                            {load: windows},
		"windows that begin too late":        {load: windows, edit: func(s *checkpoint.TableState) { s.LostFrom = noon.Add(-2 * time.Hour) }, never: "the first window begins at"},
		"windows from before the generation": {load: windows, edit: func(s *checkpoint.TableState) { s.AdoptedAt = noon.Add(time.Hour) }, never: "is too old for this generation"},
		"an export, and the loss is older":   {load: full, edit: func(s *checkpoint.TableState) { s.LostFrom = noon.Add(-100 * time.Hour) }},
	} {
		s := checkpoint.TableState{Source: "Orders", Label: "L", Generation: 7, Adopted: 7, Listed: 7, Base: 6, GapCount: 1, AdoptedAt: noon.Add(-time.Hour), NeedsLoad: true, Kind: checkpoint.KindStream,
			LostFrom: noon.Add(-time.Hour), Load: c.load}
		if c.edit != nil {
			c.edit(&s)
		}
		yet, err := Admissible(s, nil, noon.Add(time.Hour), 0)
		if yet != c.yet || (err == nil) != (c.never == "") || err != nil && !strings.Contains(err.Error(), c.never) {
			t.Errorf("%s: yet %v, %v", name, yet, err)
		}
	}
}

// Images may be as old as the bound, and of any age without one.
func TestHowOldImagesMayBe(t *testing.T) {
	for _, c := range []struct {
		age, most time.Duration
		ok        bool
	}{{time.Hour, time.Hour, true}, {time.Hour + 1, time.Hour, false}, {1000 * time.Hour, 0, true}, {-time.Hour, time.Hour, true}} {
		if err := YoungEnough("export", noon.Add(-c.age), noon, c.most); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The command that requests the next window covers whole minutes up to the wanted time. It names
// the time from which the service accepts it.
func TestTheNextWindow(t *testing.T) {
	d := backfill.Description{ARN: ordersARN, At: noon}
	for name, c := range map[string]struct {
		from, until time.Duration // before noon
		says        []string
		omits       string
	}{
		"an hour that is over": {2 * time.Hour, time.Hour, []string{"begins at 2026-11-24T10:00:00Z", "ExportFromTime=1795514400,ExportToTime=1795518000", ordersARN}, "possible"},
		"up to a second later": {2 * time.Hour, time.Hour - time.Second, []string{"ExportToTime=1795518060"}, "possible"},
		"up to now":            {time.Hour, 0, []string{"ExportToTime=1795521600", "possible from 2026-11-24T12:05:00Z on"}, "the first"},
		"a few minutes":        {2 * time.Hour, 119 * time.Minute, []string{"ExportToTime=1795515300"}, "possible"},
		"two days":             {48 * time.Hour, 0, []string{"request 2 incremental exports", "the first", "ExportFromTime=1795348800,ExportToTime=1795435200"}, "possible"},
		"five minutes ago":     {time.Hour, 5 * time.Minute, []string{"ExportToTime=1795521300"}, "possible"},
	} {
		got := NextWindow(d, noon.Add(-c.from), noon.Add(-c.until))
		for _, want := range c.says {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in %s", name, want, got)
			}
		}
		if strings.Contains(got, c.omits) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// An export is found where DynamoDB says that it wrote it, in a bucket and below a prefix.
func TestWhereAnExportIs(t *testing.T) {
	for manifest, want := range map[string]string{
		"AWSDynamoDB/1-a/manifest-summary.json":      "s3://b/AWSDynamoDB/1-a",
		"p//q/AWSDynamoDB/1-a/manifest-summary.json": "s3://b/p//q/AWSDynamoDB/1-a",
	} {
		if got := Delivered(backfill.ExportReport{Bucket: "b", Manifest: manifest}); got != want {
			t.Errorf("%s: %s", manifest, got)
		}
	}
	for destination, want := range map[string][2]string{"s3://b": {"b", ""}, "s3://b/p/q": {"b", "p/q"}} {
		if bucket, prefix := Bucket(destination); bucket != want[0] || prefix != want[1] {
			t.Errorf("%s: %q, %q", destination, bucket, prefix)
		}
	}
	for _, address := range []string{"s3://bucket/a/..", "s3://bucket/.", "s3://bucket/"} {
		if Check(address) == "" {
			t.Errorf("%s names a folder", address)
		}
	}
}

// A plan takes images that the adoption makes young, by the time of the first export. It takes
// windows alone only for a gap.
func TestPlansOfOldImages(t *testing.T) {
	full := checkpoint.Export{Address: "/e/full", ARN: ordersARN + "/export/full", At: noon}
	window := checkpoint.Export{Address: "/e/window", ARN: ordersARN + "/export/window", From: noon, At: noon.Add(time.Hour)}
	for name, c := range map[string]struct {
		load    checkpoint.Load
		adopted time.Time
		oldest  time.Duration
		ok      bool
	}{
		"too old":                {checkpoint.Load{Export: full}, time.Time{}, time.Hour, false},
		"the adoption is later":  {checkpoint.Load{Export: full}, noon.Add(90 * time.Minute), time.Hour, true},
		"the adoption is old":    {checkpoint.Load{Export: full}, noon.Add(30 * time.Minute), time.Hour, false},
		"its window is young":    {checkpoint.Load{Export: full, Windows: []checkpoint.Export{window}}, time.Time{}, 90 * time.Minute, false},
		"windows alone":          {checkpoint.Load{Export: window}, time.Time{}, 2 * time.Hour, true},
		"windows alone, too old": {checkpoint.Load{Export: window}, time.Time{}, 30 * time.Minute, false},
	} {
		o := Opener{From: archive(t)}
		if plan, err := o.Plan(t.Context(), c.load, wanted(t), c.adopted, c.oldest); (err == nil) != c.ok || c.ok && plan.Parts == 0 {
			t.Errorf("%s: %+v, %v", name, plan, err)
		}
	}
}
