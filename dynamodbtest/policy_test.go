package dynamodbtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

const (
	ordersARN = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"
	appRole   = "arn:aws:iam::000000000000:role/app"
	copyRole  = "arn:aws:iam::000000000000:role/copy"
	rootARN   = "arn:aws:iam::000000000000:root"
)

// withRoles is the fixture of most tests of policies: a table, and a role for each of two keys.
func withRoles(t *testing.T, opts dynamodbtest.Options) *fixture {
	t.Helper()
	opts.Roles = map[string]string{"APP": appRole, "COPY": copyRole}
	f := newFixture(t, opts)
	f.createTable("Orders", "KEYS_ONLY", "")
	return f
}

// as returns a client that signs with an access key id.
func (f *fixture) as(key string) *dynamodb.Client {
	return dynamodb.New(f.db.Options(), func(o *dynamodb.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider(key, "secret", "")
	})
}

func (f *fixture) putPolicy(document, expected string) (string, error) {
	in := &dynamodb.PutResourcePolicyInput{ResourceArn: aws.String(ordersARN), Policy: &document}
	if expected != "" {
		in.ExpectedRevisionId = &expected
	}
	out, err := f.db.PutResourcePolicy(f.ctx, in)
	if err != nil {
		return "", err
	}
	return *out.RevisionId, nil
}

// guard puts a policy that must be accepted, after a rest.
func (f *fixture) guard(document string) string {
	f.t.Helper()
	f.server.AdvanceClock(15 * time.Second)
	revision, err := f.putPolicy(document, "")
	f.noError(err)
	return revision
}

func (f *fixture) readPolicy() (document, revision string, err error) {
	out, err := f.db.GetResourcePolicy(f.ctx, &dynamodb.GetResourcePolicyInput{ResourceArn: aws.String(ordersARN)})
	if err != nil {
		return "", "", err
	}
	return *out.Policy, *out.RevisionId, nil
}

func (f *fixture) deletePolicy(expected string) (string, error) {
	in := &dynamodb.DeleteResourcePolicyInput{ResourceArn: aws.String(ordersARN)}
	if expected != "" {
		in.ExpectedRevisionId = &expected
	}
	out, err := f.db.DeleteResourcePolicy(f.ctx, in)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.RevisionId), nil
}

// writeAs puts an item with the key of a role.
func (f *fixture) writeAs(key string) error {
	_, err := f.as(key).PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: attrs{"pk": str("a")}})
	return err
}

// wantMessage fails the test unless the error is an API error of the code and with the text.
func (f *fixture) wantMessage(err error, code, text string) {
	f.t.Helper()
	f.wantCode(err, code)
	if !strings.Contains(err.Error(), text) {
		f.t.Fatalf("got %v, want %q", err, text)
	}
}

// document makes a policy of statements without their braces.
func document(statements ...string) string {
	return `{"Version":"2012-10-17","Statement":[{` + strings.Join(statements, "},{") + `}]}`
}

const (
	denyPuts    = `"Effect":"Deny","Principal":"*","Action":"dynamodb:PutItem","Resource":"*"`
	denyDeletes = `"Effect":"Deny","Principal":"*","Action":"dynamodb:DeleteItem","Resource":"*"`
)

func TestPolicyRevisions(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{PolicyRest: -1})
	_, _, err := f.readPolicy()
	f.wantMessage(err, "PolicyNotFoundException", "Resource-based policy not found for the provided ResourceArn: "+ordersARN)
	if !is[*types.PolicyNotFoundException](err) {
		t.Errorf("%T", err)
	}
	_, err = f.putPolicy(document(denyPuts), "1")
	f.wantMessage(err, "PolicyNotFoundException", "revision id 1, but no policy is associated to target table Orders.")
	first, err := f.putPolicy(document(denyPuts), "NO_POLICY")
	f.noError(err)
	_, err = f.putPolicy(document(denyDeletes), "NO_POLICY")
	f.wantMessage(err, "PolicyNotFoundException", "expecting none to be present for table Orders, but a policy exists with revision id "+first+".")
	// The same document, apart from white space, is the same revision.
	if again, err := f.putPolicy(strings.ReplaceAll(document(denyPuts), ",", ", "), ""); again != first || err != nil {
		t.Errorf("the same document gives %s %v, want %s", again, err, first)
	}
	second, err := f.putPolicy(document(denyDeletes), first)
	f.noError(err)
	if second <= first {
		t.Errorf("revision %s is not greater than %s", second, first)
	}
	_, err = f.putPolicy(document(denyPuts), first)
	f.wantMessage(err, "PolicyNotFoundException", "Requested update for policy with revision id "+first+", but the policy associated to target table Orders has revision id "+second+".")
	if text, revision, err := f.readPolicy(); text != document(denyDeletes) || revision != second || err != nil {
		t.Errorf("%s %s %v", text, revision, err)
	}
	_, err = f.deletePolicy(first)
	f.wantCode(err, "PolicyNotFoundException")
	if revision, err := f.deletePolicy(second); revision != second || err != nil {
		t.Errorf("the deletion gives %s %v", revision, err)
	}
	_, err = f.deletePolicy(second)
	f.wantCode(err, "PolicyNotFoundException")
	if revision, err := f.deletePolicy(""); revision != "" || err != nil {
		t.Errorf("the deletion of nothing gives %q %v", revision, err)
	}
	_, _, err = f.readPolicy()
	f.wantCode(err, "PolicyNotFoundException")
	// The clock does not move, but a new policy has a new revision.
	if third, err := f.putPolicy(document(denyPuts), "NO_POLICY"); err != nil || third <= second {
		t.Errorf("%s %v", third, err)
	}
}

func TestPolicyResources(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	for arn, want := range map[string]string{
		ordersARN + "_":        "ResourceNotFoundException",
		"Orders":               "ValidationException",
		ordersARN + "/index/x": "ValidationException",
		f.streamARN("Orders"):  "ValidationException",
	} {
		_, err := f.db.PutResourcePolicy(f.ctx, &dynamodb.PutResourcePolicyInput{ResourceArn: &arn, Policy: ptr(document(denyPuts))})
		f.wantCode(err, want)
		_, err = f.db.GetResourcePolicy(f.ctx, &dynamodb.GetResourcePolicyInput{ResourceArn: &arn})
		f.wantCode(err, want)
		_, err = f.db.DeleteResourcePolicy(f.ctx, &dynamodb.DeleteResourcePolicyInput{ResourceArn: &arn})
		f.wantCode(err, want)
	}
	for operation, body := range map[string]string{"PutResourcePolicy": `{"Policy":"{}"}`, "GetResourcePolicy": "{}", "DeleteResourcePolicy": "{}"} {
		if _, body := f.post("DynamoDB_20120810."+operation, body); !strings.Contains(body, "Value null at 'resourceArn'") {
			t.Errorf("%s without an ARN gives %s", operation, body)
		}
	}
	if _, body := f.post("DynamoDB_20120810.PutResourcePolicy", `{"ResourceArn":"`+ordersARN+`"}`); !strings.Contains(body, "Value null at 'policy'") {
		t.Error(body)
	}
}

// DynamoDB counts white space.
func TestPolicySize(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{PolicyRest: -1})
	text := document(denyPuts)
	text += strings.Repeat(" ", 20<<10-len(text))
	_, err := f.putPolicy(text+" ", "")
	f.wantMessage(err, "LimitExceededException", "20 KB")
	_, err = f.putPolicy(text, "")
	f.noError(err)
}

// After a change, the next change waits for the rest. Calls that change nothing need no rest, and
// cause none.
func TestPolicyRest(t *testing.T) {
	for _, c := range []struct{ option, rest time.Duration }{{0, 15 * time.Second}, {time.Second, time.Second}} {
		f := withRoles(t, dynamodbtest.Options{PolicyRest: c.option})
		_, err := f.deletePolicy("")
		f.noError(err)
		first, err := f.putPolicy(document(denyPuts), "")
		f.noError(err)
		f.clock.Advance(c.rest - time.Millisecond)
		_, err = f.putPolicy(document(denyDeletes), first)
		f.wantMessage(err, "ResourceInUseException", "ResourcePolicy update is in progress")
		_, err = f.deletePolicy("")
		f.wantCode(err, "ResourceInUseException")
		_, err = f.putPolicy(document(denyDeletes), "other")
		f.wantCode(err, "PolicyNotFoundException")
		if again, err := f.putPolicy(document(denyPuts), ""); again != first || err != nil {
			t.Errorf("%s %v", again, err)
		}
		f.clock.Advance(time.Millisecond)
		_, err = f.putPolicy(document(denyDeletes), first)
		f.noError(err)
		f.clock.Advance(c.rest)
		_, err = f.deletePolicy("")
		f.noError(err)
		_, err = f.putPolicy(document(denyPuts), "")
		f.wantCode(err, "ResourceInUseException")
	}
}

// A policy that removes its author's permission to change it needs a confirmation. Only the root
// can delete such a policy.
func TestPolicyLocksOut(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{PolicyRest: -1})
	text := document(`"Effect":"Deny","Principal":{"AWS":"` + appRole + `"},"Action":"dynamodb:*ResourcePolicy","Resource":"*"`)
	in := &dynamodb.PutResourcePolicyInput{ResourceArn: aws.String(ordersARN), Policy: &text}
	_, err := f.as("APP").PutResourcePolicy(f.ctx, in)
	f.wantMessage(err, "ValidationException", "ConfirmRemoveSelfResourceAccess")
	in.ConfirmRemoveSelfResourceAccess = true
	_, err = f.as("APP").PutResourcePolicy(f.ctx, in)
	f.noError(err)
	_, err = f.as("APP").DeleteResourcePolicy(f.ctx, &dynamodb.DeleteResourcePolicyInput{ResourceArn: aws.String(ordersARN)})
	f.wantMessage(err, "AccessDeniedException", "User: "+appRole+" is not authorized to perform: dynamodb:DeleteResourcePolicy on resource: "+ordersARN)
	_, err = f.as("APP").GetResourcePolicy(f.ctx, &dynamodb.GetResourcePolicyInput{ResourceArn: aws.String(ordersARN)})
	f.wantCode(err, "AccessDeniedException")
	text = strings.Replace(text, appRole, rootARN, 1)
	_, err = f.db.PutResourcePolicy(f.ctx, in)
	f.noError(err)
	_, err = f.putPolicy(document(denyPuts), "")
	f.wantCode(err, "AccessDeniedException")
	_, err = f.as("COPY").DeleteResourcePolicy(f.ctx, &dynamodb.DeleteResourcePolicyInput{ResourceArn: aws.String(ordersARN)})
	f.wantCode(err, "AccessDeniedException")
	_, err = f.deletePolicy("")
	f.noError(err)
	_, err = f.putPolicy(document(denyPuts), "")
	f.noError(err)
}

// A changed policy comes into force after the delay, also if the delays of several changes overlap.
func TestPolicyDelay(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{PolicyRest: -1, PolicyDelay: 10 * time.Second})
	first, err := f.putPolicy(document(denyPuts), "")
	f.noError(err)
	f.clock.Advance(6 * time.Second)
	f.noError(f.writeAs("APP"))
	second, err := f.putPolicy(document(denyDeletes), first)
	f.noError(err)
	if _, revision, _ := f.readPolicy(); revision != second {
		t.Errorf("revision %s, want the last one", revision)
	}
	f.noError(f.server.OldPolicyReads("Orders", true))
	_, _, err = f.readPolicy()
	f.wantCode(err, "PolicyNotFoundException")
	f.clock.Advance(4 * time.Second) // the first change is 10 s old, and the second 4 s
	f.wantCode(f.writeAs("APP"), "AccessDeniedException")
	if text, revision, _ := f.readPolicy(); revision != first || text != document(denyPuts) {
		t.Errorf("revision %s, want the policy in force", revision)
	}
	third, err := f.putPolicy(document(denyPuts, denyDeletes), second)
	f.noError(err)
	f.wantCode(f.writeAs("APP"), "AccessDeniedException")
	f.noError(f.server.OldPolicyReads("Orders", false))
	if _, revision, _ := f.readPolicy(); revision != third {
		t.Errorf("revision %s, want the last one", revision)
	}
	f.noError(f.server.OldPolicyReads("Orders", true))
	f.clock.Advance(6 * time.Second)
	f.noError(f.writeAs("APP"))
	if _, revision, _ := f.readPolicy(); revision != second {
		t.Errorf("revision %s, want the second one", revision)
	}
	// A policy without a delay overtakes one that still waits, and a deletion waits too.
	f.noError(f.server.SetPolicyDelay("Orders", 0))
	_, err = f.putPolicy(document(denyPuts), third)
	f.noError(err)
	f.wantCode(f.writeAs("APP"), "AccessDeniedException")
	f.clock.Advance(4 * time.Second)
	if text, _, _ := f.readPolicy(); text != document(denyPuts) {
		t.Errorf("an overtaken policy came into force: %s", text)
	}
	f.noError(f.server.SetPolicyDelay("Orders", time.Minute))
	_, err = f.deletePolicy("")
	f.noError(err)
	f.wantCode(f.writeAs("APP"), "AccessDeniedException")
	if text, _, _ := f.readPolicy(); text != document(denyPuts) {
		t.Errorf("during the delay of a deletion: %s", text)
	}
	f.clock.Advance(time.Minute)
	f.noError(f.writeAs("APP"))
	wantControlError(t, f.server.SetPolicyDelay("Absent", 0), "ResourceNotFoundException")
	wantControlError(t, f.server.OldPolicyReads("Absent", true), "ResourceNotFoundException")
}

// A table that is created again has no policy.
func TestPolicyOfADeletedTable(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	f.guard(document(denyPuts))
	_, err := f.db.DeleteTable(f.ctx, &dynamodb.DeleteTableInput{TableName: aws.String("Orders")})
	f.noError(err)
	f.wantCode(f.writeAs("APP"), "ResourceNotFoundException")
	f.createTable("Orders", "", "")
	f.noError(f.writeAs("APP"))
}
