// Package cost estimates duration and price of a migration. It uses a dated table of unit
// prices. All results are estimates: they rely on list prices of one region, DynamoDB's own count
// of items, and rates that the vendors call approximate.
package cost

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed prices.yaml
var builtin []byte

// Price is a unit price and its source.
type Price struct {
	Price  float64 `yaml:"price" json:"price"` // in Prices.Currency
	Source string  `yaml:"source" json:"source"`
	// Note says what the price does not cover; "" if nothing. Lines with the price show it.
	Note string `yaml:"note" json:"-"`
}

// Prices is the table of unit prices and rates; prices.yaml explains each.
type Prices struct {
	Date     string             `yaml:"date"`
	Currency string             `yaml:"currency"`
	Regions  string             `yaml:"regions"`
	Prices   map[string]Price   `yaml:"prices"`
	Rates    map[string]float64 `yaml:"rates"`
}

// Default returns the table that is built into the program.
func Default() Prices {
	p, err := parse(builtin)
	if err != nil {
		panic("cost: prices.yaml: " + err.Error())
	}
	return p
}

// Override returns the default table with the replacements from a file of the same form. Every
// mistake in the file is an error, because a wrong price is worse than a missing price.
func Override(content []byte) (Prices, error) {
	base := Default()
	over, err := parse(content)
	if err != nil {
		return Prices{}, err
	}
	if over.Currency != "" && over.Currency != base.Currency && len(over.Prices) != len(base.Prices) {
		return Prices{}, fmt.Errorf("another currency (%s) needs all prices: %s", over.Currency, strings.Join(slices.Sorted(maps.Keys(base.Prices)), ", "))
	}
	if over.Date == "" {
		return Prices{}, errors.New("date is missing: write the date of the prices, such as 2026-11-21")
	}
	base.Date = over.Date
	if over.Currency != "" {
		base.Currency = over.Currency
	}
	if over.Regions != "" {
		base.Regions = over.Regions
	}
	for name, price := range over.Prices {
		if _, known := base.Prices[name]; !known {
			return Prices{}, fmt.Errorf("price %q is unknown; the prices are %s", name, strings.Join(slices.Sorted(maps.Keys(base.Prices)), ", "))
		}
		if price.Source == "" {
			price.Source = "--prices"
		}
		base.Prices[name] = price
	}
	for name, rate := range over.Rates {
		if _, known := base.Rates[name]; !known {
			return Prices{}, fmt.Errorf("rate %q is unknown; the rates are %s", name, strings.Join(slices.Sorted(maps.Keys(base.Rates)), ", "))
		}
		base.Rates[name] = rate
	}
	return base, nil
}

func parse(content []byte) (Prices, error) {
	var p Prices
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		return Prices{}, err
	}
	if p.Date != "" {
		if _, err := time.Parse(time.DateOnly, p.Date); err != nil {
			return Prices{}, fmt.Errorf("date %q is not of the form 2026-11-21", p.Date)
		}
	}
	for name, price := range p.Prices {
		if !(price.Price >= 0) || math.IsInf(price.Price, 0) {
			return Prices{}, fmt.Errorf("price %s must be a number from 0 up", name)
		}
	}
	for name, rate := range p.Rates {
		if !(rate > 0) || math.IsInf(rate, 0) {
			return Prices{}, fmt.Errorf("rate %s is not a positive number", name)
		}
	}
	return p, nil
}

// Money formats an amount with two significant digits, which is more than the precision of an
// estimate: "< 0.01", "0.37", "4.20", "1,300".
func Money(amount float64) string {
	switch {
	case amount <= 0:
		return "0"
	case amount < 0.01:
		return "< 0.01"
	case amount < 9.95:
		return fmt.Sprintf("%.2f", Round(amount))
	}
	digits := fmt.Sprintf("%.0f", Round(amount))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Round rounds to two significant digits.
func Round(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-1)
	return math.Round(x/unit) * unit
}
