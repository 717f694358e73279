package config

import (
	"strings"
	"testing"
)

// A percentage refers to a table's provisioned capacity. Units per second are the same for every
// table.
func TestCapacity(t *testing.T) {
	for _, c := range []struct {
		text        string
		provisioned int64
		units       float64
		limited     bool
	}{
		{"25%", 400, 100, true},
		{"12.5%", 80, 10, true},
		{"100%", 5, 5, true},
		{"25%", 0, 0, false}, // on-demand: the capacity is unknown
		{"500", 400, 500, true},
		{"500", 0, 500, true},
		{"1.5", 0, 1.5, true},
		{"", 400, 0, false},
	} {
		parsed := Capacity(c.text)
		if c.text != "" {
			var err error
			if parsed, err = ParseCapacity(c.text); err != nil {
				t.Errorf("%q: %v", c.text, err)
			}
		}
		if units, ok := parsed.UnitsPerSecond(c.provisioned); units != c.units || ok != c.limited {
			t.Errorf("%q of %d: %v, %v", c.text, c.provisioned, units, ok)
		}
	}
	for _, text := range []string{"", "0", "0.5", "0%", "101%", "-5", "25 %", "1e3", "NaN", "Inf", "0x10", "25%%", "a lot", "12345678901"} {
		if c, err := ParseCapacity(text); err == nil {
			t.Errorf("%q is accepted as %v", text, c)
		}
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]float64{"70%": 0.7, "100%": 1, "62.5%": 0.625} {
		p, err := ParsePercent(text)
		if share, ok := p.Share(); err != nil || !ok || share != want {
			t.Errorf("%q: %v, %v", text, share, err)
		}
	}
	if _, ok := Percent("").Share(); ok {
		t.Error("none is a share")
	}
	for text, fix := range map[string]string{"0.7": "write 70%", "70": "write 70%", "0%": "write it like 70%", "100.1%": "write it like 70%", "": "write it like 70%"} {
		if _, err := ParsePercent(text); err == nil || !strings.HasSuffix(err.Error(), fix) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
