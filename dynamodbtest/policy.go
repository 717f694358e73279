package dynamodbtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// statement is one statement of a resource-based policy.
type statement struct {
	deny       bool
	everyone   bool     // the principal is "*"
	principals []string // ARNs and account ids
	actions    []string // in lower case, with wildcards
	resources  []string // with wildcards
	conditions []condition
}

// condition compares the caller's ARN with values. The caller's ARN is the only key that this
// server knows.
type condition struct {
	operator operator
	values   []string
}

// operator is a condition operator of IAM.
type operator struct {
	negated bool
	matches func(value, arn string) bool
}

// operators holds the supported operators by name. IAM documents that ArnEquals and ArnLike behave
// identically ("Condition operators").
var operators = map[string]operator{
	"StringEquals":    {false, equalText},
	"StringNotEquals": {true, equalText},
	"StringLike":      {false, matchesPattern},
	"StringNotLike":   {true, matchesPattern},
	"ArnEquals":       {false, matchesARN},
	"ArnNotEquals":    {true, matchesARN},
	"ArnLike":         {false, matchesARN},
	"ArnNotLike":      {true, matchesARN},
}

// principalKey is the only supported condition key. IAM ignores the case of keys.
const principalKey = "aws:PrincipalArn"

// principalForm matches the principals that a policy may name: an account id, or the ARN of an
// account's root, of a role or of a user. IAM does not allow wildcards in them.
var principalForm = regexp.MustCompile(`^([0-9]{12}|arn:aws[a-z-]*:iam::[0-9]{12}:(root|(role|user)/[^*?]+))$`)

// actionNames lists the actions on tables and indexes, without their prefix. They come from the
// service authorization reference. The list includes actions of operations that this server does
// not have.
var actionNames = []string{
	"BatchGetItem", "BatchWriteItem", "ConditionCheckItem", "CreateBackup", "CreateTable", "CreateTableReplica", "DeleteItem",
	"DeleteResourcePolicy", "DeleteTable", "DeleteTableReplica", "DescribeContinuousBackups", "DescribeContributorInsights",
	"DescribeKinesisStreamingDestination", "DescribeTable", "DescribeTableReplicaAutoScaling", "DescribeTimeToLive",
	"DisableKinesisStreamingDestination", "EnableKinesisStreamingDestination", "ExportTableToPointInTime", "GetItem",
	"GetResourcePolicy", "ImportTable", "ListTagsOfResource", "PartiQLDelete", "PartiQLInsert", "PartiQLSelect", "PartiQLUpdate",
	"PutItem", "PutResourcePolicy", "Query", "RestoreTableFromAwsBackup", "RestoreTableFromBackup", "RestoreTableToPointInTime",
	"Scan", "StartAwsBackupJob", "TagResource", "UntagResource", "UpdateContinuousBackups", "UpdateContributorInsights",
	"UpdateItem", "UpdateKinesisStreamingDestination", "UpdateTable", "UpdateTableReplicaAutoScaling", "UpdateTimeToLive",
}

const actionPrefix = "dynamodb:"

// parsePolicy reads the policy of a table with the given ARN. The server supports only a part of
// IAM's language. The error names the first part of the policy that it does not support.
func parsePolicy(text, tableARN string) ([]statement, error) {
	document, err := membersOf([]byte(text), "the policy", "Version", "Id", "Statement")
	if err != nil {
		return nil, err
	}
	if version, err := textOf(document["Version"], "Version"); err != nil || !slices.Contains([]string{"", "2008-10-17", "2012-10-17"}, version) {
		return nil, badPolicy("Version must be 2012-10-17 or 2008-10-17")
	}
	var statements []statement
	for i, each := range elementsOf(document["Statement"]) {
		st, err := parseStatement(each, fmt.Sprintf("statement %d", i+1), tableARN)
		if err != nil {
			return nil, err
		}
		statements = append(statements, st)
	}
	if len(statements) == 0 {
		return nil, badPolicy("Statement is missing or empty")
	}
	return statements, nil
}

func parseStatement(raw json.RawMessage, place, tableARN string) (statement, error) {
	members, err := membersOf(raw, place, "Sid", "Effect", "Principal", "Action", "Resource", "Condition")
	if err != nil {
		return statement{}, err
	}
	if _, err := textOf(members["Sid"], "Sid of "+place); err != nil {
		return statement{}, err
	}
	effect, err := textOf(members["Effect"], "Effect of "+place)
	if err != nil {
		return statement{}, err
	}
	if effect != "Allow" && effect != "Deny" {
		return statement{}, badPolicy("Effect of %s must be Allow or Deny", place)
	}
	st := statement{deny: effect == "Deny"}
	if st.everyone, st.principals, err = parsePrincipal(members["Principal"], "Principal of "+place); err != nil {
		return statement{}, err
	}
	if st.actions, err = textsOf(members["Action"], "Action of "+place, checkAction); err != nil {
		return statement{}, err
	}
	for i, action := range st.actions {
		st.actions[i] = strings.ToLower(action)
	}
	if st.resources, err = textsOf(members["Resource"], "Resource of "+place, func(pattern string) error {
		return checkResource(pattern, tableARN)
	}); err != nil {
		return statement{}, err
	}
	if members["Condition"] == nil {
		return st, nil
	}
	st.conditions, err = parseConditions(members["Condition"], "Condition of "+place)
	return st, err
}

// parsePrincipal reads "*", or an object whose only member is AWS.
func parsePrincipal(raw json.RawMessage, place string) (everyone bool, principals []string, err error) {
	if text, err := textOf(raw, place); err == nil && text != "" {
		if text != "*" {
			return false, nil, badPolicy("%s must be * or an object: %s", place, text)
		}
		return true, nil, nil
	}
	members, err := membersOf(raw, place, "AWS")
	if err != nil {
		return false, nil, err
	}
	principals, err = textsOf(members["AWS"], place, func(principal string) error {
		if principal == "*" || principalForm.MatchString(principal) {
			return nil
		}
		return errors.New("it is not *, an account, a role or a user")
	})
	return slices.Contains(principals, "*"), principals, err
}

func checkAction(action string) error {
	if action == "*" {
		return nil
	}
	if len(action) < len(actionPrefix) || !strings.EqualFold(action[:len(actionPrefix)], actionPrefix) {
		return errors.New("it is not an action of dynamodb")
	}
	pattern := strings.ToLower(action[len(actionPrefix):])
	if slices.ContainsFunc(actionNames, func(name string) bool { return matchesPattern(pattern, strings.ToLower(name)) }) {
		return nil
	}
	return errors.New("tables have no such action")
}

// checkResource rejects resources other than the table and its indexes. A table's policy has no
// effect on them. Streams have policies of their own, which this server does not have.
func checkResource(pattern, tableARN string) error {
	above, _, index := strings.Cut(pattern, "/index/")
	if matchesResource(pattern, tableARN) || matchesResource(pattern, tableARN+"/index/*") || index && matchesARN(above, tableARN) {
		return nil
	}
	return errors.New("it is neither the table nor an index of the table")
}

func parseConditions(raw json.RawMessage, place string) ([]condition, error) {
	byOperator, err := membersOf(raw, place)
	if err != nil {
		return nil, err
	}
	var conditions []condition
	for _, name := range sortedKeys(byOperator) {
		op, ok := operators[name]
		if !ok {
			return nil, badPolicy("%s: the operator %s is not supported by this server", place, name)
		}
		byKey, err := membersOf(byOperator[name], place)
		if err != nil {
			return nil, err
		}
		for _, key := range sortedKeys(byKey) {
			if !strings.EqualFold(key, principalKey) {
				return nil, badPolicy("%s: the key %s is not supported by this server", place, key)
			}
			values, err := textsOf(byKey[key], place, func(value string) error {
				if strings.HasPrefix(name, "Arn") && strings.Count(value, ":") < 5 {
					return errors.New("it is not an ARN of six parts")
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, condition{op, values})
		}
	}
	if len(conditions) == 0 {
		return nil, badPolicy("%s is empty", place)
	}
	return conditions, nil
}

// badPolicy returns the service's error for a policy that it does not accept.
func badPolicy(format string, args ...any) error {
	return validation("Resource policy is invalid: "+format, args...)
}

// membersOf reads a JSON object. It rejects repeated members, because only one of them would count.
// It also rejects members that are not supported, if supported is not empty.
func membersOf(raw json.RawMessage, place string, supported ...string) (map[string]json.RawMessage, error) {
	refused := badPolicy("%s is missing or is not a JSON object", place)
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, refused
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, refused
		}
		name, _ := key.(string)
		if len(supported) > 0 && !slices.Contains(supported, name) {
			return nil, badPolicy("the member %s of %s is not supported by this server", name, place)
		}
		if members[name] != nil {
			return nil, badPolicy("%s has the member %s twice", place, name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, refused
		}
		members[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, refused
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, refused
	}
	return members, nil
}

// elementsOf returns the elements of a JSON list. Another value is its own only element.
func elementsOf(raw json.RawMessage) []json.RawMessage {
	if raw == nil {
		return nil
	}
	var list []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return []json.RawMessage{raw}
	}
	return list
}

// textOf reads a string. A missing one is empty.
func textOf(raw json.RawMessage, place string) (string, error) {
	if raw == nil {
		return "", nil
	}
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil || text == nil {
		return "", badPolicy("%s is not a string", place)
	}
	return *text, nil
}

// textsOf reads a string or a list of strings. It rejects policy variables, and strings that check
// rejects.
func textsOf(raw json.RawMessage, place string, check func(string) error) ([]string, error) {
	refused := badPolicy("%s is missing, or is neither a string nor a list of strings", place)
	var texts []string
	for _, each := range elementsOf(raw) {
		text, err := textOf(each, place)
		if err != nil {
			return nil, refused
		}
		if strings.Contains(text, "${") {
			return nil, badPolicy("%s: %s: policy variables are not supported by this server", place, text)
		}
		if err := check(text); err != nil {
			return nil, badPolicy("%s: %s: %s", place, text, err)
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil, refused
	}
	return texts, nil
}
