package transform

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// smallItem has about 500 bytes in 10 attributes, mediumItem about 2 KB with nested maps, lists and
// sets: common sizes in published benchmarks.
func smallItem(key string, n int) attribute.Item {
	list := []attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "n", Value: number(fmt.Sprint(n))}, {Name: "flag", Value: attribute.Bool(n%2 == 0)}}
	for i := range 7 {
		list = append(list, attribute.Attribute{Name: fmt.Sprintf("attribute%d", i), Value: attribute.String(strings.Repeat("x", 50+i))})
	}
	return attribute.NewItem(list)
}

func mediumItem(key string, n int) attribute.Item {
	list := []attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "n", Value: number(fmt.Sprint(n))}}
	for i := range 6 {
		var elements []attribute.Value
		for j := range 4 {
			elements = append(elements, attribute.Map([]attribute.Attribute{
				{Name: "name", Value: attribute.String(strings.Repeat("y", 30))}, {Name: "price", Value: number(fmt.Sprintf("%d.25", i*j))},
				{Name: "tags", Value: attribute.StringSet([]string{"red", "green", "blue"})},
			}))
		}
		list = append(list, attribute.Attribute{Name: fmt.Sprintf("list%d", i), Value: attribute.List(elements)})
	}
	return attribute.NewItem(list)
}

// zipf returns a function that draws keys 0…n-1 with probability proportional to 1/(k+1)^s.
func zipf(random *rand.Rand, n int, s float64) func() int {
	sums := make([]float64, n)
	total := 0.0
	for i := range sums {
		total += 1 / math.Pow(float64(i+1), s)
		sums[i] = total
	}
	return func() int { return sort.SearchFloat64s(sums, random.Float64()*total) }
}

// pages returns 20 pages of 1,000 changes over 10,000 keys, each with old and new image.
func pages(draw func() int, make func(string, int) attribute.Item) [][]cdc.Change {
	var all [][]cdc.Change
	for p := range 20 {
		var page []cdc.Change
		for i := range 1000 {
			key := fmt.Sprintf("customer-%05d", draw())
			page = append(page, cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(1e18) + uint64(p*1000+i)), Time: time.Unix(1_795_170_000, 0),
				Keys: item("pk", attribute.String(key)), Old: make(key, i), New: make(key, i+1)})
		}
		all = append(all, page)
	}
	return all
}

// mustRename returns a mapping that renames a few columns and changes nothing else.
func mustRename(t interface{ Fatal(...any) }, keys []KeyAttribute) *Mapping {
	m, err := New(Spec{Source: "Orders", Table: "orders", PrimaryKey: keys, Families: families("d"), Rules: []Rule{{Writes: []Write{{Columns: []ColumnRule{
		{Attribute: "*", To: "d"}, {Attribute: "n", To: "d:number"}, {Attribute: "attribute3", To: "d:third"}, {Attribute: "list2", To: "d:second"}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// BenchmarkRenaming alternates, page by page, between a mapping without rules and one that renames
// columns. It takes the best time of each page, so that other work of the machine counts little.
// Run it for at least five seconds, so that each page comes several times.
func BenchmarkRenaming(b *testing.B) {
	keys := []KeyAttribute{{"pk", attribute.KindS}}
	mappings := []*Mapping{mustMapping(b, keys), mustRename(b, keys)}
	for _, shape := range []struct {
		name string
		make func(string, int) attribute.Item
	}{{"small", smallItem}, {"medium", mediumItem}} {
		random := rand.New(rand.NewPCG(1, 2))
		all := pages(func() int { return random.IntN(10_000) }, shape.make)[:5]
		for i := range all {
			all[i] = all[i][:100] // a shorter run is disturbed less often
		}
		b.Run(shape.name, func(b *testing.B) {
			best := [2][]time.Duration{make([]time.Duration, len(all)), make([]time.Duration, len(all))}
			for i := 0; b.Loop(); i++ {
				page := i % len(all)
				for turn := range mappings {
					n := (i/len(all) + turn) % 2 // each mapping meets cached pages equally often
					began := time.Now()
					Fold(mappings[n], all[page], stamp)
					if took := time.Since(began); best[n][page] == 0 || took < best[n][page] {
						best[n][page] = took
					}
				}
			}
			var sum [2]float64
			for n, unit := range []string{"default", "renaming"} {
				for _, took := range best[n] {
					sum[n] += float64(took.Nanoseconds())
				}
				b.ReportMetric(sum[n]/float64(len(all)*len(all[0])), unit+"-ns/record")
				b.ReportMetric(testing.AllocsPerRun(1, func() { Fold(mappings[n], all[0], stamp) })/float64(len(all[0])), unit+"-allocs/record")
			}
			b.ReportMetric(sum[1]/sum[0], "renaming/default")
		})
	}
}

// Renaming columns costs no more allocations than a mapping without rules.
func TestRenamingAllocatesNothing(t *testing.T) {
	keys := []KeyAttribute{{"pk", attribute.KindS}}
	plain, renaming := mustMapping(t, keys), mustRename(t, keys)
	for name, make := range map[string]func(string, int) attribute.Item{"small": smallItem, "medium": mediumItem} {
		n := 0
		page := pages(func() int { n++; return n }, make)[0]
		allocations := func(m *Mapping) float64 { return testing.AllocsPerRun(5, func() { Fold(m, page, stamp) }) }
		if a, b := allocations(plain), allocations(renaming); b > a*1.01 {
			t.Errorf("%s: %.0f allocations for a page of %d changes, %.0f without renaming", name, b, len(page), a)
		}
	}
}

func BenchmarkFold(b *testing.B) {
	keys := []KeyAttribute{{"pk", attribute.KindS}}
	m := mustMapping(b, keys)
	moving := mustMapping(b, keys, "n", "pk")
	renaming := mustRename(b, keys)
	for _, shape := range []struct {
		name string
		make func(string, int) attribute.Item
	}{{"small", smallItem}, {"medium", mediumItem}} {
		random := rand.New(rand.NewPCG(1, 2))
		uniform := pages(func() int { return random.IntN(10_000) }, shape.make)
		skewed := pages(zipf(random, 10_000, 1.1), shape.make)
		for _, c := range []struct {
			name  string
			m     *Mapping
			pages [][]cdc.Change
		}{{"uniform", m, uniform}, {"zipf1.1", m, skewed}, {"moving", moving, uniform}, {"renaming", renaming, uniform}} {
			b.Run(shape.name+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				records, rows := 0, 0
				for i := 0; b.Loop(); i++ {
					page := c.pages[i%len(c.pages)]
					records += len(page)
					rows += len(Fold(c.m, page, stamp).Rows)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
				b.ReportMetric(float64(rows)/float64(records), "rows/record")
			})
		}
	}
}
