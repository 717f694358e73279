package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// cutoverApp is the application, and the service behind the hooks, which refuses old tokens. What
// it knows of its items it was told.
type cutoverApp struct {
	run              *cutoverRun
	hooks            *hook.Hooks // which call it
	frozen, switched bool
	top              [3]int
	underWay         int                // calls that are still to arrive
	deaf             uint32             // an attempt whose switch it never takes; 0: none
	chances          map[string]float64 // of how a call goes wrong
	quiet            quietApp
}

// told is what the application knows of an item.
type told struct {
	value string // "": there is none
	at    time.Duration
	badly bool // the target refuses to hold it
}

// hookFaults are the ways in which a call of a hook goes wrong, with the most of their chances.
var hookFaults = []struct {
	name string
	most float64
}{{"hook refused", 0.15}, {"hook acts and fails", 0.2}, {"hook acts and refuses", 0.05}, {"hook's answer lost", 0.15}, {"hook late", 0.15}, {"hook hangs", 0.1}}

func newCutoverApp(d *cutoverRun) *cutoverApp {
	a := &cutoverApp{run: d, chances: map[string]float64{}}
	at := hook.Hook{URL: must(url.Parse("https://application/cutover"))}
	a.hooks = must(hook.New(map[string]hook.Hook{cutover.FreezeWrites: at, cutover.Switch: at, cutover.UnfreezeWrites: at}, hookServer{d}))
	return a
}

// draw draws how often calls go wrong.
func (a *cutoverApp) draw(rng *rand.Rand) {
	for _, f := range hookFaults {
		a.chances[f.name] = f.most * rng.Float64()
	}
}

// fault is what goes wrong with a call; "" is nothing.
func (a *cutoverApp) fault(step string) string {
	d := a.run
	p := d.World.Rand().Float64()
	if d.peaceful {
		return ""
	}
	struck := d.o.Strike == "hook" && string(d.o.Step) == step && d.struck < 4
	if struck {
		d.struck++
	}
	for _, f := range hookFaults {
		chance := a.chances[f.name]
		if struck {
			chance = 1 / float64(len(hookFaults))
		}
		if p -= chance; p < 0 {
			return f.name
		}
	}
	return ""
}

// RoundTrip implements http.RoundTripper: it is a call of a hook.
func (a *cutoverApp) RoundTrip(r *http.Request) (*http.Response, error) {
	w, ctx, name := a.run.World, r.Context(), r.Header.Get(hook.HookHeader)
	if r.Header.Get(hook.ProbeHeader) != "" {
		return answer(http.StatusOK, map[bool]string{true: "quiet"}[a.quiet.promises && name == cutover.FreezeWrites]), nil
	}
	a.underWay++ // also while whoever calls stands still
	defer func() { a.underWay-- }()
	token := r.Header.Get(hook.TokenHeader)
	a.run.checks.called(name, token)
	if err := task.Sleep(ctx, w.UpTo(3*time.Second)); err != nil {
		return nil, err
	}
	noAnswer := errors.New("no answer")
	if name == cutover.Switch && strings.HasPrefix(token, fmt.Sprint(a.deaf, ".")) {
		w.Inject("hook not taken")
		return nil, noAnswer
	}
	fault := a.fault(r.Header.Get("Cutover-Step"))
	if fault == "hook acts and refuses" && name != cutover.FreezeWrites { // others promise that nothing was done
		fault = "hook acts and fails"
	}
	if fault != "" {
		w.Inject(fault)
	}
	switch fault {
	case "hook refused":
		if name == cutover.Switch && a.switched && a.arrive(name, token) { // one that has switched says so for ever
			return answer(http.StatusOK, ""), nil
		}
		if a.late(token) {
			return answer(http.StatusConflict, ""), nil
		}
		return answer(http.StatusForbidden, "refused"), nil
	case "hook acts and refuses":
		a.arrive(name, token)
		return answer(http.StatusForbidden, "refused"), nil
	case "hook acts and fails":
		a.arrive(name, token)
		return answer(http.StatusInternalServerError, ""), nil
	case "hook's answer lost":
		a.arrive(name, token)
		return nil, noAnswer
	case "hook late":
		a.underWay++
		w.After(w.UpTo(20*time.Minute), func() { a.underWay--; a.arrive(name, token) })
		return nil, noAnswer
	case "hook hangs":
		_ = task.Sleep(ctx, time.Hour)
		return nil, noAnswer
	}
	if !a.arrive(name, token) {
		return answer(http.StatusConflict, ""), nil
	}
	if err := task.Sleep(ctx, w.UpTo(time.Second)); err != nil {
		return nil, err
	}
	outcome := ""
	if name == cutover.FreezeWrites {
		outcome = a.run.answerFreeze(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return answer(http.StatusOK, outcome), nil
}

func answer(status int, outcome string) *http.Response {
	r := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
	r.Header.Set(hook.OutcomeHeader, outcome)
	return r
}

// late reports whether a token is below the highest, which it becomes if it is not.
func (a *cutoverApp) late(text string) bool {
	var token [3]int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &token[0], &token[1], &token[2]); err != nil {
		panic(err)
	}
	if slices.Compare(token[:], a.top[:]) < 0 {
		a.run.World.Inject("old token refused")
		return true
	}
	a.top = token
	return false
}

// arrive executes a call; false if its token is old.
func (a *cutoverApp) arrive(name, token string) bool {
	if a.late(token) {
		return false
	}
	a.run.World.Tracef("HOOK %s %s", name, token)
	switch name {
	case cutover.FreezeWrites:
		a.frozen = true
	case cutover.UnfreezeWrites:
		if a.switched {
			a.run.fail("H109: the application is told to go on with the source after it has switched")
		}
		a.frozen = false
	case cutover.Switch:
		a.run.checks.switches()
		a.switched = true
	}
	return true
}

// write is one change of the application's, where it writes now.
func (d *cutoverRun) write() {
	t := d.tables[d.World.Rand().IntN(len(d.tables))]
	pk := fmt.Sprintf("k%d", d.World.Rand().IntN(12))
	d.written++
	value := fmt.Sprint("v", d.written)
	if d.World.Rand().IntN(4) == 0 {
		value = ""
	}
	switch {
	case !t.there():
	case d.app.switched:
		if value == "" {
			value = "kept"
		}
		d.own(t, pk, value)
	case d.app.frozen:
	default:
		d.put(t, pk, value)
		t.told[pk] = told{value: value, at: d.World.Elapsed()}
	}
}

// tell writes a new value of an item, which the application then knows to be durable.
func (d *cutoverRun) tell(t *cutTable, pk string) {
	d.written++
	value := fmt.Sprint("v", d.written)
	d.put(t, pk, value)
	t.told[pk] = told{value: value, at: d.World.Elapsed()}
}

// put changes an item of the source, or removes it where there is no value. An application that
// writes the target too does so later. It deletes a row only after a delete that removed an item.
func (d *cutoverRun) put(t *cutTable, pk, value string) {
	if value == "" && !t.holds(pk) {
		return
	}
	if d.Late > 0 && d.World.Rand().IntN(3) > 0 {
		d.send(t, pk, value, d.World.Rand().IntN(3) == 0)
	}
	if value == "" {
		t.Source.Delete(keysOf(pk))
		return
	}
	t.Source.Put(itemOf(pk, value))
}

func itemOf(pk, value string) attribute.Item {
	return with(keysOf(pk), "value", attribute.String(value))
}

// dual is the second of an application's two writes.
func (d *cutoverRun) dual(t *cutTable, pk, value string, at time.Time, whole bool) {
	if d.app.switched {
		d.fail("H59: the application switches while its own writes of before are under way")
	}
	d.World.Inject("application writes the target too")
	op := sink.Op{Kind: sink.DeleteColumn, Family: "d", Qualifier: "value"}
	if value != "" {
		whole, op.Kind, op.Timestamp, op.Value = false, sink.SetCell, at.UnixMilli()*1000, []byte(value)
	}
	t.Bared[pk+"#s"] = t.Bared[pk+"#s"] || whole
	if err := (model.Target{Bigtable: d.Target}).Write(t.Mapping.Table, pk+"#s", whole, op); err != nil {
		panic(err)
	}
}

// own writes the target, as the application does once it has switched.
func (d *cutoverRun) own(t *cutTable, pk, value string) {
	op := sink.Op{Kind: sink.SetCell, Family: "d", Qualifier: "value", Timestamp: d.World.Now().UnixMilli() * 1000, Value: []byte(value)}
	whole := d.World.Rand().IntN(3) == 0 // DeleteRow takes our versions with it
	if err := (model.Target{Bigtable: d.Target}).Write(t.Mapping.Table, pk+"#s", whole, op); err != nil {
		panic(err)
	}
	t.told[pk] = told{value: value, at: d.World.Elapsed()}
}

// tooLarge takes six bytes of JSON for each of its own, and more than a message holds.
var tooLarge = strings.Repeat("\x01", relay.MaxData/6+1)

// poison writes an item that cannot be stored, a moment before the application stops. Where one may
// be left behind, and was parked before, that one is put right: as many are parked, and another
// one.
func (d *cutoverRun) poison() {
	t := d.tables[0]
	switch {
	case d.app.frozen || d.app.switched:
		return
	case t.told["k0"].badly:
		d.World.Inject("another item that cannot be mapped")
		d.mend(t, "k0")
		d.spoil(t, "k1", with(itemOf("k1", "spoilt"), longName, attribute.String("x")))
	case d.topic != nil:
		d.World.Inject("item that no message can hold")
		d.spoil(t, "k0", itemOf("k0", tooLarge))
	default:
		d.World.Inject("item that cannot be stored")
		d.spoil(t, "k0", itemOf("k0", rejectedValue+"value"))
	}
}

// spoilEarly writes an item that cannot be mapped, which may be left behind. It returns false if it
// cannot be written now.
func (d *cutoverRun) spoilEarly() bool {
	if d.app.frozen || d.app.switched || !d.record().Step.Over() {
		return false
	}
	d.World.Inject("item that cannot be mapped")
	d.spoil(d.tables[0], "k0", with(itemOf("k0", "spoilt"), longName, attribute.String("x")))
	return true
}

// spoil writes an item that cannot be stored, and puts it right an hour later.
func (d *cutoverRun) spoil(t *cutTable, pk string, item attribute.Item) {
	value, _ := item.Get("value")
	t.Source.Put(item)
	t.told[pk] = told{value.Text(), d.World.Elapsed(), true}
	var right func()
	right = func() {
		if d.mend(t, pk); t.told[pk].badly && !d.app.switched {
			d.World.After(10*time.Minute, right)
		}
	}
	d.World.After(20*time.Minute+d.World.UpTo(time.Hour), right)
}

// mend puts an item right, if the application may write.
func (d *cutoverRun) mend(t *cutTable, pk string) {
	if !d.app.frozen && !d.app.switched && t.told[pk].badly {
		d.written++
		value := fmt.Sprint("right", d.written)
		d.put(t, pk, value)
		t.told[pk] = told{value: value, at: d.World.Elapsed()}
	}
}

// hurt changes a row of the target, as nobody should, and has the application put it right later.
// It returns false while there is no row, or a cutover is under way.
func (d *cutoverRun) hurt() bool {
	t, pk := d.tables[len(d.tables)-1], "k1"
	if d.app.switched || d.app.frozen || !t.there() || !d.record().Step.Over() || !t.State().Loaded() {
		return false
	}
	d.World.Inject("row hurt")
	d.damage(t, pk)
	return true
}

// damage changes a row, until the application puts it right.
func (d *cutoverRun) damage(t *cutTable, pk string) {
	op := sink.Op{Kind: sink.SetCell, Family: "d", Qualifier: "value", Timestamp: d.World.Now().UnixMilli() * 1000, Value: []byte("hurt")}
	if err := (model.Target{Bigtable: d.Target}).Write(t.Mapping.Table, pk+"#s", false, op); err != nil {
		panic(err)
	}
	d.checks.hurt = t
	var right func()
	right = func() {
		if d.app.frozen {
			d.World.After(10*time.Minute, right)
		} else if !d.app.switched {
			d.put(t, pk, "")
			d.put(t, pk, "right")
			t.told[pk] = told{value: "right", at: d.World.Elapsed()}
			d.checks.hurt = nil
		}
	}
	d.World.After(30*time.Minute+d.World.UpTo(time.Hour), right)
}
