package fallback

import (
	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Inverse is a mapping of which every row gives its item back. It implements Form.
type Inverse struct {
	*transform.Mapping
	// Types are the types of the source's attributes, which cells do not show.
	Types transform.Types
}

// Invert implements Form.
func (i Inverse) Invert(row string, cells []transform.Cell) (attribute.Item, error) {
	return i.Mapping.Invert(row, cells, i.Types)
}

// NotOffered returns why a table gets no way back: rows that do not give their items back, or types
// that cells do not distinguish. It is empty if a way back is possible.
func (i Inverse) NotOffered() []string {
	if reasons := i.NotInvertible(); len(reasons) > 0 {
		return reasons
	}
	return i.Unclear(i.Types)
}
