package dynamodbtest_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

const foreignRole = "arn:aws:iam::444455556666:role/reader"

// The ARN of a table works in place of its name, in every operation. Another region and another
// account are refused.
func TestTableByARN(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	f.put(ordersARN, attrs{"pk": str("a")})
	if f.get("Orders", attrs{"pk": str("a")}) == nil {
		t.Error("no item after a write by ARN")
	}
	for arn, code := range map[string]string{
		ordersARN: "",
		"arn:aws:dynamodb:us-east-1:444455556666:table/Orders": "AccessDeniedException",
		"arn:aws:dynamodb:eu-west-1:000000000000:table/Orders": "ValidationException",
	} {
		_, described := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: &arn})
		_, scanned := f.db.Scan(f.ctx, &dynamodb.ScanInput{TableName: &arn})
		_, exported := f.db.ExportTableToPointInTime(f.ctx, &dynamodb.ExportTableToPointInTimeInput{TableArn: &arn, S3Bucket: aws.String("b")})
		_, tagged := f.db.ListTagsOfResource(f.ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: &arn})
		for _, err := range []error{described, scanned, exported, tagged} {
			switch {
			case code != "":
				f.wantCode(err, code)
			case err == exported:
				f.wantCode(err, "PointInTimeRecoveryUnavailableException")
			default:
				f.noError(err)
			}
		}
	}
}

// A role of another account finds no table by name. By ARN it may do what the policy allows.
func TestRoleOfAnotherAccount(t *testing.T) {
	f := withRoles(t, dynamodbtest.Options{})
	f.server.SetRole("FOREIGN", foreignRole)
	f.put("Orders", attrs{"pk": str("a")})
	foreign := f.as("FOREIGN")
	scan := func(table string) error {
		_, err := foreign.Scan(f.ctx, &dynamodb.ScanInput{TableName: &table})
		return err
	}
	f.wantCode(scan("Orders"), "ResourceNotFoundException")
	f.wantMessage(scan(ordersARN), "AccessDeniedException",
		"User: "+foreignRole+" is not authorized to perform: dynamodb:Scan on resource: "+ordersARN+" because no resource-based policy allows the dynamodb:Scan action")
	listed, err := foreign.ListTables(f.ctx, &dynamodb.ListTablesInput{})
	f.noError(err)
	if len(listed.TableNames) > 0 {
		t.Errorf("tables of another account are listed: %v", listed.TableNames)
	}
	allow := `"Effect":"Allow","Principal":{"AWS":"444455556666"},"Action":"dynamodb:Scan","Resource":"` + ordersARN + `"`
	f.guard(document(allow))
	f.noError(scan(ordersARN))
	f.wantCode(scan("Orders"), "ResourceNotFoundException")
	_, err = foreign.GetItem(f.ctx, &dynamodb.GetItemInput{TableName: aws.String(ordersARN), Key: attrs{"pk": str("a")}})
	f.wantCode(err, "AccessDeniedException")
	f.guard(document(allow, `"Effect":"Deny","Principal":"*","Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:PrincipalArn":"`+foreignRole+`"}}`))
	f.wantMessage(scan(ordersARN), "AccessDeniedException", "explicit deny")
	f.server.AdvanceClock(time.Minute)
	f.noError(f.writeAs("APP")) // roles of the table's account need no policy
}
