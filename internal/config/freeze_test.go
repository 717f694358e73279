package config

import (
	"slices"
	"strings"
	"testing"
)

// A freeze by the tables' policies needs a probe whose writes are denied, and fewer hooks.
func TestFreezeByPolicy(t *testing.T) {
	const head = "version: 1\ntarget: { project: p, instance: i }\ntables:\n  - from: Orders\nsource: { role_arn: arn:aws:iam::111122223333:role/own }\ncutover:\n"
	const probe = "  probe_role_arn: arn:aws:iam::111122223333:role/probe\n"
	const policy = "  freeze: table_policy\n"
	hooks := func(names ...string) string {
		text := "  hooks: {"
		for i, name := range names {
			text += strings.Repeat(",", min(i, 1)) + " " + name + ": ./x"
		}
		return text + " }\n"
	}
	for name, c := range map[string]struct {
		text   string
		wants  []string // parts of each error
		places []string
	}{
		"hooks alone":            {hooks("freeze_writes", "switch", "unfreeze_writes"), nil, nil},
		"a hook is missing":      {hooks("switch"), []string{"cutover.hooks.freeze_writes is missing", "cutover.hooks.unfreeze_writes is missing"}, []string{"f:7", "f:7"}},
		"only the switch":        {policy + probe + hooks("switch"), nil, nil},
		"no hooks":               {policy + probe, nil, nil},
		"all hooks":              {policy + probe + hooks("freeze_writes", "switch", "unfreeze_writes"), nil, nil},
		"no switch":              {policy + probe + hooks("freeze_writes", "unfreeze_writes"), []string{"cutover.hooks.switch is missing"}, []string{"f:9"}},
		"no end of a hook":       {policy + probe + hooks("freeze_writes", "switch"), []string{"cutover.hooks.unfreeze_writes is missing"}, []string{"f:9"}},
		"no probe":               {policy + hooks("switch"), []string{"cutover.probe_role_arn is missing"}, []string{"f:7"}},
		"the probe is our role":  {policy + "  probe_role_arn: arn:aws:iam::111122223333:role/own\n", []string{"also source.role_arn"}, []string{"f:8"}},
		"the probe is exempt":    {policy + probe + "  freeze_exempt: [arn:aws:iam::111122223333:role/probe]\n", []string{"also in cutover.freeze_exempt"}, []string{"f:8"}},
		"another role is exempt": {policy + probe + "  freeze_exempt: [arn:aws:iam::111122223333:role/batch]\n", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, found := parse("f", []byte(head+c.text), testEnv, nil)
			if len(found) != len(c.wants) {
				t.Fatalf("found %v, want %q", found, c.wants)
			}
			for i, e := range found {
				if !strings.Contains(e.What, c.wants[i]) || !strings.HasPrefix(e.Pos.String(), c.places[i]) || e.Cause == "" || e.Fix == "" {
					t.Errorf("%s: %+v, want %q at %s", e.Pos, e, c.wants[i], c.places[i])
				}
			}
			if len(found) == 0 && cfg.Cutover.ByTablePolicy() != strings.Contains(c.text, policy) {
				t.Errorf("by policy: %v", cfg.Cutover.ByTablePolicy())
			}
		})
	}
	var none Cutover
	if got := none.MissingHooks(); !slices.Equal(got, []string{"freeze_writes", "switch", "unfreeze_writes"}) {
		t.Errorf("without a configuration, %q are missing", got)
	}
}
