package sim

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// What comes late, from before something that the checkers judge by.

// A repair that finds the row as it should be writes nothing. A repair before it, of what the item was for a while, may come just then: the changes that
// brought the item back outrank it, and are still to come.
func TestAnEarlierRepairOfAnItemThatCameBack(t *testing.T) {
	for _, late := range []bool{true, false} {
		failures := judge(oneShard(), func(s *judged) {
			target := Target{s.Target}
			s.put("1", "a")
			parked := transform.Parked{Source: s.Mapping.Source, Key: s.Mapping.ItemKey(s.last().New), Change: s.last()}
			if late {
				s.write(target, s.fold(s.last()).Rows)
			}
			s.put("1", "b")
			if !late {
				s.write(target, s.fold(s.last()).Rows)
			}
			if err := s.repair(s, "1"); late == (err == nil) {
				s.failf("the first repair: %v", err)
			}
			s.put("1", "a")
			s.sleep(time.Second)
			began := s.World.Elapsed()
			if late {
				if err := s.repair(target, "1"); err != nil {
					s.failf("%v", err)
				}
				s.arrive()
			} else { // which a repair is to mend
				keys := s.Mapping.Keys(s.last().New)
				item, id, number, _ := s.Source.get(s.ctx, keys)
				s.truth.operator.given[id] = append(s.truth.operator.given[id], reading{item, number})
			}
			s.truth.operator.s = &simulation{Migration: s.Migration, truth: s.truth}
			s.truth.operator.checkRetried(began, []transform.Parked{parked}, nil)
		})
		expect(t, failures, map[bool]string{false: "I9: item"}[late])
	}
}
