package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// player is the program that plays seeds of the simulation.
const player = "./test/sim/soak"

// simulation is a player built with all bugs, each selected by its number.
type simulation string

type seeds struct{ from, number uint64 }

// verdict is the result for a bug.
type verdict struct {
	found  bool
	by     string  // the checker that found it, and its message; for a bug that was not found, the player's output
	seed   *uint64 // the seed that found it
	played uint64
	took   time.Duration
}

// build compiles the player with all bugs into a directory.
func build(dir string, all []bug) (simulation, error) {
	overlay, err := plant(".", dir, all)
	if err != nil {
		return "", err
	}
	s := simulation(filepath.Join(dir, "player"))
	c := exec.Command("go", "build", "-overlay", overlay, "-ldflags=-s -w", "-o", string(s), player)
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: the product does not compile with its planted bugs: mend the entry that the comment before the function names: %w\n%s", planted, err, out)
	}
	return s, nil
}

// find activates the bug of the given index, and plays ranges of seeds until a seed fails.
func (s simulation) find(i int, plays string, ranges []seeds) (v verdict) {
	began := time.Now()
	for _, r := range ranges {
		played := v.played
		v = s.play(i, plays, r)
		if v.played += played; v.found {
			break
		}
	}
	v.took = time.Since(began)
	return v
}

// failure matches the line that the player prints for a failed seed: the seed, the virtual hours,
// and the first checker's message.
var failure = regexp.MustCompile(`(?m)^FAIL seed (\d+)(?: after [0-9.]+ virtual hours)?: (.*)$`)

func (s simulation) play(i int, plays string, r seeds) verdict {
	arguments := []string{"-quiet", "-parallel", "1", "-failures", "1", "-from", fmt.Sprint(r.from), "-seeds", fmt.Sprint(r.number)}
	if plays != "" {
		arguments = append(arguments, "-"+plays)
	}
	c := exec.Command(string(s), arguments...)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", awake, i+1))
	out, err := c.CombinedOutput()
	found := failure.FindStringSubmatch(string(out))
	if found == nil || err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		return verdict{by: first, played: r.number}
	}
	v := verdict{found: true, by: found[2], seed: new(uint64)}
	_, _ = fmt.Sscan(found[1], v.seed)
	v.played = *v.seed - r.from + 1
	return v
}
