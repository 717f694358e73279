package switchover

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// FallbackState is the state of the way back of a table.
type FallbackState struct {
	Table string `json:"table"`
	status.WayBack
}

// following adds the states of the ways back to the document.
func (d *Document) following(all []checkpoint.Fallback, now time.Time) {
	for _, f := range all {
		d.Fallbacks = append(d.Fallbacks, FallbackState{f.Source, status.WayBackOf(f, now)})
	}
}

func (d *Document) writeFallbacks(b *strings.Builder) {
	for _, s := range d.Fallbacks {
		of := ""
		if len(d.Fallbacks) > 1 {
			of = " of " + s.Table
		}
		fmt.Fprintf(b, "  way back%s: %s\n", of, s.Text())
	}
	if r := d.CanRollBack; r != nil && !r.Ready {
		fmt.Fprintf(b, "  cannot roll back: %s\n", strings.Join(r.Reasons, "; "))
	}
}
