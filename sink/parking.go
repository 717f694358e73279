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

// ParkingLot is where a Writer parks items that it cannot store.
type ParkingLot interface {
	// Park stores a record. Storing the same record again changes nothing.
	Park(ctx context.Context, p transform.Parked) error
	// Supersede deletes the records of an item that are older than a version. Records at that
	// version or above stay.
	Supersede(ctx context.Context, source, item string, by transform.Version) error
	// Count returns how many items are parked in all tables, at most `limit`.
	Count(ctx context.Context, limit int) (int, error)
}

// Records is a small store of keyed records, for example in the state table. Errors are *Error.
type Records interface {
	// Put stores a record. It overwrites an existing record with the same key.
	Put(ctx context.Context, key string, data []byte) error
	// Delete removes a record, if there is one.
	Delete(ctx context.Context, key string) error
	// Scan calls f for each record whose key begins with `prefix`, in the order of keys. If
	// `keysOnly` is true, the data is nil. It returns the error of f if f returns one.
	Scan(ctx context.Context, prefix string, keysOnly bool, f func(key string, data []byte) error) error
}

// Parking is the ParkingLot in the state table. A record's key is <name>/parked/<source
// table>/<hash of the item key>/<version>. So the same change is always parked under the same key,
// and record keys do not show item keys.
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

// RefOf returns the reference of a record.
func RefOf(p transform.Parked) Ref {
	return Ref(p.Source + "/" + HashOf(p.Key) + "/" + string(p.Version))
}

// HashOf returns 32 hexadecimal digits that name an item without showing its key
// (transform.Mapping.ItemKey).
func HashOf(item string) string {
	sum := sha256.Sum256([]byte(item))
	return hex.EncodeToString(sum[:16])
}

// Parts splits a reference; table names have no slash. Missing parts are empty.
func (r Ref) Parts() (source, hash, version string) {
	source, rest, _ := strings.Cut(string(r), "/")
	hash, version, _ = strings.Cut(rest, "/")
	return source, hash, version
}

// item returns the reference without the version.
func (r Ref) item() string { return string(r[:max(0, strings.LastIndexByte(string(r), '/'))]) }

// ErrNotParked is returned if no record has the reference.
var ErrNotParked = errors.New("no such parked item")

// parkedFormat is the version of the record's format. A reader refuses other versions.
const parkedFormat = 1

// parkedRecord is the stored form of a parked item.
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

// errEnough ends a scan before the last record.
var errEnough = errors.New("enough")

// Count implements ParkingLot. Several parked changes of one item count once.
func (p *Parking) Count(ctx context.Context, limit int) (int, error) {
	return p.count(ctx, p.prefix, limit)
}

// CountOf returns how many items of one source table are parked.
func (p *Parking) CountOf(ctx context.Context, source string) (int, error) {
	return p.count(ctx, p.prefix+source+"/", 0)
}

// ItemsOf returns the hashes of the parked items of one source table.
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

// List calls f for each parked record of a source table, or of all tables if source is empty, in
// the order of table, item and version.
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

// scan calls f for each record. For a record that cannot be read, it passes the reason to f.
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

// OfItem calls f for each parked record of one item, in the order of versions. The argument `item`
// is the item's key as in records (transform.Mapping.ItemKey).
func (p *Parking) OfItem(ctx context.Context, source, item string, f func(Ref, transform.Parked) error) error {
	return p.list(ctx, p.prefix+source+"/"+HashOf(item)+"/", f)
}

// Get returns one parked record, or ErrNotParked.
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

// Remove deletes a record. It does nothing if there is none.
func (p *Parking) Remove(ctx context.Context, ref Ref) error {
	return p.records.Delete(ctx, p.prefix+string(ref))
}

// Supersede deletes the parked records of one item that are older than a version. The change with
// that version must be durable or parked.
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

// Resolve deletes the parked records of a mapping's table that are healed. An image is a whole
// item. So if the rows of a parked item hold higher versions, live or as tombstones, no part of the
// parked change is missing. If a later change of the item is parked too, the older record is
// deleted as well, but it does not count as resolved, because the item stays parked. Resolve
// returns how many records are resolved and how many are left. An error of one record does not keep
// Resolve from checking the other records.
func (p *Parking) Resolve(ctx context.Context, m *transform.Mapping, rows Looker) (resolved, left int, err error) {
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	var healed, superseded []Ref
	var item string
	var latest Ref // latest record of the item; "" if it is healed
	var at transform.Version
	note(p.scan(ctx, p.prefix+m.Source+"/", func(ref Ref, record transform.Parked, unreadable error) error {
		left++
		if unreadable != nil {
			note(unreadable)
			return nil
		}
		ok, failed := isHealed(ctx, m, rows, record)
		note(failed)
		// The sort order of the records is not the order of the changes, because versions compare
		// the application's number first. So positions are compared to find the later change.
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

// isHealed reads the rows to which the images of a parked change map. Every later change or repair
// of the item writes at least one of these rows, live or as a tombstone. A change is repeated until
// it is in all its rows, but an interrupted repair is not repeated. So a row that still lacks the
// parked image keeps the record from being healed. A record without any row is not healed here: the
// batch of the item's next change supersedes it.
func isHealed(ctx context.Context, m *transform.Mapping, rows Looker, record transform.Parked) (bool, error) {
	// A row that cannot be read must not delay the check of other records.
	ctx, cancel := task.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	newer := false
	// A row may be above the record only by the application's number. Then it holds an earlier
	// change, or a write that is not from the stream.
	above := func(v transform.Version) bool { return v > record.Version && v.Position() > record.Version.Position() }
	wanted := Removals(m, record.Change.Keys, []attribute.Item{record.Change.New})
	for _, at := range Removals(m, record.Change.Keys, []attribute.Item{record.Change.Old, record.Change.New}) {
		// Only the item's version is needed, and many items may share the row.
		at.Families, at.Columns = nil, nil
		row, err := rows.Look(ctx, &at, 0)
		if err != nil {
			return false, err
		}
		live, gone, _ := row.Versions(at.Owner)
		// The row holds neither the change's version nor a newer version.
		lacking := !above(live) && live != record.Version && !above(gone)
		if lacking && slices.ContainsFunc(wanted, addressOf(at).holds) {
			return false, nil
		}
		newer = newer || above(live) || above(gone) && !sameRead(gone, record.Version)
	}
	return newer, nil
}

// sameRead reports whether a tombstone may belong to the same item that a load parked. A load
// empties the item's rows first. If the load is interrupted after that, it reads the item again,
// perhaps on a host with another clock. Only the stream or a later load shows that the item was
// removed or moved.
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
