package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

func TestExpand(t *testing.T) {
	env := lookup(map[string]string{"V": "value", "EMPTY": "", "META": "${V} $$ \"'\n# : {", "_x1": "under"})
	for _, c := range []struct{ in, want, code string }{
		{"", "", ""},
		{"plain", "plain", ""},
		{"${V}", "value", ""},
		{"a${V}b${_x1}c", "avaluebunderc", ""},
		{"${EMPTY}", "", ""},
		{"${META}", "${V} $$ \"'\n# : {", ""},
		{"${V:-d}", "value", ""},
		{"${EMPTY:-d}", "d", ""},
		{"${NONE:-d}", "d", ""},
		{"${NONE:-}", "", ""},
		{"${NONE:-a:b-c?d}", "a:b-c?d", ""},
		{"${NONE:-$$5}", "$5", ""},
		{"${V:?msg}", "value", ""},
		{"$$", "$", ""},
		{"$${V}", "${V}", ""},
		{"$$${V}", "$value", ""},
		{"$V {$keyword} 5$", "$V {$keyword} 5$", ""},
		{"${NONE}", "", diag.VariableUnset},
		{"ok ${V} ${NONE}", "", diag.VariableUnset},
		{"${NONE:?msg}", "", diag.VariableUnset},
		{"${EMPTY:?}", "", diag.VariableUnset},
		{"${", "", diag.BadExpansion},
		{"${V", "", diag.BadExpansion},
		{"${}", "", diag.BadExpansion},
		{"${1V}", "", diag.BadExpansion},
		{"${V-d}", "", diag.BadExpansion},
		{"${V:}", "", diag.BadExpansion},
		{"${V:+d}", "", diag.BadExpansion},
		{"${ V }", "", diag.BadExpansion},
		{"${NONE:-${V}}", "", diag.BadExpansion},
	} {
		got, err := expand(c.in, env)
		code := ""
		if err != nil {
			code = err.code
		}
		if got != c.want || code != c.code {
			t.Errorf("expand(%q) = %q, %q, want %q, %q", c.in, got, code, c.want, c.code)
		}
	}
}

// A file must be UTF-8, and so must the values of its variables. Otherwise two mappings that write
// different rows could have the same hash.
func TestVariablesAreText(t *testing.T) {
	for value, code := range map[string]string{"\u00ff": "", "\xff": diag.InvalidValue, "\xfe": diag.InvalidValue} {
		_, err := Parse("f", []byte("version: 1\ntarget: {project: p, instance: i}\ntables:\n  - {from: Orders, families: {d: never}, rules: [{row_key: \"${V}#{PK}\"}]}\n"),
			lookup(map[string]string{"V": value}))
		var list diag.List
		if (err == nil) != (code == "") || err != nil && (!errors.As(err, &list) || len(list) != 1 || list[0].Code != code || list[0].Pos.Line != 4) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, c := range []struct {
		check    string
		accepted []string
		refused  []string
	}{
		{"name", []string{"a", "0", "acme-2026", long[:40]}, []string{"-a", "a-", "A", "a_b", "a.b", long[:41], "a\n", "é"}},
		{"dynamodb_table", []string{"abc", "A.b-c_9", "-.-", long[:255]}, []string{"ab", long, "a b c", "Orders\n", "Ürders", "a/b"}},
		{"bigtable_table", []string{"a", "_a", "9", "A.b-c_9", long[:50]}, []string{"-a", ".a", long[:51], "a b", "a\n", "{x}"}},
		{"resource", []string{"p", "my-project", "example.com:shop", "test_instance"}, []string{"projects/p", "a b", "-p", "p\n", long}},
		{"region", []string{"eu-west-1", "us-gov-east-1", "local"}, []string{"EU", "eu west", "eu-west-1\n"}},
		{"role", []string{"arn:aws:iam::111122223333:role/replicator", "arn:aws-cn:iam::111122223333:role/a/b"},
			[]string{"replicator", "arn:aws:iam::1:role/x", "arn:aws:iam::111122223333:user/x", "arn:aws:iam::111122223333:role/x\n"}},
		{"principal", []string{"arn:aws:iam::111122223333:role/a/b", "arn:aws:iam::111122223333:user/x"},
			[]string{"*", "arn:aws:iam::111122223333:root", "arn:aws:iam::111122223333:role/*", "arn:aws:iam::111122223333:role/x\n"}},
		{"kms_key", []string{"1234abcd-12ab-34cd-56ef-1234567890ab", "mrk-1234abcd12ab34cd56ef1234567890ab", "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"},
			[]string{"alias/exports", "arn:aws:kms:eu-west-1:111122223333:alias/exports", "key/1234abcd-12ab-34cd-56ef-1234567890ab", "x"}},
		{"account", []string{"111122223333", "000000000000"}, []string{"1", "1111222233334", "1111-2222-3333"}},
		{"listen", []string{":8080", "127.0.0.1:0", "[::1]:80", "localhost:65535"},
			[]string{"8080", "localhost", "localhost:http", ":65536", ":-1", ":080", "a b:1", "::1:80", "http://x:1"}},
	} {
		for _, s := range c.accepted {
			if err := checks[c.check](s); err != nil {
				t.Errorf("%s refuses %q: %+v", c.check, s, err)
			}
		}
		for _, s := range c.refused {
			if err := checks[c.check](s); err == nil || err.fix == "" || err.cause == "" {
				t.Errorf("%s: %q gives %+v, want a fault with cause and fix", c.check, s, err)
			}
		}
	}
}

// TestLongValuesAreCut keeps a pasted document out of the message.
func TestLongValuesAreCut(t *testing.T) {
	_, err := Parse("f", []byte("version: 1\nname: "+strings.Repeat("x", 10_000)+"\n"), testEnv)
	if err == nil || len(err.Error()) > 2_000 {
		t.Errorf("%d bytes of message", len(err.Error()))
	}
}

// With a view for readers there is no warning.
func TestLintWithView(t *testing.T) {
	c := &Config{State: State{TombstoneAge: 24 * time.Hour}, Tables: make([]Table, 1)}
	if len(Lint(c)) != 1 {
		t.Error("no warning")
	}
	if c.Target.View = "app"; len(Lint(c)) != 0 {
		t.Error(Lint(c))
	}
}
