package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// tenants is a migration whose items have no address without a tenant.
type tenants struct {
	t       *testing.T
	mapping *transform.Mapping
	table   *sinktest.Memory
	records *sinktest.Records
	parking *sink.Parking
	writer  *sink.Writer
}

func newTenants(t *testing.T) *tenants {
	m, err := transform.NewMapping("Orders", "t", "d", orders.PrimaryKey, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	s := &tenants{t: t, mapping: m, table: memory(), records: &sinktest.Records{}}
	s.parking = sink.NewParking(s.records, "m")
	s.writer = sink.NewWriter(sink.Options{Table: s.table, Parking: s.parking})
	return s
}

// image returns an item. Without a tenant it cannot be stored.
func image(key, tenant, value string) attribute.Item {
	attributes := []attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "v", Value: attribute.String(value)}}
	if tenant != "" {
		attributes = append(attributes, attribute.Attribute{Name: "tenant", Value: attribute.String(tenant)})
	}
	return attribute.NewItem(attributes)
}

func (s *tenants) fold(changes ...cdc.Change) transform.Batch {
	return transform.Fold(s.mapping, changes, transform.Stamp{Generation: 1, Hop: 500_000})
}

func (s *tenants) write(changes ...cdc.Change) {
	s.t.Helper()
	b := s.fold(changes...)
	if err := s.writer.Write(context.Background(), sink.Unfenced(), &b); err != nil {
		s.t.Fatal(err)
	}
}

// parked returns which changes are parked, by key and sequence number.
func (s *tenants) parked() string {
	s.t.Helper()
	var all []string
	err := s.parking.List(context.Background(), "", func(_ sink.Ref, p transform.Parked) error {
		key, _ := p.Change.Keys.Get("pk")
		all = append(all, key.Text()+p.Change.Sequence.String())
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func (s *tenants) expect(when, want string) {
	s.t.Helper()
	if got := s.parked(); got != want {
		s.t.Errorf("%s: parked are %q, want %q", when, got, want)
	}
}

// became returns a change of item k.
func became(sequence uint64, old, now attribute.Item) cdc.Change {
	c := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(sequence), Keys: page("k")[0].Keys, Old: old, New: now}
	if !old.Exists() {
		c.Event = cdc.Insert
	} else if !now.Exists() {
		c.Event = cdc.Remove
	}
	return c
}

// An item without an address has one parked change, its last, however often it changes. It has none
// once a change is stored or the item is removed.
func TestParkedChangesWithoutAnAddressAreSuperseded(t *testing.T) {
	for end, last := range map[string]attribute.Item{"corrected": image("k", "t1", "v"), "removed": {}} {
		t.Run(end, func(t *testing.T) {
			s := newTenants(t)
			s.write(became(1, attribute.Item{}, image("k", "", "1")))
			for i := uint64(2); i <= 5; i++ {
				s.write(became(i, image("k", "", fmt.Sprint(i-1)), image("k", "", fmt.Sprint(i))))
				s.expect("changed", fmt.Sprintf("k%d", i))
			}
			s.write(became(6, image("k", "", "5"), last))
			s.expect(end, "")
			if rows := len(readAll(t, s.table, "t")); (rows == 1) != last.Exists() {
				t.Errorf("%d rows", rows)
			}
		})
	}
}

// The same within one page.
func TestParkedChangesAreSupersededByAPage(t *testing.T) {
	s := newTenants(t)
	s.write(became(1, attribute.Item{}, image("k", "", "1")))
	s.write(became(2, image("k", "", "1"), image("k", "t1", "2")), became(3, image("k", "t1", "2"), image("k", "t2", "3")))
	s.expect("corrected and moved", "")
}

// A key that no row can have: the target never holds anything of the item, and its removal deletes
// the record.
func TestParkedItemOfAKeyThatIsTooLongIsRemoved(t *testing.T) {
	s := newTenants(t)
	s.mapping = orders
	long := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(strings.Repeat("k", transform.MaxRowKeyBytes+1))}})
	change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Keys: long, New: long}
	s.write(change)
	if n, err := s.parking.CountOf(context.Background(), "Orders"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	change.Event, change.Sequence, change.Old, change.New = cdc.Remove, cdc.SequenceOf(2), long, attribute.Item{}
	s.write(change)
	if n, err := s.parking.CountOf(context.Background(), "Orders"); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// A stalled worker brings an older page. Later parked changes of the item stay, and the records
// that it parks itself are removed by the next check.
func TestOlderPageSupersedesNothingNewer(t *testing.T) {
	s := newTenants(t)
	second := became(2, image("k", "", "1"), image("k", "t1", "2"))
	fifth := became(5, image("k", "", "4"), image("k", "", "5"))
	s.write(fifth)
	s.write(second)
	s.expect("stored late", "k5")
	s.write(fifth)
	s.expect("repeated", "k5")
	s.write(became(1, attribute.Item{}, image("k", "", "1")))
	s.expect("parked late", "k1 k5")
	if resolved, left, err := s.parking.Resolve(context.Background(), s.mapping, s.table); resolved != 0 || left != 1 || err != nil {
		t.Error(resolved, left, err)
	}
	s.expect("looked after", "k5")
}

// failing is a parking lot in which one call fails.
type failing struct {
	*sink.Parking
	park, supersede error
}

func (f *failing) Park(ctx context.Context, p transform.Parked) error {
	if f.park != nil {
		return f.park
	}
	return f.Parking.Park(ctx, p)
}

func (f *failing) Supersede(ctx context.Context, source, item string, by transform.Version) error {
	if f.supersede != nil {
		return f.supersede
	}
	return f.Parking.Supersede(ctx, source, item, by)
}

// No record is removed before its successor is durable. A repeated write removes it.
func TestNothingIsSupersededBeforeItsSuccessorIsDurable(t *testing.T) {
	s := newTenants(t)
	lot := &failing{Parking: s.parking}
	s.write(became(1, attribute.Item{}, image("k", "", "1")))
	s.writer = sink.NewWriter(sink.Options{Table: s.table, Parking: lot})
	b := s.fold(became(2, image("k", "", "1"), image("k", "", "2")))
	step := func(when, want string, failed error) {
		t.Helper()
		if err := s.writer.Write(context.Background(), sink.Unfenced(), &b); !errors.Is(err, failed) {
			t.Errorf("%s: %v", when, err)
		}
		s.expect(when, want)
	}
	lot.park = unknown()
	step("not parked", "k1", lot.park)
	lot.park, lot.supersede = nil, unknown()
	step("not superseded", "k1 k2", lot.supersede)
	lot.supersede = nil
	step("repeated", "k2", nil)
}

// looks is a table whose reads a test observes and answers.
type looks struct {
	*sinktest.Memory
	look func(m *transform.RowMutation) error
}

func (l looks) Look(ctx context.Context, m *transform.RowMutation, before int64) (sink.Row, error) {
	if err := l.look(m); err != nil {
		return sink.Row{}, err
	}
	return l.Memory.Look(ctx, m, before)
}

// Of a row that many items may share, only the item's versions are read.
func TestResolveReadsVersionsAlone(t *testing.T) {
	s := newTenants(t)
	s.write(became(1, image("k", "t1", "v"), image("k", "", "v")))
	n := 0
	_, left, err := s.parking.Resolve(context.Background(), s.mapping, looks{s.table, func(m *transform.RowMutation) error {
		if n++; len(m.Families) > 0 || len(m.Columns) > 0 {
			t.Errorf("asked for families %v and columns %v", m.Families, m.Columns)
		}
		return nil
	}})
	if n != 1 || left != 1 || err != nil {
		t.Error(n, left, err)
	}

	e := startEmulator(t).create(t)
	for _, owner := range []string{"S:YQ", "S:Yg"} {
		m := put(1, owner+"=value")
		m.Item, m.Owner, m.Families, m.Columns = owner, owner, nil, []transform.Column{{Family: "d", Qualifier: owner}}
		apply(t, e, m)
	}
	row, err := e.Look(context.Background(), &transform.RowMutation{Table: "t", Row: "r", Owner: "S:YQ"}, 0)
	if err != nil || row.HeldBy("S:YQ") != version(1) || row.HeldBy("S:Yg") != "" || len(row.Cells) > 0 || len(row.Own) != 1 {
		t.Errorf("%+v, %v", row, err)
	}
}

// A row that cannot be read, an unknown record format, or a record that cannot be removed does not
// stop the check of the others.
func TestResolveGoesOnPastWhatFails(t *testing.T) {
	ctx, bad := context.Background(), strings.Repeat("n", transform.MaxQualifierBytes+1)
	s := newTenants(t)
	for i, key := range []string{"a", "b", "c", "d"} {
		c := became(uint64(10+i), attribute.Item{}, image(key, "t", "v"))
		c.Keys = image(key, "", "v")
		poison := attribute.NewItem(append(image(key, "t", "v").Attributes(), attribute.Attribute{Name: bad, Value: attribute.Null()}))
		c.New = poison
		s.write(c)
		if key == "d" {
			continue // it is not healed
		}
		c.Event, c.Sequence, c.Old, c.New = cdc.Modify, cdc.SequenceOf(uint64(20+i)), poison, image(key, "t", "v")
		s.write(c)
	}
	if err := s.records.Put(ctx, "m/parked/Orders/"+strings.Repeat("0", 32)+"/unreadable", []byte(`{"format":2}`)); err != nil {
		t.Fatal(err)
	}
	unreadable, asked := &sink.Error{Op: "ReadRows", Reason: sink.Rejected, Code: "FailedPrecondition"}, 0
	resolved, left, err := s.parking.Resolve(ctx, s.mapping, looks{s.table, func(m *transform.RowMutation) error {
		if asked++; m.Row == "t#b" {
			return unreadable
		}
		return nil
	}})
	if asked != 4 || resolved != 2 || left != 3 || err == nil || !strings.Contains(err.Error(), "format 2") && !errors.Is(err, unreadable) {
		t.Errorf("%d rows are looked at, %d records resolved, %d left: %v", asked, resolved, left, err)
	}
	if resolved, left, err = s.parking.Resolve(ctx, s.mapping, s.table); resolved != 1 || left != 2 || err == nil {
		t.Errorf("%d records are resolved then, %d left: %v", resolved, left, err)
	}
}

// An unreadable record does not prove that an older one is obsolete, and is not removed itself.
func TestUnreadableRecordSupersedesNothing(t *testing.T) {
	ctx := context.Background()
	s := newTenants(t)
	s.write(became(1, attribute.Item{}, image("k", "", "1")))
	s.write(became(2, attribute.Item{}, image("k", "", "2")))
	hash := sink.HashOf(s.mapping.ItemKey(image("k", "", "")))
	for _, n := range []uint64{0, 3} {
		if err := s.records.Put(ctx, "m/parked/Orders/"+hash+"/"+string(version(n)), []byte("?")); err != nil {
			t.Fatal(err)
		}
	}
	if resolved, left, err := s.parking.Resolve(ctx, s.mapping, s.table); resolved != 0 || left != 3 || err == nil {
		t.Errorf("%d resolved, %d left: %v", resolved, left, err)
	}
	if _, err := s.parking.Get(ctx, sink.Ref("Orders/"+hash+"/"+string(version(2)))); err != nil {
		t.Error(err)
	}
}

// unlisted is a record store that cannot be listed.
type unlisted struct{ *sinktest.Records }

var errUnlisted = errors.New("no list")

func (unlisted) Scan(context.Context, string, bool, func(string, []byte) error) error {
	return errUnlisted
}

// Supersede fails if it cannot look for obsolete records; otherwise nothing would look for them
// again.
func TestSupersedeFailsWithItsLook(t *testing.T) {
	parking := sink.NewParking(unlisted{&sinktest.Records{}}, "m")
	if err := parking.Supersede(context.Background(), "A", "k", version(2)); !errors.Is(err, errUnlisted) {
		t.Error(err)
	}
}

// Supersede removes only records of one item and its table.
func TestSupersedeIsOfOneItem(t *testing.T) {
	ctx := context.Background()
	records := &sinktest.Records{}
	parking, other := sink.NewParking(records, "m"), sink.NewParking(records, "m2")
	record := func(source, key string, sequence uint64) transform.Parked {
		return transform.Parked{Source: source, Key: key, Version: version(sequence), Reason: "why", Change: page("k")[0]}
	}
	for _, p := range []transform.Parked{record("A", "k", 1), record("A", "k", 2), record("A", "k", 3), record("A", "l", 1), record("B", "k", 1)} {
		if err := parking.Park(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Park(ctx, record("A", "k", 1)); err != nil {
		t.Fatal(err)
	}
	if err := parking.Supersede(ctx, "A", "k", version(2)); err != nil {
		t.Fatal(err)
	}
	var left []string
	list := func(_ sink.Ref, p transform.Parked) error {
		left = append(left, p.Source+p.Key+p.Version.Sequence().String())
		return nil
	}
	if err := errors.Join(parking.List(ctx, "B", list), parking.OfItem(ctx, "A", "k", list), parking.OfItem(ctx, "A", "l", list), other.List(ctx, "", list)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(left, " "); got != "Bk1 Ak2 Ak3 Al1 Ak1" {
		t.Error(got)
	}
}

// OfItem returns only records of one item: references begin with a hash, and many hashes have the
// same prefix.
func TestOfItemIsOfOneItem(t *testing.T) {
	ctx := context.Background()
	parking := sink.NewParking(&sinktest.Records{}, "m")
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprint("k", i))
		if err := parking.Park(ctx, transform.Parked{Source: "A", Key: keys[i], Version: version(1), Reason: "why", Change: page("k")[0]}); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		var found []string
		err := parking.OfItem(ctx, "A", key, func(_ sink.Ref, p transform.Parked) error { found = append(found, p.Key); return nil })
		if err != nil || len(found) != 1 || found[0] != key {
			t.Errorf("of %s: %q, %v", key, found, err)
		}
	}
}
