package dynamodbtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// Two clients with two roles: the policy denies writes to all roles except one.
func TestPolicyFencesARole(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	f.guard(document(`"Effect":"Deny","Principal":"*","Action":["dynamodb:PutItem","dynamodb:UpdateItem","dynamodb:DeleteItem","dynamodb:BatchWriteItem"],` +
		`"Resource":"` + ordersARN + `","Condition":{"ArnNotEquals":{"aws:PrincipalArn":["` + copyRole + `"]}}`))
	f.noError(f.writeAs("COPY"))
	f.wantMessage(f.writeAs("APP"), "AccessDeniedException",
		"User: "+appRole+" is not authorized to perform: dynamodb:PutItem on resource: "+ordersARN+" with an explicit deny in a resource-based policy")
	f.wantMessage(f.writeAs("key"), "AccessDeniedException", "User: "+rootARN+" is not authorized")
	if got := f.server.Calls("PutItem"); got != 3 {
		t.Errorf("%d calls, want also the denied ones", got)
	}
	// A denied call uses up no fault.
	f.server.Fail(dynamodbtest.Fault{Operation: "PutItem"})
	f.wantCode(f.writeAs("APP"), "AccessDeniedException")
	f.wantCode(f.writeAs("COPY"), "InternalServerError")
	f.noError(f.writeAs("COPY"))
	f.get("Orders", attrs{"pk": str("a")})
	// A key can change its role at any time.
	f.server.SetRole("APP", copyRole)
	f.server.SetRole("COPY", "")
	f.noError(f.writeAs("APP"))
	f.wantMessage(f.writeAs("COPY"), "AccessDeniedException", "User: "+rootARN)
}

// The service itself expires items, whatever the policy denies.
func TestPolicyDoesNotStopExpiry(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	_, err := f.db.UpdateTimeToLive(f.ctx, &dynamodb.UpdateTimeToLiveInput{TableName: aws.String("Orders"),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)}})
	f.noError(err)
	f.put("Orders", attrs{"pk": str("a"), "ttl": num(itoa(start.Unix() + 1))})
	f.guard(document(denyDeletes, denyPuts))
	f.clock.Advance(time.Minute)
	_, err = f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: aws.String("Orders"), Key: attrs{"pk": str("a")}})
	f.wantCode(err, "AccessDeniedException")
	if n, err := f.server.SweepTTL("Orders"); n != 1 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
}

// Which statements apply to a PutItem by the role app.
func TestPolicyStatements(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	statement := func(effect, principal, action, resource, condition string) string {
		text := `"Effect":"` + effect + `","Principal":` + principal + `,"Action":` + action + `,"Resource":` + resource
		if condition != "" {
			text += `,"Condition":{` + condition + `}`
		}
		return text
	}
	deny := func(principal, action, resource, condition string) string {
		return statement("Deny", principal, action, resource, condition)
	}
	when := func(operator, values string) string {
		return deny(`"*"`, `"*"`, `"*"`, `"`+operator+`":{"aws:PrincipalArn":`+values+`}`)
	}
	const put, other = `"dynamodb:PutItem"`, `"arn:aws:iam::000000000000:role/other"`
	allow := statement("Allow", `"*"`, `"*"`, `"*"`, "")
	for _, c := range []struct {
		statement string
		denied    bool
	}{
		{allow, false},
		{statement("Allow", `{"AWS":`+other+`}`, put, `"*"`, ""), false}, // without a Deny, everything is allowed
		{allow + "},{" + deny(`"*"`, put, `"*"`, ""), true},
		{deny(`"*"`, put, `"*"`, "") + "},{" + allow, true},
		// Principals.
		{deny(`{"AWS":"*"}`, put, `"*"`, ""), true},
		{deny(`{"AWS":"`+appRole+`"}`, put, `"*"`, ""), true},
		{deny(`{"AWS":[`+other+`,"`+appRole+`"]}`, put, `"*"`, ""), true},
		{deny(`{"AWS":`+other+`}`, put, `"*"`, ""), false},
		{deny(`{"AWS":"`+appRole+`s"}`, put, `"*"`, ""), false},
		{deny(`{"AWS":"000000000000"}`, put, `"*"`, ""), true},
		{deny(`{"AWS":"`+rootARN+`"}`, put, `"*"`, ""), true},
		{deny(`{"AWS":"arn:aws:iam::111111111111:root"}`, put, `"*"`, ""), false},
		{deny(`{"AWS":"arn:aws:iam::111111111111:role/app"}`, put, `"*"`, ""), false},
		// Actions.
		{deny(`"*"`, `"*"`, `"*"`, ""), true},
		{deny(`"*"`, `"dynamodb:*"`, `"*"`, ""), true},
		{deny(`"*"`, `"dynamodb:P*Item"`, `"*"`, ""), true},
		{deny(`"*"`, `"dynamodb:?utItem"`, `"*"`, ""), true},
		{deny(`"*"`, `"DynamoDB:putitem"`, `"*"`, ""), true},
		{deny(`"*"`, `["dynamodb:GetItem","dynamodb:PutItem"]`, `"*"`, ""), true},
		{deny(`"*"`, `"dynamodb:GetItem"`, `"*"`, ""), false},
		{deny(`"*"`, `"dynamodb:BatchWriteItem"`, `"*"`, ""), false},
		// Resources.
		{deny(`"*"`, put, `"`+ordersARN+`"`, ""), true},
		{deny(`"*"`, put, `"arn:aws:dynamodb:*:*:table/Ord*"`, ""), true},
		{deny(`"*"`, put, `"`+ordersARN+`/*"`, ""), false},
		{deny(`"*"`, put, `"`+ordersARN+`/index/byDay"`, ""), false},
		{deny(`"*"`, put, `["`+ordersARN+`/index/*","`+ordersARN+`"]`, ""), true},
		// Conditions.
		{when("StringEquals", `"`+appRole+`"`), true},
		{when("StringEquals", `["x","`+appRole+`"]`), true},
		{when("StringEquals", `"arn:aws:iam::000000000000:role/*"`), false},
		{when("StringNotEquals", `"`+copyRole+`"`), true},
		{when("StringNotEquals", `["`+copyRole+`","`+appRole+`"]`), false},
		{when("StringNotEquals", `["`+appRole+`","`+copyRole+`"]`), false},
		{when("StringLike", `"arn:*/a?p"`), true},
		{when("StringLike", `"arn:*/a?pp"`), false},
		{when("StringNotLike", `["x","*:role/a*"]`), false},
		{when("StringNotLike", `["x","*:role/b*"]`), true},
		{when("ArnEquals", `"arn:aws:iam::*:role/app"`), true},
		{when("ArnEquals", `"arn:aws:iam::*:*"`), true},
		{when("ArnEquals", `"arn:*::*:role/app:"`), false},
		{when("ArnLike", `["`+copyRole+`","arn:*:iam::0*:role/a??"]`), true},
		{when("ArnLike", `"arn:*:*:role/app::"`), false},
		{when("ArnNotLike", `"arn:aws:iam::*:role/c*"`), true},
		{when("ArnNotEquals", `["arn:aws:iam::*:role/a*"]`), false},
		{deny(`"*"`, put, `"*"`, `"StringEquals":{"AWS:principalarn":"`+appRole+`"},"ArnNotLike":{"aws:PrincipalArn":"`+appRole+`"}`), false},
		{deny(`"*"`, put, `"*"`, `"StringEquals":{"aws:PrincipalArn":"`+appRole+`"},"ArnNotLike":{"aws:PrincipalArn":"`+copyRole+`"}`), true},
	} {
		_, err := f.db.PutResourcePolicy(f.ctx, &dynamodb.PutResourcePolicyInput{ResourceArn: aws.String(ordersARN), Policy: aws.String(document(c.statement)), ConfirmRemoveSelfResourceAccess: true})
		f.noError(err)
		if err := f.writeAs("APP"); (err != nil) != c.denied {
			t.Errorf("%s: got %v, want denied %v", c.statement, err, c.denied)
		} else if err != nil {
			f.wantCode(err, "AccessDeniedException")
		}
		f.server.AdvanceClock(15 * time.Second)
		_, err = f.deletePolicy("")
		f.noError(err)
		f.server.AdvanceClock(15 * time.Second)
	}
}

// A policy with a part that the server does not support is rejected, and the error names the part.
func TestUnsupportedPolicies(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	with := func(member, value string) string {
		members := map[string]string{"Effect": `"Deny"`, "Principal": `"*"`, "Action": `"dynamodb:PutItem"`, "Resource": `"*"`}
		members[member] = value
		var parts []string
		for name, value := range members {
			if value != "" {
				parts = append(parts, `"`+name+`":`+value)
			}
		}
		return document(strings.Join(parts, ","))
	}
	for text, want := range map[string]string{
		"":                                  "the policy is missing or is not a JSON object",
		"[]":                                "the policy is missing or is not a JSON object",
		document(denyPuts) + "x":            "the policy is missing or is not a JSON object",
		`{"Statement":[{` + denyPuts + `}]`: "the policy is missing or is not a JSON object",
		`{"Version":"2012-10-17"}`:          "Statement is missing or empty",
		`{"Statement":[]}`:                  "Statement is missing or empty",
		`{"Statement":"x"}`:                 "statement 1 is missing or is not a JSON object",
		`{"Version":"2020-01-01","Statement":{` + denyPuts + `}}`:                 "Version must be",
		`{"Comment":"x","Statement":{` + denyPuts + `}}`:                          "the member Comment of the policy",
		`{"statement":{` + denyPuts + `}}`:                                        "the member statement of the policy",
		document(denyPuts, denyPuts+`,"Sid":1`):                                   "Sid of statement 2 is not a string",
		document(denyPuts + `,"Effect":"Deny"`):                                   "statement 1 has the member Effect twice",
		with("Effect", `"deny"`):                                                  "Effect of statement 1 must be Allow or Deny",
		with("Effect", ""):                                                        "Effect of statement 1 must be Allow or Deny",
		with("NotAction", `"dynamodb:PutItem"`):                                   "the member NotAction of statement 1",
		with("NotPrincipal", `"*"`):                                               "the member NotPrincipal of statement 1",
		with("NotResource", `"*"`):                                                "the member NotResource of statement 1",
		with("Principal", ""):                                                     "Principal of statement 1 is missing",
		with("Principal", `"`+appRole+`"`):                                        "must be * or an object: " + appRole,
		with("Principal", `{"Service":"x"}`):                                      "the member Service of Principal of statement 1",
		with("Principal", `{}`):                                                   "Principal of statement 1 is missing",
		with("Principal", `{"AWS":["*",1]}`):                                      "neither a string nor a list of strings",
		with("Principal", `{"AWS":"arn:aws:iam::*:role/x"}`):                      "arn:aws:iam::*:role/x: it is not *, an account, a role or a user",
		with("Principal", `{"AWS":"arn:aws:iam::000000000000:role/a*"}`):          "role/a*: it is not",
		with("Action", ""):                                                        "Action of statement 1 is missing",
		with("Action", `[]`):                                                      "Action of statement 1 is missing",
		with("Action", `"s3:*"`):                                                  "s3:*: it is not an action of dynamodb",
		with("Action", `"dynamodb:PutItems"`):                                     "dynamodb:PutItems: tables have no such action",
		with("Action", `"dynamodb:*tems"`):                                        "dynamodb:*tems: tables have no such action",
		with("Resource", ""):                                                      "Resource of statement 1 is missing",
		with("Resource", `"`+ordersARN+`s"`):                                      ordersARN + "s: it is neither the table nor an index of the table",
		with("Resource", `["*","`+ordersARN+`/stream/x"]`):                        "/stream/x: it is neither",
		with("Resource", `"arn:aws:dynamodb:*"`):                                  "arn:aws:dynamodb:*: it is neither",
		with("Condition", `{}`):                                                   "Condition of statement 1 is empty",
		with("Condition", `{"Null":{"aws:PrincipalArn":"x"}}`):                    "the operator Null is not supported",
		with("Condition", `{"StringEqualsIfExists":{"aws:PrincipalArn":"x"}}`):    "the operator StringEqualsIfExists",
		with("Condition", `{"StringEquals":{"aws:PrincipalAccount":"x"}}`):        "the key aws:PrincipalAccount",
		with("Condition", `{"StringEquals":{"aws:PrincipalArn":[]}}`):             "Condition of statement 1 is missing",
		with("Condition", `{"StringEquals":{"aws:PrincipalArn":true}}`):           "neither a string nor a list of strings",
		with("Condition", `{"StringLike":{"aws:PrincipalArn":"${aws:userid}"}}`):  "${aws:userid}: policy variables",
		with("Condition", `{"ArnLike":{"aws:PrincipalArn":["`+appRole+`","*"]}}`): "*: it is not an ARN of six parts",
	} {
		_, err := f.putPolicy(text, "")
		f.wantMessage(err, "ValidationException", "Resource policy is invalid: ")
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %s", text, err, want)
		}
	}
	_, _, err := f.readPolicy()
	f.wantCode(err, "PolicyNotFoundException")
}

// Each operation needs the permissions that AWS documents for it. Policies of tables do not apply
// to streams, exports and lists.
func TestPermissionsOfOperations(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.noErrorOf("CreateTable", `"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],`+
		`"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"shipped","AttributeType":"S"}],`+
		`"GlobalSecondaryIndexes":[{"IndexName":"byDay","KeySchema":[{"AttributeName":"shipped","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}],`+
		`"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}`)
	f.createTable("Free", "", "")
	const table, key = `"TableName":"Orders"`, `"TableName":"Orders","Key":{"pk":{"S":"a"}}`
	const item = `"TableName":"Orders","Item":{"pk":{"S":"a"}}`
	const free = `"Free":[{"PutRequest":{"Item":{"pk":{"S":"a"}}}}]`
	values := `"ExpressionAttributeValues":{":v":{"S":"a"}}`
	query := values + `,"KeyConditionExpression":"pk = :v"`
	check := key + `,"ConditionExpression":"attribute_not_exists(x)"`
	for _, c := range []struct{ operation, body, action, below string }{
		{"PutItem", item, "PutItem", ""},
		{"PutItem", strings.Replace(item, "Orders", ordersARN, 1), "PutItem", ""},
		{"GetItem", key, "GetItem", ""},
		{"UpdateItem", key, "UpdateItem", ""},
		{"DeleteItem", key, "DeleteItem", ""},
		{"Query", table + `,` + query, "Query", ""},
		{"Query", table + `,` + strings.Replace(query, "pk", "shipped", 1) + `,"IndexName":"byDay"`, "Query", "/index/byDay"},
		{"Scan", table, "Scan", ""},
		{"Scan", table + `,"IndexName":"byDay"`, "Scan", "/index/byDay"},
		{"BatchWriteItem", `"RequestItems":{` + free + `,"Orders":[{"DeleteRequest":{"Key":{"pk":{"S":"a"}}}}]}`, "BatchWriteItem", ""},
		{"BatchGetItem", `"RequestItems":{"Orders":{"Keys":[{"pk":{"S":"a"}}]}}`, "BatchGetItem", ""},
		{"TransactWriteItems", `"TransactItems":[{"Put":{` + item + `}}]`, "PutItem", ""},
		{"TransactWriteItems", `"TransactItems":[{"Put":{` + strings.Replace(item, "Orders", "Free", 1) + `}},{"Delete":{` + key + `}}]`, "DeleteItem", ""},
		{"TransactWriteItems", `"TransactItems":[{"Update":{` + key + `,"UpdateExpression":"REMOVE x"}}]`, "UpdateItem", ""},
		{"TransactWriteItems", `"TransactItems":[{"ConditionCheck":{` + check + `}}]`, "ConditionCheckItem", ""},
		{"TransactGetItems", `"TransactItems":[{"Get":{` + key + `}}]`, "GetItem", ""},
		{"DescribeTable", table, "DescribeTable", ""},
		{"DescribeTimeToLive", table, "DescribeTimeToLive", ""},
		{"ListTagsOfResource", `"ResourceArn":"` + ordersARN + `"`, "ListTagsOfResource", ""},
		{"GetResourcePolicy", `"ResourceArn":"` + ordersARN + `"`, "GetResourcePolicy", ""},
	} {
		resource := ordersARN + c.below
		f.guard(document(`"Effect":"Deny","Principal":"*","Action":"dynamodb:` + c.action + `","Resource":"` + resource + `"`))
		want := `#AccessDeniedException","message":"User: ` + rootARN + ` is not authorized to perform: dynamodb:` + c.action + " on resource: " + resource + " with an explicit deny"
		if resp, body := f.post("DynamoDB_20120810."+c.operation, "{"+c.body+"}"); resp.StatusCode != 400 || !strings.Contains(body, want) {
			t.Errorf("%s %s gives %s", c.operation, c.body, body)
		}
		// Any other resource or action is another permission.
		elsewhere := ordersARN + "/index/byDay"
		if c.below != "" {
			elsewhere = ordersARN
		}
		f.guard(document(`"Effect":"Deny","Principal":"*","Action":"dynamodb:`+c.action+`","Resource":"`+elsewhere+`"`,
			`"Effect":"Deny","Principal":"*","Action":"dynamodb:DeleteTable","Resource":"*"`))
		f.noErrorOf(c.operation, c.body)
	}
	if it := f.get("Free", attrs{"pk": str("a")}); it == nil {
		t.Error("the other table was not written")
	}
	f.server.AdvanceClock(15 * time.Second)
	f.noErrorOf("PutResourcePolicy", `"ResourceArn":"`+ordersARN+`","ConfirmRemoveSelfResourceAccess":true,"Policy":"{\"Statement\":{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"*\",\"Resource\":\"*\"}}"`)
	f.noErrorOf("ListTables", "")
	f.noErrorOf("ListExports", `"TableArn":"`+ordersARN+`"`)
	_, err := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: aws.String("Orders")})
	f.wantCode(err, "AccessDeniedException")
}

// A table's policy does not apply to its stream.
func TestPolicyLeavesStreamsReadable(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	arn := f.streamARN("Orders")
	f.put("Orders", attrs{"pk": str("a")})
	text := document(`"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"`)
	_, err := f.db.PutResourcePolicy(f.ctx, &dynamodb.PutResourcePolicyInput{ResourceArn: aws.String(ordersARN), Policy: &text, ConfirmRemoveSelfResourceAccess: true})
	f.noError(err)
	if n := len(f.records(arn, f.onlyShard(arn))); n != 1 {
		t.Errorf("%d records", n)
	}
}
