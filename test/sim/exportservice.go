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

// exportService exports the source table to a bucket, with the weakest guarantees that the service
// may give. Each item in an export has its own time, near the named one. The bucket fails, and
// holds incomplete objects or another export's, until it is healed.
type exportService struct {
	world   *virtual.World
	rng     *rand.Rand
	source  *model.Table
	table   exportstest.Table
	keys    map[string]attribute.Item
	fuzz    time.Duration // how much earlier or later an export's content is than its time
	history map[string][]pastImage
	objects exportstest.Objects
	names   []string       // of all objects
	seconds map[int64]bool // seconds for which exports exist
	ends    map[int64]bool // seconds at which windows end
	number  int            // of exports
	// begun is since when point-in-time recovery is on without interruption.
	begun time.Time

	spoiled map[string]spoiling // by object name
	moved   map[string]string   // by requested folder: the folder that is there instead
	failing float64             // share of calls that fail
	down    time.Duration       // until then all calls fail
}

// pastImage is an item's image from a time on, as point-in-time recovery stores it.
type pastImage struct {
	at   time.Time
	item attribute.Item
}

// spoiling is how an object is damaged until a time.
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

// heldAt returns an item at an earlier time; it does not exist if there was none.
func (x *exportService) heldAt(id string, at time.Time) attribute.Item {
	list := x.history[id]
	n := sort.Search(len(list), func(i int) bool { return list[i].at.After(at) })
	if n == 0 {
		return attribute.Item{}
	}
	return list[n-1].item
}

// about returns a moment as near to a time as an export's content may be.
func (x *exportService) about(at time.Time) time.Time {
	return at.Add(time.Duration((2*x.rng.Float64() - 1) * float64(x.fuzz)))
}

// edge returns when a window that begins or ends at a time does so for one item. The distance is the
// same for all times: consecutive windows omit nothing, and a window that begins earlier than another
// export contains each change that the other one is too early for.
func (x *exportService) edge(id string, at time.Time) time.Time {
	u := stream(uint64(x.begun.Unix()), id).Float64()
	return at.Add(time.Duration((2*u - 1) * float64(x.fuzz)))
}

// cutOf returns the moment at which a full export of a time reads an item. If windows follow, an
// item inserted between that moment and the edge of the first window must be in one of them.
// Otherwise no export would contain it.
func (x *exportService) cutOf(id string, at, moment time.Time, followed bool) time.Time {
	if edge := x.edge(id, at); followed && !x.heldAt(id, moment).Exists() && x.heldAt(id, edge).Exists() {
		return edge
	}
	return moment
}

// full writes a full export of a time into its own folder. Windows may follow it. A file is a
// partition, whose items are all of one moment, or it is empty.
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

// window writes an incremental export: a line for each item written in it, except items that
// existed neither before it nor at its end.
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

// next returns the name of the next export and of its folder.
func (x *exportService) next() string {
	x.number++
	return fmt.Sprintf("export%d", x.number)
}

// lies records the objects of an export.
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

// fuzzOf returns how much earlier or later an image is than the second that its load names.
func (x *exportService) fuzzOf(second int64) time.Duration {
	if x == nil || !x.seconds[second] {
		return 0
	}
	return x.fuzz
}

// isWindow reports whether a window ends at a second.
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

// bucketView is the readers' view of the bucket.
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

// brokenReader fails immediately.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBucket }

// spoil damages the bucket until a time.
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

// heal repairs everything.
func (x *exportService) heal() {
	x.failing, x.down, x.spoiled, x.moved = 0, 0, map[string]spoiling{}, map[string]string{}
}
