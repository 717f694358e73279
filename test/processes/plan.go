package processes

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// span is the start of a fault, from the beginning of its round, and its duration.
type span struct{ at, lasts time.Duration }

// between draws a duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// side selects one of a worker's networks.
type side int

const (
	bothEnds side = iota
	sourceEnd
	targetEnd
	sides
)

func (s side) String() string { return [...]string{"both ends", "the source", "the target"}[s] }

// partition is one network fault of a worker.
type partition struct {
	side  side
	fault Fault
	cure  Cure
}

func (p partition) String() string {
	text := fmt.Sprintf("%s of %s", p.fault, p.side)
	if p.fault == Hold || p.fault == Mute {
		text += ", then " + p.cure.String()
	}
	return text
}

// partitions lists the faults that the rounds of a world use, in an order that the seed chooses.
// The most important one is a request that is held and then delivered: it is executed long after
// other workers have continued.
func partitions(seed uint64) []partition {
	r := rand.New(rand.NewPCG(seed, 1<<40))
	any := func() side { return side(r.IntN(int(sides))) }
	all := []partition{
		{targetEnd, Hold, Deliver}, {bothEnds, Hold, Deliver}, {any(), Hold, Reset}, {sourceEnd, Hold, Deliver},
		{any(), Cut, Reset}, {targetEnd, Hold, Forget}, {sourceEnd, Hold, Forget}, {any(), Mute, Deliver}, {targetEnd, Mute, Reset}, {any(), Slow, Deliver},
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// plan lists the faults of the workers in one round. Three different workers are killed, frozen and
// cut off.
type plan struct {
	killed, frozen, severed int // workers
	kill, freeze, sever     span
	partition               partition
	// held holds the frozen worker's network from before the freeze until after it. Its requests
	// are in flight meanwhile, and it cannot cancel them when they arrive.
	held    bool
	stopped int // the worker that is stopped and started after the others' faults
	// alone leaves out all faults except the kill.
	alone bool
}

// lease is the workers' state.lease, the shortest allowed. Other workers take over after a longer
// fault.
const lease = 5 * time.Second

// newPlan draws the plan of the n-th round of a world.
func newPlan(seed uint64, n int) plan {
	r := rand.New(rand.NewPCG(seed, uint64(n)+1<<41))
	order := r.Perm(workersPerWorld)
	all := partitions(seed)
	p := plan{killed: order[0], frozen: order[1], severed: order[2], stopped: r.IntN(workersPerWorld), partition: all[n%len(all)]}
	p.kill = span{between(r, 200*time.Millisecond, 3*time.Second), between(r, 0, 4*time.Second)}
	p.freeze = span{between(r, 200*time.Millisecond, 1500*time.Millisecond), between(r, lease+3*time.Second, lease+6*time.Second)}
	p.held = n%2 == 0
	p.sever = span{between(r, 200*time.Millisecond, 2*time.Second), between(r, 2*time.Second, lease+3*time.Second)}
	if p.partition.fault == Hold {
		p.sever.lasts = between(r, lease+2*time.Second, lease+5*time.Second)
	}
	p.alone = !signals
	return p
}

// smokePlan returns a short plan: the busiest worker is killed.
func smokePlan(busiest int) plan {
	return plan{killed: busiest, kill: span{at: 500 * time.Millisecond, lasts: 2 * time.Second}, alone: true}
}

// name returns a worker's name.
func name(worker int) string { return string(rune('a' + worker)) }
