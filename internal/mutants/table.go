package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// The table is text for people, one line for each mutant, and what the next run begins with: the seed that found it.

func tableHead(fresh seeds) string {
	return fmt.Sprintf(`# Planted bugs, and what found each: so many fresh seeds of the simulation from seed %d on, with the number of the one that failed and
# what its first checker said; or the tests that failed.
# Made by: make mutants SEEDS=%d
# The checkers are the invariants of HAZARDS.md.
`, fresh.from, fresh.number)
}

const columns = " | "

func tableLine(m mutant, v verdict) string {
	needed := "tests"
	switch {
	case !v.killed:
		needed = "SURVIVES"
	case v.needed > 0:
		needed = fmt.Sprintf("%d seeds, seed %d", v.needed, v.seed)
		if v.needed == 1 {
			needed = fmt.Sprintf("1 seed, seed %d", v.seed)
		}
	}
	by := v.by
	if m.test != "" && m.why != "" && v.killed {
		by += " (" + m.why + ")"
	}
	const longest = 170
	if v.killed && m.test == "" && len(by) > longest {
		by = strings.ToValidUTF8(by[:longest], "")
	}
	return strings.TrimRight(fmt.Sprintf("%-58s"+columns+"%-11s"+columns+"%-22s"+columns+"%s", m.name, m.hazards, needed, by), " ")
}

var seedColumn = regexp.MustCompile(`, seed (\d+)$`)

// readTable gives the seeds of a table by the names of the mutants they found. An empty name is no table.
func readTable(name string) (map[string]uint64, error) {
	known := map[string]uint64{}
	if name == "" {
		return known, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, columns)
		if strings.HasPrefix(line, "#") || len(cells) < 4 {
			continue
		}
		if found := seedColumn.FindStringSubmatch(strings.TrimSpace(cells[2])); found != nil {
			seed, err := strconv.ParseUint(found[1], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			known[strings.TrimSpace(cells[0])] = seed
		}
	}
	return known, nil
}
