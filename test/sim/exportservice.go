package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// exportService exports the source table to a bucket, as weakly as the service may: an export is of
// about the time that it names, each item of its own; and the bucket fails, and holds what is not
// whole, or another export's, until somebody puts it right.
type exportService struct {
	world   *virtual.World
	rng     *rand.Rand
	source  *model.Table
	table   exportstest.Table
	keys    map[string]attribute.Item
	fuzz    time.Duration // by how much what an export shows is earlier or later than its time
	history map[string][]pastImage
	objects exportstest.Objects
	names   []string       // of all objects
	seconds map[int64]bool // of which exports are
	ends    map[int64]bool // those at which windows end
	number  int            // of exports
	// begun is since when point-in-time recovery is on without a break.
	begun time.Time

	spoiled map[string]spoiling // by the name of an object
	moved   map[string]string   // by the folder that is asked for, the one that lies there
	failing float64             // the part of the calls that fail
	down    time.Duration       // until when all do
}

// pastImage is what an item was from a time on, as point-in-time recovery keeps it.
type pastImage struct {
	at   time.Time
	item attribute.Item
}

// spoiling is how an object is given until a time.
type spoiling struct {
	until time.Duration
	how   func(content []byte) ([]byte, error)
}

func newExportService(w *virtual.World, rng *rand.Rand, t *model.Table) *exportService {
	t.ARN, t.ID = "arn:aws:dynamodb:eu-west-1:000000000000:table/"+t.Name, "this table"
	return &exportService{
		world: w, rng: rng, source: t, keys: map[string]attribute.Item{}, begun: w.Now(), table: exportstest.Table{ARN: t.ARN, ID: t.ID}, fuzz: []time.Duration{0, time.Minute, 2 * time.Minute}[rng.IntN(3)],
		history: map[string][]pastImage{}, seconds: map[int64]bool{}, ends: map[int64]bool{}, spoiled: map[string]spoiling{}, moved: map[string]string{},
		failing: 0.2 * rng.Float64() * rng.Float64(),
	}
}

func (x *exportService) written(w model.Write) {
	x.history[w.ID] = append(x.history[w.ID], pastImage{w.At, w.New})
	some := w.New
	if !some.Exists() {
		some = w.Old
	}
	x.keys[w.ID], _ = x.source.KeyOf(some)
}

// heldAt is an item as it was at a time; it does not exist if there was none.
func (x *exportService) heldAt(id string, at time.Time) attribute.Item {
	list := x.history[id]
	n := sort.Search(len(list), func(i int) bool { return list[i].at.After(at) })
	if n == 0 {
		return attribute.Item{}
	}
	return list[n-1].item
}

// about is a moment as near to a time as what an export shows is to its own.
func (x *exportService) about(at time.Time) time.Time {
	return at.Add(time.Duration((2*x.rng.Float64() - 1) * float64(x.fuzz)))
}

// edge is where a window that ends, or begins, at a time ends or begins for an item: the same for
// both, so that windows that follow one another leave nothing out.
func (x *exportService) edge(id string, at time.Time) time.Time {
	u := stream(uint64(at.Unix()), id).Float64()
	return at.Add(time.Duration((2*u - 1) * float64(x.fuzz)))
}

// cutOf is the moment of which a full export of a time has an item. Where windows are to follow, what
// was inserted between that moment and the edge of the first window is in one of both: else nothing
// could show it.
func (x *exportService) cutOf(id string, at, moment time.Time, followed bool) time.Time {
	if edge := x.edge(id, at); followed && !x.heldAt(id, moment).Exists() && x.heldAt(id, edge).Exists() {
		return edge
	}
	return moment
}

// full makes a full export of a time, which lies in a folder of its own; windows are to follow it or
// not. A file is a partition, of which all is of one moment, or nothing.
func (x *exportService) full(of exportstest.Table, at time.Time, followed bool) (folder string) {
	folder = x.next()
	files, cuts := make([][]attribute.Item, 1+x.rng.IntN(5)), []time.Time{}
	for range files {
		cuts = append(cuts, x.about(at))
	}
	together := x.rng.IntN(2) == 0
	for id := range inOrder(x.history) {
		n := int(x.rng.Float64() * x.rng.Float64() * float64(len(files)))
		cut := cuts[n]
		if !together {
			cut = x.about(at)
		}
		cut = x.cutOf(id, at, cut, followed)
		if item := x.heldAt(id, cut); item.Exists() {
			files[n] = append(files[n], item)
		}
		if !x.heldAt(id, at).Equal(x.heldAt(id, cut)) {
			x.world.Inject("item exported as it was before or after")
		}
	}
	for _, items := range files {
		x.rng.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	}
	x.lies(folder, folder+"/data/", at, len(files), x.objects.Full(of, folder, at, files...))
	x.world.Tracef("export %s of %s is complete, in %d files", folder, at.Format(time.RFC3339Nano), len(files))
	return folder
}

// window makes an incremental export: a line for each item that was written in it, but for those that
// were there neither before nor at its end.
func (x *exportService) window(of exportstest.Table, from, to time.Time, view exports.View) (folder string) {
	folder = x.next()
	files := make([][]exportstest.Change, 1+x.rng.IntN(4))
	for id, list := range inOrder(x.history) {
		first, last := x.edge(id, from), x.edge(id, to)
		after := func(at time.Time) int {
			return sort.Search(len(list), func(i int) bool { return list[i].at.After(at) })
		}
		n := after(last)
		if n == after(first) {
			continue
		}
		c := exportstest.Change{Keys: x.keys[id], Old: x.heldAt(id, first), New: list[n-1].item, Written: list[n-1].at}
		switch {
		case !c.Old.Exists() && !c.New.Exists():
			x.world.Inject("item inserted and removed in a window")
			continue
		case !c.New.Exists():
			x.world.Inject("item removed in a window")
		}
		file := x.rng.IntN(len(files))
		files[file] = append(files[file], c)
	}
	x.ends[to.Unix()] = true
	x.lies(folder, "data/", to, len(files), x.objects.Window(of, folder, from, to, string(view), files...))
	x.world.Tracef("window %s from %s to %s is complete, in %d files", folder, from.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano), len(files))
	return folder
}

// next is the name of the next export, and of its folder.
func (x *exportService) next() string {
	x.number++
	return fmt.Sprintf("export%d", x.number)
}

// lies notes which objects an export has.
func (x *exportService) lies(folder, data string, at time.Time, files int, err error) {
	if err != nil {
		panic(err)
	}
	x.seconds[at.Unix()] = true
	x.names = append(x.names, folder+"/manifest-summary.json", folder+"/manifest-files.json")
	for i := range files {
		x.names = append(x.names, fmt.Sprintf("%s%s-%d.json.gz", data, folder, i))
	}
}

// fuzzOf is by how much an image is earlier or later than the second that its load names.
func (x *exportService) fuzzOf(second int64) time.Duration {
	if x == nil || !x.seconds[second] {
		return 0
	}
	return x.fuzz
}

// isWindow reports whether a window ends at a second, of which its images are.
func (x *exportService) isWindow(second int64) bool { return x != nil && x.ends[second] }

// folder opens a folder of the bucket as a worker does.
func (x *exportService) folder(_ context.Context, folder string) (exports.Store, string, error) {
	return bucketView{x}, folder, nil
}

// openExport opens the export in a folder.
func (x *exportService) openExport(ctx context.Context, folder string) (*exports.Export, error) {
	return exports.Read(ctx, bucketView{x}, folder)
}

var errBucket = errors.New("sim: the bucket does not answer")

// bucketView is the bucket as its readers see it.
type bucketView struct{ *exportService }

// Open implements exports.Store.
func (b bucketView) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := task.Sleep(ctx, b.world.UpTo(time.Second)); err != nil {
		return nil, err
	}
	if b.world.Elapsed() < b.down || b.world.Chance(b.failing) {
		b.world.Inject("call to a bucket failed")
		return nil, errBucket
	}
	folder, rest, _ := strings.Cut(name, "/")
	if other := b.moved[folder]; other != "" {
		name = other + "/" + rest
	}
	content, err := b.content(ctx, name)
	if s := b.spoiled[name]; err == nil && b.world.Elapsed() < s.until {
		b.world.Inject("object of a bucket spoiled")
		content, err = s.how(content)
	}
	if err != nil {
		return nil, err
	}
	var in io.Reader = bytes.NewReader(content)
	if b.world.Chance(b.failing) {
		b.world.Inject("read of a bucket broken off")
		in = io.MultiReader(io.LimitReader(in, b.world.Rand().Int64N(int64(len(content))+1)), brokenReader{})
	}
	return io.NopCloser(in), nil
}

func (x *exportService) content(ctx context.Context, name string) ([]byte, error) {
	in, err := x.objects.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// brokenReader fails at once.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBucket }

// spoil lets something be wrong with the bucket until a time.
func (x *exportService) spoil(folder string, until time.Duration) {
	own := slices.DeleteFunc(slices.Clone(x.names), func(name string) bool {
		return !strings.HasPrefix(name, folder+"/") && !strings.Contains(name, "/"+folder+"-")
	})
	name, rng := own[x.rng.IntN(len(own))], x.rng
	other := x.names[rng.IntN(len(x.names))]
	cut, how := rng.Float64(), rng.IntN(6)
	x.world.Tracef("the bucket: %s is spoiled (%d) until %s", name, how, until)
	switch how {
	case 0:
		x.down = max(x.down, until)
		return
	case 1:
		x.world.Inject("folder of an export exchanged")
		x.moved[folder], _, _ = strings.Cut(other, "/")
		x.world.After(until-x.world.Elapsed(), func() { delete(x.moved, folder) })
		return
	}
	x.spoiled[name] = spoiling{until, func(content []byte) ([]byte, error) {
		switch how {
		case 2:
			return nil, fs.ErrNotExist
		case 3:
			return content[:int(cut*float64(len(content)))], nil
		case 4:
			changed := slices.Clone(content)
			changed[int(cut*float64(len(content)))] ^= 0x10
			return changed, nil
		}
		return x.content(context.Background(), other)
	}}
}

// heal puts everything right.
func (x *exportService) heal() {
	x.failing, x.down, x.spoiled, x.moved = 0, 0, map[string]spoiling{}, map[string]string{}
}
