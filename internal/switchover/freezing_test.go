package switchover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
)

const byPolicy = "cutover: { groups: { all: [Orders, Parts] }, ready_when: { lag_held_for: 0s }, freeze: table_policy, probe_role_arn: \"arn:aws:iam::111122223333:role/probe\", hooks: { switch: ./s } }\n"

// policies is a Freezing whose probe sees what a test says.
type policies struct {
	tablepolicy.Policies
	text  string
	err   error
	seen  tablepolicy.Seen
	own   string
	asked []string // tables that were probed
}

func (p *policies) Get(context.Context, string) (tablepolicy.Policy, error) {
	return tablepolicy.Policy{Text: p.text, Revision: "1"}, p.err
}

func (p *policies) Own(context.Context) (string, error) { return p.own, nil }

func (p *policies) Prober(d backfill.Description) tablepolicy.Prober {
	p.asked = append(p.asked, d.Name)
	return probe{p.seen}
}

type probe struct{ seen tablepolicy.Seen }

func (p probe) Put(context.Context) tablepolicy.Seen      { return p.seen }
func (p probe) Transact(context.Context) tablepolicy.Seen { return p.seen }

// A table that cannot be frozen by its policy is refused by check and by start, with the reason.
func TestTablesThatPoliciesCannotFreeze(t *testing.T) {
	const own = "arn:aws:iam::111122223333:role/own"
	for name, c := range map[string]struct {
		policies policies
		want     string // part of the error; "" if the tables can be frozen
	}{
		"it can":                  {policies{seen: tablepolicy.LetThrough, own: own}, ""},
		"the policy is too large": {policies{seen: tablepolicy.LetThrough, own: own, text: `{"Statement":[{"Sid":"` + strings.Repeat("a", 20<<10) + `"}]}`}, "over 20 KB"},
		"the probe is our role":   {policies{seen: tablepolicy.LetThrough, own: "arn:aws:sts::111122223333:assumed-role/probe/session"}, "is exempt from the freeze"},
		"the probe may not write": {policies{seen: tablepolicy.Denied, own: own}, "may not write the table"},
		"it has no answer":        {policies{seen: tablepolicy.Unseen, own: own}, "must be allowed to assume that role"},
		"no policy can be read":   {policies{err: errors.New("it is away"), own: own}, "it is away"},
	} {
		t.Run(name, func(t *testing.T) {
			playConfig(t, byPolicy, func(s *scene) {
				for _, command := range []func(o *Operator) error{
					func(o *Operator) error { return o.Check(s.Ctx) },
					func(o *Operator) error { return o.Start(s.Ctx, Request{KeepFallback: "no", Yes: true}) },
				} {
					o := s.operator()
					reach := o.reach
					o.reach = func(m *desk.Migration) Ends {
						e := reach(m)
						e.Freezing = &c.policies
						return e
					}
					c.policies.asked = nil
					err := command(o)
					if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
						t.Errorf("error %v, want %q", err, c.want)
					}
					if slices.Sort(c.policies.asked); c.want == "" && !slices.Equal(c.policies.asked, []string{"Orders", "Parts"}) {
						t.Errorf("probed are %q", c.policies.asked)
					}
				}
				if started := s.Cutover().Attempt > 0; started != (c.want == "") {
					t.Errorf("started: %v", started)
				}
			})
		})
	}
}

// With policies, the hooks that freeze and unfreeze the application may be missing. The plan says what
// freezes, and leaves time for it.
func TestSettingsOfAFreezeByPolicies(t *testing.T) {
	cfg := parsed(t, strings.Replace(byPolicy, "groups: { all: [Orders, Parts] }, ", "", 1))
	got := missing(cfg)
	slices.Sort(got)
	if !slices.Equal(got, []string{cutover.FreezeWrites, cutover.UnfreezeWrites}) {
		t.Errorf("missing are %q", got)
	}
	if _, err := Hooks(cfg); err != nil {
		t.Errorf("the hooks: %v", err)
	}
	if _, err := Hooks(parsed(t, "")); err == nil {
		t.Error("without policies, a cutover needs hooks")
	}
	p, hooks := planOf(cfg, config.Group{Tables: cfg.Tables}, Request{}, noon), planOf(parsed(t, ""), config.Group{}, Request{}, noon)
	if !p.ByPolicy || hooks.ByPolicy || p.FreezeWithin.Seconds() != hooks.FreezeWithin.Seconds()+150 {
		t.Errorf("by policy: %v within %s, by hooks: %v within %s", p.ByPolicy, p.FreezeWithin, hooks.ByPolicy, hooks.FreezeWithin)
	}
	e := Ends{Cfg: cfg, Freezing: &policies{own: "arn:aws:iam::111122223333:role/own"}}
	if exempt, err := e.exempt(t.Context()); err != nil || !slices.Equal(exempt, []string{"arn:aws:iam::111122223333:role/own"}) {
		t.Errorf("exempt are %q: %v", exempt, err)
	}
}
