package tablepolicy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// sidPrefix begins the Sid of each statement of a freeze. A Sid has only letters and digits.
const sidPrefix = "ReplicatorFreeze"

// hashLength is the length of a ledger's hash in a Sid. All hashes have the same length, so that
// the number of the attempt after it is not ambiguous.
const hashLength = 16

// HashOf returns the hash that stands for a ledger in Sids, from the ledger's id. It has 16
// characters, 0 to 9 and a to f.
func HashOf(ledger string) string {
	sum := sha256.Sum256([]byte(ledger))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// sidOf returns the Sid of the statement of an attempt.
func sidOf(hash string, attempt uint32) string {
	return sidPrefix + hash + strconv.FormatUint(uint64(attempt), 10)
}

// attemptOf returns the attempt of which a Sid is. It returns false if it is not a Sid of the
// ledger.
func attemptOf(sid, hash string) (uint32, bool) {
	digits, found := strings.CutPrefix(sid, sidPrefix+hash)
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), found && err == nil && sidOf(hash, uint32(n)) == sid
}

// writes are the actions that a freeze denies. The actions of a transaction are denied by those of
// its parts. Reads and changes of the policy stay allowed, so that no account is locked out.
var writes = []string{
	"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem",
	"dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:PartiQLDelete",
}

// Statement is a statement of a freeze.
type Statement struct {
	Sid  string
	text string
}

type statement struct {
	Sid, Effect, Principal string
	Action                 []string
	Resource               string
	Condition              map[string]map[string][]string
}

// denyWrites returns the statement that denies the writes on a table to all principals except the
// exempt ones. At least one principal must be exempt: the role of this program.
func denyWrites(hash string, attempt uint32, table string, exempt []string) (Statement, error) {
	if len(exempt) == 0 {
		return Statement{}, fmt.Errorf("the freeze of %s exempts no principal: name the role of this program", table)
	}
	return newStatement(hash, attempt, table, "ArnNotLike", exempt)
}

// denyOnly returns the statement of a rehearsal. It denies the writes on a table to one principal,
// the role of the probe.
func denyOnly(hash string, attempt uint32, table, principal string) (Statement, error) {
	return newStatement(hash, attempt, table, "ArnLike", []string{principal})
}

func newStatement(hash string, attempt uint32, table, operator string, principals []string) (Statement, error) {
	var values []string
	for _, p := range principals {
		patterns, err := principalPatterns(p)
		if err != nil {
			return Statement{}, err
		}
		values = append(values, patterns...)
	}
	sid := sidOf(hash, attempt)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(statement{
		Sid: sid, Effect: "Deny", Principal: "*", Action: writes, Resource: table,
		Condition: map[string]map[string][]string{operator: {"aws:PrincipalArn": values}},
	})
	return Statement{sid, strings.TrimSpace(text.String())}, err
}

var (
	principalForm = regexp.MustCompile(`^arn:aws[a-z-]*:(?:iam::[0-9]{12}:(?:root|role/[\w+=,.@/-]+|user/[\w+=,.@/-]+)|sts::[0-9]{12}:federated-user/[\w+=,.@-]+)$`)
	sessionForm   = regexp.MustCompile(`^(arn:aws[a-z-]*):sts::([0-9]{12}):assumed-role/([\w+=,.@-]+)/[\w+=,.@-]+$`)
)

// principalPatterns returns the patterns that match the value of aws:PrincipalArn in the requests
// of a principal. In the requests of a session, the value is the ARN of the session's role. The
// ARN of a session does not have the role's path. An account has only one role of a name, so any
// path may come before it.
func principalPatterns(arn string) ([]string, error) {
	if principalForm.MatchString(arn) {
		return []string{arn}, nil
	}
	if s := sessionForm.FindStringSubmatch(arn); s != nil {
		role := s[1] + ":iam::" + s[2] + ":role/"
		return []string{role + s[3], role + "*/" + s[3]}, nil
	}
	return nil, fmt.Errorf("%s is not the ARN of a role, a user or a session: write it without wildcards", strconv.Quote(arn))
}

// addTo returns a policy with the statement. The text of the policy is "" if the table has none. It
// returns the policy as it is if a statement has the Sid. It fails with errTooLarge if DynamoDB
// does not accept the size.
func addTo(policy string, s Statement) (string, error) {
	if policy == "" {
		return `{"Version":"2012-10-17","Statement":[` + s.text + "]}", nil
	}
	d, err := parse(policy)
	if err != nil {
		return "", err
	}
	for _, each := range d.statements {
		if sid, err := d.sid(each); err != nil || sid == s.Sid {
			return policy, err
		}
	}
	return fit(d.with(s.text))
}

// hasSid reports whether a policy has a statement with the Sid. A policy "" has none.
func hasSid(policy, sid string) (bool, error) {
	if policy == "" {
		return false, nil
	}
	d, err := parse(policy)
	if err != nil {
		return false, err
	}
	for _, each := range d.statements {
		if found, err := d.sid(each); err != nil || found == sid {
			return err == nil, err
		}
	}
	return false, nil
}

// strip returns a policy without the statements of a ledger's freezes up to an attempt. It keeps a
// statement of a later attempt: a process that slept must not end a freeze that it does not know.
// Changed reports whether there was such a statement, and empty whether no other is left. Then the
// policy must be deleted, because DynamoDB accepts no policy without a statement.
func strip(policy, hash string, attempt uint32) (text string, changed, empty bool, err error) {
	if policy == "" {
		return "", false, true, nil
	}
	d, err := parse(policy)
	if err != nil {
		return "", false, false, err
	}
	var ours []int
	for i, each := range d.statements {
		sid, err := d.sid(each)
		if err != nil {
			return "", false, false, err
		}
		if n, is := attemptOf(sid, hash); is && n <= attempt {
			ours = append(ours, i)
		}
	}
	if len(ours) == 0 {
		return policy, false, len(d.statements) == 0, nil
	}
	kept := d.texts(ours)
	text, err = fit(d.replace(kept))
	return text, true, len(kept) == 0, err
}
