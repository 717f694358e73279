package follow

import (
	"slices"
	"testing"
	"time"
)

// What is read is written in its order, committed once it is durable, and given up by a drain with all
// that was read committed: another worker may take the shard at once, and writes nothing again.
func TestAShardIsFollowed(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.put("a", "b", "c")
		s.after(10*time.Second, func() { s.put("a", "d") })
		s.follows(20 * time.Second)
		row := s.row("s")
		if !slices.Equal(s.exact(), []int{1, 2, 3, 4, 5}) || s.at() != 5 || row.Owner != "" || row.Applied != 5 {
			t.Errorf("%+v, %+v", s.wrote, row)
		}
		if !slices.Equal(s.told, []string{"taken s", "left s"}) || len(s.failed) > 0 {
			t.Errorf("told %q, failed %q", s.told, s.failed)
		}
	})
}
