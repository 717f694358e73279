package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// StreamError is the error for a table without a suitable stream. Without it, the rows cannot be
// kept equal to the items.
type StreamError struct {
	Table string
	// View is the stream's view type; "" if the table has no enabled stream.
	View string
}

func (e *StreamError) Error() string {
	if e.View == "" {
		return fmt.Sprintf("table %s has no enabled stream", e.Table)
	}
	return fmt.Sprintf("the stream of table %s has view type %s, which does not show every new row and every removal", e.Table, e.View)
}

// NeedsOldImages reports whether changes can be applied only with their old images. New images are
// enough if every row key and column depends only on the primary key, because then an item never
// moves to another row. Dual writes also need the old image, because it shows which columns may be
// deleted, and which number the item had. The argument `late` is Spec.Late.
func NeedsOldImages(m *transform.Mapping, late time.Duration) bool {
	return !m.DependsOnKeyOnly() || late > 0 || m.VersionAttribute() != ""
}

// CheckStream reports whether the table's stream is enabled and carries the images that the mapping
// needs (H62).
func CheckStream(d backfill.Description, needsOld bool) error {
	switch {
	case !d.StreamEnabled:
		return &StreamError{Table: d.Name}
	case d.ViewType == "NEW_AND_OLD_IMAGES", d.ViewType == "NEW_IMAGE" && !needsOld:
		return nil
	}
	return &StreamError{Table: d.Name, View: d.ViewType}
}

// KeyError is the error for a table that was recreated with another primary key than the mapping
// has. With the mapping's key, different items of the new table could get the same row.
type KeyError struct{ Table string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("the primary key of table %s has changed since this process started", e.Table)
}

// CheckKey fails with a *KeyError if the described table has another primary key than the mapping.
func CheckKey(d backfill.Description, m *transform.Mapping) error {
	if len(d.PrimaryKey) == 0 || slices.Equal(d.PrimaryKey, m.PrimaryKey) {
		return nil
	}
	return &KeyError{d.Name}
}

// CheckSource fails with a *checkpoint.SourceError if the described table is in another partition,
// region or account than the followed stream.
func CheckSource(d backfill.Description, followed string) error {
	return checkpoint.CheckSource(d.Name, d.StreamARN, followed)
}

// RenewedError is the error for a table in the right account and region that was recreated or has a
// new stream, which no worker has recorded yet.
type RenewedError struct {
	Table           string
	Followed, Found string // ARNs of streams, or ids of tables
}

func (e *RenewedError) Error() string {
	return fmt.Sprintf("table %s was recreated, or its stream was enabled again: found %s, but replicator follows %s", e.Table, e.Found, e.Followed)
}

// CheckFollowed fails with a *checkpoint.SourceError as CheckSource does. It fails with a *RenewedError if the
// described table has another stream or id than the followed table. A worker continues with such a
// table in a new generation. Until then, a command that compares or loads must be refused, because
// it would take the new table's items for items of the former table. Unknown values are not
// checked.
func CheckFollowed(d backfill.Description, s checkpoint.TableState) error {
	differ := func(was, is string) bool { return was != "" && is != "" && was != is }
	switch load := s.Load; {
	case CheckSource(d, s.StreamARN) != nil:
		return CheckSource(d, s.StreamARN)
	case differ(s.StreamARN, d.StreamARN):
		return &RenewedError{d.Name, s.StreamARN, d.StreamARN}
	case load.Generation == s.Generation && differ(load.TableID, d.ID):
		return &RenewedError{d.Name, load.TableID, d.ID}
	}
	return nil
}

// RowsError is the error for a first load that would write into a target table with rows of unknown
// origin.
type RowsError struct{ Table, Target string }

func (e *RowsError) Error() string {
	return fmt.Sprintf("target table %s has rows, and nothing shows that they come from table %s", e.Target, e.Table)
}

// StrangerError is the error for a target table that another migration also writes, and that is not
// declared as shared. A sweep would remove rows of the other migration.
type StrangerError struct {
	Table string
	Other checkpoint.Stranger
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("target table %s is also written by another migration, so the sweep could remove that migration's rows: %s", e.Table, e.Other)
}
