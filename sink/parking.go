package sink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// ParkingLot is where a Writer puts what it cannot store.
type ParkingLot interface {
	// Park stores a record. Storing it again changes nothing.
	Park(ctx context.Context, p transform.Parked) error
	// Supersede forgets the records of an item that are older than a version. What is parked at
	// that version, or above, stays.
	Supersede(ctx context.Context, source, item string, by transform.Version) error
	// Count is how many items are parked over all tables, counted no further than limit.
	Count(ctx context.Context, limit int) (int, error)
}

// Records is a small store of keyed records, in the state table for example. Errors are *Error.
type Records interface {
	// Put stores a record, whether there is one or not.
	Put(ctx context.Context, key string, data []byte) error
	// Delete removes a record, if there is one.
	Delete(ctx context.Context, key string) error
	// Scan calls f for each record whose key begins with prefix, in the order of keys. Data is nil
	// if keysOnly. It returns the error of f if f returns one.
	Scan(ctx context.Context, prefix string, keysOnly bool, f func(key string, data []byte) error) error
}

// Parking is the ParkingLot in the state table. A record's key is <name>/parked/<source
// table>/<hash of the item key>/<version>: the same change parks at the same place, and keys of
// items do not show in keys of records.
type Parking struct {
	records Records
	prefix  string
}

// NewParking returns the parking lot of the named migration.
func NewParking(records Records, name string) *Parking {
	return &Parking{records, name + "/parked/"}
}

// Ref names a parked record within its migration: <source table>/<hash of the item key>/<version>.
type Ref string

// RefOf is the place of a record.
func RefOf(p transform.Parked) Ref {
	return Ref(p.Source + "/" + HashOf(p.Key) + "/" + string(p.Version))
}

// HashOf names an item without showing its key (transform.Mapping.ItemKey): 32 hexadecimal digits.
func HashOf(item string) string {
	sum := sha256.Sum256([]byte(item))
	return hex.EncodeToString(sum[:16])
}

// Parts takes a reference apart; names of tables have no slash. Missing parts are empty.
func (r Ref) Parts() (source, hash, version string) {
	source, rest, _ := strings.Cut(string(r), "/")
	hash, version, _ = strings.Cut(rest, "/")
	return source, hash, version
}

// item is all of a reference but the version.
func (r Ref) item() string { return string(r[:max(0, strings.LastIndexByte(string(r), '/'))]) }

// ErrNotParked is returned for a reference to no record.
var ErrNotParked = errors.New("no such parked item")

// parkedFormat is the number of the record's form. A reader refuses a higher one.
const parkedFormat = 1

// parkedRecord is what is stored.
type parkedRecord struct {
	Format  int             `json:"format"`
	Source  string          `json:"source"`
	Key     string          `json:"key"`
	Version string          `json:"version"`
	Reason  string          `json:"reason"`
	Change  json.RawMessage `json:"change"`
}

// Park implements ParkingLot.
func (p *Parking) Park(ctx context.Context, record transform.Parked) error {
	change, err := cdc.MarshalChange(record.Change)
	if err != nil {
		return fmt.Errorf("parked item of table %s: %w", record.Source, err)
	}
	data, err := json.Marshal(parkedRecord{
		Format: parkedFormat, Source: record.Source, Key: record.Key, Version: string(record.Version), Reason: record.Reason, Change: change,
	})
	if err != nil {
		return fmt.Errorf("parked item of table %s: %w", record.Source, err)
	}
	return p.records.Put(ctx, p.prefix+string(RefOf(record)), data)
}

// errEnough ends a scan early.
var errEnough = errors.New("enough")

// Count implements ParkingLot. Several parked changes of one item count once.
func (p *Parking) Count(ctx context.Context, limit int) (int, error) {
	return p.count(ctx, p.prefix, limit)
}

// CountOf is how many items of one source table are parked.
func (p *Parking) CountOf(ctx context.Context, source string) (int, error) {
	return p.count(ctx, p.prefix+source+"/", 0)
}

// ItemsOf are the hashes of the items of one source table that are parked.
func (p *Parking) ItemsOf(ctx context.Context, source string) (items []string, err error) {
	err = p.records.Scan(ctx, p.prefix+source+"/", true, func(key string, _ []byte) error {
		_, hash, _ := Ref(strings.TrimPrefix(key, p.prefix)).Parts()
		if n := len(items); n == 0 || items[n-1] != hash {
			items = append(items, hash)
		}
		return nil
	})
	return items, err
}

func (p *Parking) count(ctx context.Context, prefix string, limit int) (int, error) {
	n, last := 0, ""
	err := p.records.Scan(ctx, prefix, true, func(key string, _ []byte) error {
		item := Ref(key).item()
		if item == last {
			return nil
		}
		last = item
		if n++; n == limit {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return n, err
}

// List calls f for each parked record of a source table, or of all if source is empty: by table,
// item and version.
func (p *Parking) List(ctx context.Context, source string, f func(Ref, transform.Parked) error) error {
	prefix := p.prefix
	if source != "" {
		prefix += source + "/"
	}
	return p.list(ctx, prefix, f)
}

func (p *Parking) list(ctx context.Context, prefix string, f func(Ref, transform.Parked) error) error {
	return p.scan(ctx, prefix, func(ref Ref, record transform.Parked, unreadable error) error {
		if unreadable != nil {
			return unreadable
		}
		return f(ref, record)
	})
}

// scan calls f for each record, also for those that cannot be read, with the reason.
func (p *Parking) scan(ctx context.Context, prefix string, f func(ref Ref, record transform.Parked, unreadable error) error) error {
	return p.records.Scan(ctx, prefix, false, func(key string, data []byte) error {
		ref := Ref(strings.TrimPrefix(key, p.prefix))
		record, err := parseParked(data)
		if err != nil {
			err = fmt.Errorf("parked item %s: %w", ref, err)
		}
		return f(ref, record, err)
	})
}

// OfItem calls f for each parked record of one item, which is named as in records
// (transform.Mapping.ItemKey), by version.
func (p *Parking) OfItem(ctx context.Context, source, item string, f func(Ref, transform.Parked) error) error {
	return p.list(ctx, p.prefix+source+"/"+HashOf(item)+"/", f)
}

// Get is one parked record, or ErrNotParked.
func (p *Parking) Get(ctx context.Context, ref Ref) (record transform.Parked, err error) {
	found := false
	key := p.prefix + string(ref)
	err = p.records.Scan(ctx, key, false, func(k string, data []byte) error {
		if k != key {
			return errEnough
		}
		found = true
		record, err = parseParked(data)
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return transform.Parked{}, fmt.Errorf("parked item %s: %w", ref, err)
	}
	if !found {
		return transform.Parked{}, fmt.Errorf("%w: %s", ErrNotParked, ref)
	}
	return record, nil
}

// Remove forgets a record; nothing happens if there is none.
func (p *Parking) Remove(ctx context.Context, ref Ref) error {
	return p.records.Delete(ctx, p.prefix+string(ref))
}

// Supersede forgets the parked records of one item that are older than a version. Its change must
// be durable, or parked in its turn.
func (p *Parking) Supersede(ctx context.Context, source, item string, by transform.Version) error {
	var older []Ref
	err := p.records.Scan(ctx, p.prefix+source+"/"+HashOf(item)+"/", true, func(key string, _ []byte) error {
		ref := Ref(strings.TrimPrefix(key, p.prefix))
		if _, _, version := ref.Parts(); transform.Version(version).Position() < by.Position() {
			older = append(older, ref)
		}
		return nil
	})
	for _, ref := range older {
		if err == nil {
			err = p.Remove(ctx, ref)
		}
	}
	return err
}

// Resolve forgets the parked records of a mapping's table that are healed: images are whole, so
// once the rows that a parked item maps to hold higher versions, live or as tombstones, nothing of
// the parked change is missing any more, nor if a later change of the item is parked as well: then
// the item stays parked, and its older record is removed without being counted as resolved. It
// returns how many are resolved, and how many records are left. An error of one record does not
// keep it from the others.
func (p *Parking) Resolve(ctx context.Context, m *transform.Mapping, rows Looker) (resolved, left int, err error) {
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	var healed, superseded []Ref
	var item string
	var latest Ref // of the item; "" if it is healed
	var at transform.Version
	note(p.scan(ctx, p.prefix+m.Source+"/", func(ref Ref, record transform.Parked, unreadable error) error {
		left++
		if unreadable != nil {
			note(unreadable)
			return nil
		}
		ok, failed := isHealed(ctx, m, rows, record)
		note(failed)
		// Records of one item come by version, in which the application's number stands first: the
		// later one is that of the later position.
		position, same := record.Version.Position(), item == ref.item()
		older := same && position < at
		switch {
		case ok:
			healed = append(healed, ref)
		case older:
			superseded = append(superseded, ref)
		}
		if older {
			return context.Cause(ctx)
		}
		if same && latest != "" {
			superseded = append(superseded, latest)
		}
		if item, latest, at = ref.item(), ref, position; ok {
			latest = ""
		}
		return context.Cause(ctx)
	}))
	remove := func(refs []Ref) (removed int) {
		for _, ref := range refs {
			if failed := p.Remove(ctx, ref); failed != nil {
				note(failed)
				continue
			}
			removed++
		}
		return removed
	}
	resolved = remove(healed)
	return resolved, left - resolved - remove(superseded), err
}

// isHealed looks at the rows that the images of a parked change map to. A later change of the item
// has one of them as the row it left or wrote, and so has a repair. A change is repeated until it
// is in all of its rows; of a repair that is cut short nothing is repeated: a row that still lacks
// the parked image keeps the record. A record without any row is not healed so: the batch of the
// item's next change supersedes it.
func isHealed(ctx context.Context, m *transform.Mapping, rows Looker, record transform.Parked) (bool, error) {
	// A row that cannot be read must not keep others from being looked at.
	ctx, cancel := task.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	newer := false
	// A row that the application ranks above the record for its number alone was there before it, or is not of the stream.
	above := func(v transform.Version) bool { return v > record.Version && v.Position() > record.Version.Position() }
	wanted := Removals(m, record.Change.Keys, []attribute.Item{record.Change.New})
	for _, at := range Removals(m, record.Change.Keys, []attribute.Item{record.Change.Old, record.Change.New}) {
		// Its version is all that is asked for: the row may be shared by many items.
		at.Families, at.Columns = nil, nil
		row, err := rows.Look(ctx, &at, 0)
		if err != nil {
			return false, err
		}
		live, gone, _ := row.Versions(at.Owner)
		// It holds neither what the change puts nor anything newer.
		lacking := !above(live) && live != record.Version && !above(gone)
		if lacking && slices.ContainsFunc(wanted, addressOf(at).holds) {
			return false, nil
		}
		newer = newer || above(live) || above(gone) && !sameRead(gone, record.Version)
	}
	return newer, nil
}

// sameRead reports whether a tombstone may be of the very item that a load parked: it empties the
// item's rows first, and one that is cut short there reads the item again, by another clock
// perhaps. That the item is gone or is elsewhere by now, the stream or a later load says.
func sameRead(tombstone, parked transform.Version) bool {
	return tombstone.Hop() == transform.LoadHop && parked.Hop() == transform.LoadHop && tombstone.Generation() == parked.Generation()
}

func parseParked(data []byte) (transform.Parked, error) {
	var record parkedRecord
	if err := json.Unmarshal(data, &record); err != nil {
		return transform.Parked{}, errors.New("replicator did not write this record")
	}
	if record.Format != parkedFormat {
		return transform.Parked{}, fmt.Errorf("the record has format %d; this program knows %d", record.Format, parkedFormat)
	}
	version, err := transform.ParseVersion(record.Version)
	if err != nil {
		return transform.Parked{}, err
	}
	change, err := cdc.UnmarshalChange(record.Change)
	if err != nil {
		return transform.Parked{}, err
	}
	return transform.Parked{Source: record.Source, Key: record.Key, Version: version, Reason: record.Reason, Change: change}, nil
}
