package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// counts returns how many open shards each named worker holds.
func (s *scene) counts(workers ...*Worker) (counts []int, all int) {
	held := s.held()
	for _, w := range workers {
		counts = append(counts, held[w.Name()])
		all += held[w.Name()]
	}
	return counts, all
}

// TestWorkersShareTheShards: the first worker takes all shards. Later workers take shards over
// until all hold about the same number, and again after one was killed and another started. No
// change is lost or applied twice, and then no shard changes its holder again.
func TestWorkersShareTheShards(t *testing.T) {
	play(t, 4, 9, func(s *scene) {
		even := func(workers ...*Worker) {
			s.until(3*time.Minute, "the shards are shared", func() bool {
				counts, all := s.counts(workers...)
				for _, n := range counts {
					if n < 9/len(workers) || n > (9+len(workers)-1)/len(workers) {
						return false
					}
				}
				return all == 9
			})
		}
		writing := true
		s.World.Go("application", func(ctx context.Context) {
			for i := 0; writing; i++ {
				s.put(fmt.Sprint(i%30), fmt.Sprint(i))
				_ = task.Sleep(ctx, s.upTo(time.Second))
			}
		})
		a := s.running("a")
		even(a)
		b, c := s.Start("b"), s.Start("c")
		even(a, b, c)
		a.Kill()
		even(b, c)
		d := s.Start("d")
		even(b, c, d)
		epochs := s.epochs()
		s.sleep(5 * time.Minute)
		if now := s.epochs(); now != epochs {
			s.failf("shards change hands in peace: epochs %s, then %s", epochs, now)
		}
		writing = false
		s.inSync(time.Minute)
	})
}

func (s *scene) epochs() string {
	text := ""
	for _, row := range s.Shards() {
		text += fmt.Sprint(row.Epoch, " ")
	}
	return text
}
