package cutover

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Workers read the shards often from the checks on, until the attempt is over, whatever its end.
func TestShardsAreReadOftenFromTheChecksOn(t *testing.T) {
	for _, rehearse := range []bool{false, true} {
		playScene(t, func(s *scene) {
			near := func(want bool) {
				t.Helper()
				for _, source := range plan().Tables {
					if state := s.Table(source); state.FreezeNear() != want {
						t.Errorf("table %s is near a freeze: %v, %+v", source, !want, state.Halt)
					}
				}
			}
			s.Source.Blind = true
			p := plan()
			p.Rehearse = rehearse
			s.start(p)
			near(false)
			s.drive(at(checkpoint.CutoverDrain))
			near(true)
			s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("why", s.Now()) }))
			s.driveFor(2 * time.Minute)
			near(false)
		})
	}
}
