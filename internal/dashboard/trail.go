package dashboard

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// trailFor is the period that the small curves show.
const trailFor = 15 * time.Minute

// mark is the state of the migration at one moment; negative figures are unknown.
type mark struct {
	at        time.Time
	lag, rate float64
}

// trail holds the marks of the last 15 minutes, in memory only.
type trail []mark

func (t *trail) add(m *status.Document) {
	s := sumOf(m)
	*t = append(*t, mark{m.At, known(s.lag), known(s.rate)})
	for len(*t) > 0 && m.At.Sub((*t)[0].at) > trailFor {
		*t = (*t)[1:]
	}
}

func known(figure *float64) float64 {
	if figure == nil {
		return -1
	}
	return *figure
}

// The size of a curve, in the units of its SVG element.
const (
	curveWidth  = 120.0
	curveHeight = 24.0
)

// curve returns the points of a polyline through the known figures; "" if fewer than two figures
// are known.
func (t trail) curve(of func(mark) float64) string {
	highest, points := 0.0, []string(nil)
	for _, m := range t {
		highest = max(highest, of(m))
	}
	for _, m := range t {
		if figure := of(m); figure >= 0 {
			back := t[len(t)-1].at.Sub(m.at).Seconds() / trailFor.Seconds()
			y := curveHeight - 1
			if highest > 0 {
				y -= figure / highest * (curveHeight - 2)
			}
			points = append(points, fmt.Sprintf("%.1f,%.1f", curveWidth*(1-back), y))
		}
	}
	if len(points) < 2 {
		return ""
	}
	return strings.Join(points, " ")
}
