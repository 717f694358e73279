package tablepolicy

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	ordersARN = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"
	copyRole  = "arn:aws:iam::000000000000:role/copy"
	probeRole = "arn:aws:iam::000000000000:role/probe"
	appRole   = "arn:aws:iam::000000000000:role/app"
)

var hash = HashOf("ledger")

func deny(t *testing.T, attempt uint32) Statement {
	t.Helper()
	s, err := denyWrites(hash, attempt, ordersARN, []string{copyRole})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Foreign statements, written as no encoder of this program writes them.
const (
	allow = `{ "Sid" : "a<b>&\u0041", "Effect":"Allow", "Principal":{"AWS":["111122223333"]},  "Action":"dynamodb:GetItem","Resource":"*" ,"Condition":{"NumericLessThan":{"x":1.50}}}`
	noSid = `{"Effect":"Deny","Principal":"*","Action":"dynamodb:DeleteTable","Resource":"*"}`
)

func list(statements ...string) string {
	return `{ "Id":"x", "Statement": [` + strings.Join(statements, " ,\n") + "]\n, \"Version\" : \"2012-10-17\"}"
}

func TestWhatAStatementDenies(t *testing.T) {
	s := deny(t, 7)
	want := `{"Sid":"ReplicatorFreeze` + hash + `7","Effect":"Deny","Principal":"*","Action":["dynamodb:PutItem","dynamodb:UpdateItem",` +
		`"dynamodb:DeleteItem","dynamodb:BatchWriteItem","dynamodb:PartiQLInsert","dynamodb:PartiQLUpdate","dynamodb:PartiQLDelete"],` +
		`"Resource":"` + ordersARN + `","Condition":{"ArnNotLike":{"aws:PrincipalArn":["` + copyRole + `"]}}}`
	if s.text != want || s.Sid != "ReplicatorFreeze"+hash+"7" || len(hash) != hashLength {
		t.Errorf("%s: %s", s.Sid, s.text)
	}
	only, err := denyOnly(hash, 8, ordersARN, probeRole)
	if want := strings.Replace(strings.Replace(strings.Replace(want, "ArnNotLike", "ArnLike", 1), copyRole, probeRole, 1), hash+"7", hash+"8", 1); only.text != want || err != nil {
		t.Errorf("%s %v", only.text, err)
	}
	if _, err := denyWrites(hash, 1, ordersARN, nil); err == nil {
		t.Error("a freeze that denies the writes of this program too")
	}
}

func TestPrincipalsOfAStatement(t *testing.T) {
	for arn, want := range map[string][]string{
		"arn:aws:iam::111122223333:role/a/b/c":                  {"arn:aws:iam::111122223333:role/a/b/c"},
		"arn:aws-cn:iam::111122223333:user/u+=,.@-_":            {"arn:aws-cn:iam::111122223333:user/u+=,.@-_"},
		"arn:aws:iam::111122223333:root":                        {"arn:aws:iam::111122223333:root"},
		"arn:aws:sts::111122223333:federated-user/f":            {"arn:aws:sts::111122223333:federated-user/f"},
		"arn:aws:sts::111122223333:assumed-role/copy/session@1": {"arn:aws:iam::111122223333:role/copy", "arn:aws:iam::111122223333:role/*/copy"},
		"arn:aws:iam::111122223333:role/*":                      nil,
		"arn:aws:iam::111122223333:role/a?":                     nil,
		"arn:aws:iam::*:role/a":                                 nil,
		"arn:aws:iam::111122223333:role/${aws:username}":        nil,
		"arn:aws:sts::111122223333:assumed-role/copy":           nil,
		"111122223333": nil,
		"*":            nil,
		"":             nil,
	} {
		s, err := denyWrites(hash, 1, ordersARN, []string{copyRole, arn})
		if (err == nil) != (want != nil) {
			t.Errorf("%q: %v", arn, err)
			continue
		}
		var read statement
		if err == nil && json.Unmarshal([]byte(s.text), &read) != nil {
			t.Errorf("%q: %s", arn, s.text)
		}
		if got := read.Condition["ArnNotLike"]["aws:PrincipalArn"]; err == nil && !slices.Equal(got, append([]string{copyRole}, want...)) {
			t.Errorf("%q: %v", arn, got)
		}
	}
}

// What is added is removed, and all else stays as it is, byte by byte.
func TestH144_ForeignStatementsStayByteByByte(t *testing.T) {
	first, second, other := deny(t, 1), deny(t, 2), deny(t, 31)
	foreign := Statement{}
	foreign.Sid, foreign.text = "x", strings.Replace(first.text, hash, HashOf("another"), 1)
	array := func(statements ...string) string {
		return `{ "Id":"x", "Statement": [` + strings.Join(statements, ",") + "]\n, \"Version\" : \"2012-10-17\"}"
	}
	for name, c := range map[string]struct{ before, added, stripped string }{
		"no policy":             {"", `{"Version":"2012-10-17","Statement":[` + first.text + `]}`, ""},
		"a list":                {list(allow, noSid), array(allow, noSid, first.text), array(allow, noSid)},
		"a list of one":         {array(allow), array(allow, first.text), array(allow)},
		"an empty list":         {list(), array(first.text), ""},
		"an object":             {`{"Statement":` + allow + `}`, `{"Statement":[` + allow + "," + first.text + `]}`, `{"Statement":[` + allow + `]}`},
		"no statement":          {`{"Version":"2012-10-17" }`, `{"Version":"2012-10-17" ,"Statement":[` + first.text + `]}`, ""},
		"no member":             {` {}`, ` {"Statement":[` + first.text + `]}`, ""},
		"of another ledger":     {list(foreign.text, allow), array(foreign.text, allow, first.text), array(foreign.text, allow)},
		"of a later attempt":    {list(other.text, allow), array(other.text, allow, first.text), array(other.text, allow)},
		"of this attempt":       {list(first.text, allow), list(first.text, allow), array(allow)},
		"one statement of ours": {`{"Statement":` + first.text + `}`, `{"Statement":` + first.text + `}`, ""},
	} {
		got, err := addTo(c.before, first)
		if got != c.added || err != nil {
			t.Errorf("%s: added:\n%s\n%s %v", name, got, c.added, err)
		}
		if has, err := hasSid(got, first.Sid); !has || err != nil {
			t.Errorf("%s: %v %v", name, has, err)
		}
		text, changed, empty, err := strip(got, hash, 3)
		if !changed || empty != (c.stripped == "") || err != nil || !empty && text != c.stripped {
			t.Errorf("%s: stripped: %v %v %v\n%s\n%s", name, changed, empty, err, text, c.stripped)
		}
		if has, err := hasSid(text, first.Sid); has || err != nil {
			t.Errorf("%s: %v %v", name, has, err)
		}
	}
	// All attempts up to this one are removed.
	text, changed, empty, err := strip(list(first.text, allow, second.text, other.text, foreign.text), hash, 2)
	if text != array(allow, other.text, foreign.text) || !changed || empty || err != nil {
		t.Errorf("%v %v %v: %s", changed, empty, err, text)
	}
	if text, changed, empty, err = strip(list(first.text, second.text), hash, 2); !changed || !empty || err != nil {
		t.Errorf("%v %v %v: %s", changed, empty, err, text)
	}
	for policy, wantEmpty := range map[string]bool{"": true, list(allow, foreign.text): false, list(other.text): false, `{"Id":"x"}`: true} {
		if text, changed, empty, err := strip(policy, hash, 2); text != policy || changed || empty != wantEmpty || err != nil {
			t.Errorf("%s: %v %v %v: %s", policy, changed, empty, err, text)
		}
	}
}

func TestSidsOfALedger(t *testing.T) {
	for sid, want := range map[string]uint32{
		"ReplicatorFreeze" + hash + "0":                   0,
		"ReplicatorFreeze" + hash + "12":                  12,
		"ReplicatorFreeze" + hash + "4294967295":          4294967295,
		"ReplicatorFreeze" + hash + "4294967296":          9,
		"ReplicatorFreeze" + hash + "012":                 9,
		"ReplicatorFreeze" + hash + "+12":                 9,
		"ReplicatorFreeze" + hash:                         9,
		"ReplicatorFreeze" + hash + "12x":                 9,
		"XReplicatorFreeze" + hash + "12":                 9,
		"replicatorfreeze" + hash + "12":                  9,
		"ReplicatorFreeze" + HashOf("another") + "12":     9,
		"ReplicatorFreeze" + hash[:hashLength-1] + "0012": 9,
	} {
		if n, is := attemptOf(sid, hash); is != (want != 9) || is && n != want {
			t.Errorf("%s: %d %v", sid, n, is)
		}
	}
}

// A policy whose statements are not certain is not edited.
func TestPoliciesThatAreNotEdited(t *testing.T) {
	for _, policy := range []string{
		"x", "[]", "{", `{"Statement":[}`, `{"Statement":[]}x`, `{"Statement":[],"Statement":[]}`, `{"statement":[]}`,
		`{"Statement":"x"}`, `{"Statement":["x"]}`, `{"Statement":[{"Sid":7}]}`, `{"Statement":null}`, `{"Version":}`, `{"Statement":[{]}`,
	} {
		_, addErr := addTo(policy, deny(t, 1))
		_, hasErr := hasSid(policy, "x")
		_, changed, _, stripErr := strip(policy, hash, 1)
		if addErr == nil || hasErr == nil || stripErr == nil || changed {
			t.Errorf("%s: %v, %v, %v", policy, addErr, hasErr, stripErr)
		}
	}
}

// The limit counts white space, which is removed only if it is necessary.
func TestTheSizeOfAPolicy(t *testing.T) {
	s := deny(t, 1)
	sized := func(length int, space string) string {
		text := `{"Statement":[{"Sid":"` + space + `"}]}`
		filler := strings.Repeat("x", length-len(text))
		return strings.Replace(text, `"}`, filler+`"}`, 1)
	}
	room := maxSize - len(s.text) - 1
	for name, c := range map[string]struct {
		policy string
		err    error
	}{
		"just small enough": {sized(room, ""), nil},
		"one byte too much": {sized(room+1, ""), errTooLarge},
	} {
		got, err := addTo(c.policy, s)
		if !errors.Is(err, c.err) || err == nil && len(got) != maxSize {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	spaced := strings.Replace(sized(room, ""), ":", ":  ", 1)
	got, err := addTo(spaced, s)
	if err != nil || len(got) != maxSize {
		t.Errorf("with white space: %d bytes, %v", len(got), err)
	}
	var before, after map[string]any
	text, _, _, err := strip(got, hash, 1)
	if json.Unmarshal([]byte(spaced), &before) != nil || json.Unmarshal([]byte(text), &after) != nil || !reflect.DeepEqual(before, after) || err != nil {
		t.Errorf("white space is not all that has changed: %v", err)
	}
}

func TestWhenATableCannotBeFrozenByItsPolicy(t *testing.T) {
	good := Facts{Table: ordersARN, Policy: list(allow), Hash: hash, Exempt: []string{copyRole}, Probe: probeRole}
	if reasons := Refusals(good); len(reasons) > 0 {
		t.Errorf("%q", reasons)
	}
	for want, change := range map[string]func(f *Facts){
		"no resource policies":     func(f *Facts) { f.NoAPI = true },
		"2 replicas":               func(f *Facts) { f.Replicas = 2 },
		"no second role":           func(f *Facts) { f.Probe = "" },
		"is exempt":                func(f *Facts) { f.Exempt = append(f.Exempt, probeRole) },
		"is not the ARN of a role": func(f *Facts) { f.Probe = "role" },
		"exempts no principal":     func(f *Facts) { f.Exempt = nil },
		"over 20 KB":               func(f *Facts) { f.Policy = list(`{"Sid":"` + strings.Repeat("x", maxSize) + `"}`) },
		"read the table's":         func(f *Facts) { f.Policy = "x" },
		"exempt from the freeze,":  func(f *Facts) { f.Probe = "arn:aws:sts::000000000000:assumed-role/copy/s" },
		"so its writes prove": func(f *Facts) {
			f.Probe, f.Exempt = "arn:aws:iam::000000000000:role/p/probe", []string{copyRole, "arn:aws:sts::000000000000:assumed-role/probe/s"}
		},
	} {
		f := good
		f.Exempt = slices.Clone(good.Exempt)
		change(&f)
		reasons := Refusals(f)
		if len(reasons) != 1 || !strings.Contains(reasons[0], want) {
			t.Errorf("%s: %q", want, reasons)
		}
	}
}
