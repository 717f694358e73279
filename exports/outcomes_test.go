package exports

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// A chain leaves the caller's list as it was, and begins with the full export even if a window has
// an earlier time.
func TestAChainSortsACopy(t *testing.T) {
	list := []*Export{chained("b", 900, 1800), chained("a", -900, 900), whole("f", 0)}
	before := slices.Clone(list)
	steps, err := Chain(list, Wanted{TableARN: tableARN, TableID: tableID})
	if err != nil || !slices.Equal(list, before) {
		t.Fatalf("%v, %+v", err, list)
	}
	var order []string
	for _, s := range steps {
		order = append(order, s.ID())
	}
	if strings.Join(order, " ") != "f a b" {
		t.Errorf("%q", order)
	}
}

// A chain that is refused names the place, the fault and the whole fix.
func TestWhatAChainSays(t *testing.T) {
	zone := time.FixedZone("zone", 7200)
	east := chained("e", 900, 1800)
	east.From, east.At = east.From.In(zone), east.At.In(zone)
	shared := chained("b", 900, 1800)
	shared.Files = []File{{Name: "data/a"}, {Name: "data/own"}}
	third := chained("c", 1800, 2700)
	third.Files = []File{{Name: "data/own"}}
	for name, c := range map[string]struct {
		list      []*Export
		text, fix string
	}{
		"windows without a full export": {[]*Export{chained("a", 0, 900), chained("b", 900, 1800)},
			"the window [2023-11-14T22:13:20Z, 2023-11-14T22:28:20Z) of export a: no full export comes before it, and a window holds only items written within it",
			"name the full export of 2023-11-14T22:13:20Z too"},
		"a hole of another zone": {[]*Export{whole("f", -900), east},
			"the window [2023-11-14T22:28:20Z, 2023-11-14T22:43:20Z) of export e: changes between 2023-11-14T21:58:20Z and 2023-11-14T22:28:20Z are in no export",
			"request an incremental export from 2023-11-14T21:58:20Z to 2023-11-14T22:28:20Z, and name it too"},
		"a hole of a window's length": {[]*Export{whole("f", -900), chained("a", -900, 0), chained("c", 900, 1800)},
			"the window [2023-11-14T22:28:20Z, 2023-11-14T22:43:20Z) of export c: changes between 2023-11-14T22:13:20Z and 2023-11-14T22:28:20Z are in no export",
			"request an incremental export from 2023-11-14T22:13:20Z to 2023-11-14T22:28:20Z, and name it too"},
		"one file of two windows": {[]*Export{whole("f", 0), chained("a", 0, 900), shared}, "data/a: two exports list this file", again},
		"another file":            {[]*Export{whole("f", 0), chained("x", 0, 900), shared, third}, "data/own: two exports list this file", again},
	} {
		_, err := Chain(c.list, Wanted{TableARN: tableARN, TableID: tableID})
		var named *Error
		if !errors.As(err, &named) || named.Error() != c.text || named.Fix != c.fix {
			t.Errorf("%s: %v\nfix %s", name, err, named.Fix)
		}
	}
}

// A line of the other kind of export is named as such, whatever else it has.
func TestALineOfTheOtherKind(t *testing.T) {
	if _, err := ParseItem([]byte(`{"Keys":{"id":{"S":"a"}}}`)); err == nil || !strings.Contains(err.Error(), "this line is a change") {
		t.Errorf("%v", err)
	}
	line := `{"Metadata":{"WriteTimestampMicros":{"N":"1"}},"Item":{"id":{"S":"a"}}}`
	if _, err := ParseChange([]byte(line)); err == nil || !strings.Contains(err.Error(), "this line is an item") {
		t.Errorf("%v", err)
	}
	r, err := ParseChange([]byte(`{"Metadata":{"WriteTimestampMicros":{"N":"1700000000000001"}},"Keys":{"id":{"S":"a"}}}`))
	if want := time.Unix(began, 1000).UTC(); err != nil || !reflect.DeepEqual(r.Written, want) {
		t.Errorf("%v, %v", r.Written, err)
	}
	for _, micros := range []string{"0", "-1"} {
		if _, err := ParseChange([]byte(`{"Metadata":{"WriteTimestampMicros":{"N":"` + micros + `"}},"Keys":{"id":{"S":"a"}}}`)); err == nil {
			t.Errorf("written at %s", micros)
		}
	}
}

// What a summary and a file list must not have, in a window as in a full export.
func TestManifestsThatAreRefused(t *testing.T) {
	set := func(name string, value any) func(d *draft) { return func(d *draft) { d.summary[name] = value } }
	for name, c := range map[string]struct {
		edit func(d *draft)
		says string
	}{
		"a filter":              {set("filterExpression", "a = 1"), "the export is filtered"},
		"a filter of nothing":   {set("filterExpression", nil), ""},
		"a projection":          {set("ProjectionExpression", "a"), "the export is filtered"},
		"an unknown format":     {set("outputFormat", "PARQUET"), "only DynamoDB JSON can be read"},
		"no format":             {set("outputFormat", ""), "only DynamoDB JSON can be read"},
		"an ARN without its id": {set("exportArn", tableARN+"/export/"), "do not match"},
		"fewer items than none": {set("itemCount", -1), "below zero"},
		"a file twice, and empty": {func(d *draft) {
			d.files = append(d.files, "")
			d.edit = func(_ objects, list []map[string]any) { list[0]["itemCount"], list[1] = 0, list[0] }
			d.summary["itemCount"] = 0
		}, "a data file is listed twice"},
	} {
		for _, incremental := range []bool{false, true} {
			d := full("01-a", hat)
			if incremental {
				d = window("01-a", 0, 900, changed)
			}
			c.edit(d)
			o := objects{}
			d.write(t, o)
			_, err := Read(t.Context(), o, d.id)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, incremental %v: %v", name, incremental, err)
			}
		}
	}
}

// The times of an export are in UTC, however the summary writes them.
func TestTimesOfAnExport(t *testing.T) {
	d := window("01-a", 0, 900, changed)
	d.summary["exportFromTime"], d.summary["exportToTime"] = "2023-11-15T00:13:20+02:00", "2023-11-14T20:28:20-02:00"
	e := read(t, objects{}, d)
	if !reflect.DeepEqual(e.From, at(0)) || !reflect.DeepEqual(e.At, at(900)) {
		t.Errorf("%s to %s", e.From, e.At)
	}
}

// A window without old images has lines of changes too.
func TestAWindowOfNewImagesHasChanges(t *testing.T) {
	d := window("01-a", 0, 900, changed)
	d.summary["outputView"] = string(ViewNew)
	all, err := records(t, read(t, objects{}, d))
	if err != nil || len(all) == 0 || !all[0].Keys.Exists() || all[0].Written.IsZero() {
		t.Errorf("%v, %s", err, fmt.Sprint(len(all)))
	}
}
