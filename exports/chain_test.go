package exports

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func chained(arns string, from, to int64) *Export {
	return &Export{ARN: tableARN + "/export/" + arns, TableARN: tableARN, TableID: tableID, Incremental: true, From: at(from), At: at(to), View: ViewNewAndOld,
		Files: []File{{Name: "data/" + arns}}}
}

func whole(id string, second int64) *Export {
	return &Export{ARN: tableARN + "/export/" + id, TableARN: tableARN, TableID: tableID, At: at(second)}
}

// TestH33_AFullExportIsFollowedFromItsOwnTime: no second lies between the two, and none in both.
func TestH33_AFullExportIsFollowedFromItsOwnTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "windows")
		list, end := []*Export{whole("f", 0)}, int64(0)
		for i := range n {
			begin := end
			end += rapid.Int64Range(900, 86400).Draw(t, "length")
			list = append(list, chained(string(rune('a'+i)), begin, end))
		}
		shuffled := rapid.Permutation(list).Draw(t, "order")
		steps, err := Chain(shuffled, Wanted{TableARN: tableARN, TableID: tableID})
		if err != nil || len(steps) != len(list) {
			t.Fatalf("%d steps, %v", len(steps), err)
		}
		for i, s := range steps {
			if s.Export != list[i] || !s.Version.Equal(list[i].At) {
				t.Fatalf("step %d is %s at %s", i, s.Kind(), s.Version)
			}
		}
		if n == 0 {
			return
		}
		i := rapid.IntRange(1, n).Draw(t, "moved")
		moved := *list[i]
		by := rapid.SampledFrom([]time.Duration{-time.Second, time.Second, -time.Millisecond, time.Minute}).Draw(t, "by")
		moved.From = moved.From.Add(by)
		list[i] = &moved
		_, err = Chain(list, Wanted{})
		if accepted := err == nil; accepted != (i == 1 && by < 0) {
			t.Fatalf("window %d, which begins %s off its place, is accepted: %v", i, by, accepted)
		}
	})
}

func chainFails(t *testing.T, want Wanted, text string, list ...*Export) {
	t.Helper()
	_, err := Chain(list, want)
	var named *Error
	if !errors.As(err, &named) || named.Fix == "" || !strings.Contains(err.Error()+named.Fix, text) {
		t.Errorf("%v, want %q", err, text)
	}
}

// TestH90_HolesAreRefused: neither a full export and its window nor two windows may have a hole
// between them.
func TestH90_HolesAreRefused(t *testing.T) {
	chainFails(t, Wanted{}, "are in no export", whole("f", 0), chained("a", 1, 901))
	chainFails(t, Wanted{}, "changes between 2023-11-14T22:28:20Z and 2023-11-14T22:28:21Z are in no export", whole("f", 0), chained("b", 901, 1801), chained("a", 0, 900))
	chainFails(t, Wanted{}, "no full export comes before it", chained("a", 0, 900))
	chainFails(t, Wanted{Windows: true}, "this is a full export", whole("f", 0), chained("a", 0, 900))
	chainFails(t, Wanted{}, "no export is given")
	if steps, err := Chain([]*Export{chained("a", 0, 900)}, Wanted{Windows: true}); err != nil || len(steps) != 1 {
		t.Error(err)
	}
}

// The recommended windows have a length that the service accepts, from 15 minutes to 24 hours, and
// leave no hole.
func TestAdvisedWindowsAreTaken(t *testing.T) {
	const day = 24 * 3600
	for _, c := range []struct {
		before, next *Export
		fix          string
	}{
		{whole("f", 0), chained("a", 900, 1800), "request an incremental export from 2023-11-14T22:13:20Z to 2023-11-14T22:28:20Z, and name it too"},
		{whole("f", 0), chained("a", 60, 1800), "request an incremental export from 2023-11-14T21:59:20Z to 2023-11-14T22:14:20Z, and name it too"},
		{chained("b", -900, 0), chained("a", 60, 1800), "instead, request an incremental export from 2023-11-14T22:13:20Z to 2023-11-14T22:43:20Z"},
		{chained("b", -900, 0), chained("a", 60, 60+day), "instead, request 2 incremental exports that follow one another from 2023-11-14T22:13:20Z to 2023-11-15T22:14:20Z, of 15 minutes"},
		{chained("b", -900, 0), chained("a", 2*day+1, 3*day), "request 3 incremental exports that follow one another from 2023-11-14T22:13:20Z to 2023-11-16T22:13:21Z, of 15 minutes to 24 hours each, and name it too"},
		{chained("b", -900, 0), chained("a", -1, 899), "instead, request an incremental export from 2023-11-14T22:13:20Z to 2023-11-14T22:28:20Z"},
	} {
		err := follows(c.before, c.next)
		var told *Error
		if !errors.As(err, &told) || !strings.HasPrefix(told.Fix, c.fix) {
			t.Errorf("%v: want %s", err, c.fix)
		}
	}
	for span, want := range map[time.Duration]struct {
		first   time.Duration
		windows int
	}{
		0: {leastWindow, 1}, time.Minute: {leastWindow, 1}, leastWindow: {leastWindow, 1}, mostWindow: {mostWindow, 1},
		mostWindow + time.Second: {12 * time.Hour, 2}, 49 * time.Hour: {49 * time.Hour / 3, 3},
	} {
		end, windows := NextEnd(at(0), at(0).Add(span))
		if end.Sub(at(0)) != want.first.Truncate(time.Second) || windows != want.windows {
			t.Errorf("%s: %d windows, the first of %s", span, windows, end.Sub(at(0)))
		}
	}
}

// TestH104_OverlapsAreRefused: overlaps are refused like holes.
func TestH104_OverlapsAreRefused(t *testing.T) {
	for name, first := range map[string]*Export{"later": chained("a", 0, 900), "long before": chained("a", -80_000, 1), "ends just after": chained("a", 0, 2)} {
		if _, err := Chain([]*Export{whole("f", 0), first}, Wanted{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	chainFails(t, Wanted{}, "remove it", whole("f", 1), chained("a", 0, 1))
	chainFails(t, Wanted{}, "overlaps", whole("f", 0), chained("a", 0, 900), chained("b", 899, 1799))
	chainFails(t, Wanted{}, "named twice", whole("f", 0), chained("a", 0, 900), chained("a", 0, 900))
	chainFails(t, Wanted{}, "a second full export", whole("f", 0), whole("g", 0))
	chainFails(t, Wanted{}, "remove it", chained("a", -900, 0), whole("f", 0))
	odd := whole("f", 0)
	odd.At = odd.At.Add(608 * time.Millisecond)
	if _, err := Chain([]*Export{odd, chained("a", 0, 900)}, Wanted{}); err != nil {
		t.Errorf("a full export within a second: %v", err)
	}
	twice := chained("b", 900, 1800)
	twice.Files = []File{{Name: "data/a"}}
	chainFails(t, Wanted{}, "two exports list this file", whole("f", 0), chained("a", 0, 900), twice)
	twice.Files = []File{{Name: "copied/elsewhere/data/a"}} // the service's name, in another folder
	chainFails(t, Wanted{}, "two exports list this file", whole("f", 0), chained("a", 0, 900), twice)
	chainFails(t, Wanted{}, "instead, request an incremental export from 2023-11-14T22:28:20Z to 2023-11-14T22:43:20Z", whole("f", 0), chained("a", 0, 900), chained("b", 899, 1799))
}

// TestForeignExportsAreRefused: so are views that lack needed images.
func TestForeignExportsAreRefused(t *testing.T) {
	other := chained("a", 0, 900)
	other.TableID = "another"
	chainFails(t, Wanted{}, "to another table than", whole("f", 0), other)
	chainFails(t, Wanted{TableID: tableID}, "to another table of the same name", whole("f", 0), other)
	chainFails(t, Wanted{TableARN: tableARN + "2"}, "it belongs to table "+tableARN, whole("f", 0))
	other = chained("a", 0, 900)
	other.View = ViewNew
	chainFails(t, Wanted{}, "has no old images", whole("f", 0), other)
	if _, err := Chain([]*Export{whole("f", 0), other}, Wanted{KeysAlone: true}); err != nil {
		t.Error(err)
	}
}
