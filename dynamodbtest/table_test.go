package dynamodbtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

func (f *fixture) describe(table string) *types.TableDescription {
	f.t.Helper()
	out, err := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: &table})
	f.noError(err)
	return out.Table
}

func TestCreateAndDescribeTable(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{Region: "eu-west-1", AccountID: "111122223333"})
	out, err := f.db.CreateTable(f.ctx, &dynamodb.CreateTableInput{
		TableName: ptr("Orders"),
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: ptr("id"), AttributeType: "B"}, {AttributeName: ptr("at"), AttributeType: "N"},
		},
		KeySchema:             []types.KeySchemaElement{{AttributeName: ptr("id"), KeyType: "HASH"}, {AttributeName: ptr("at"), KeyType: "RANGE"}},
		ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: ptr(int64(5)), WriteCapacityUnits: ptr(int64(6))},
		StreamSpecification:   &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: "NEW_IMAGE"},
		Tags:                  []types.Tag{{Key: ptr("team"), Value: ptr("data")}},
		TableClass:            "STANDARD",
	})
	f.noError(err)
	if out.TableDescription.TableStatus != "CREATING" {
		t.Errorf("status %s", out.TableDescription.TableStatus)
	}
	d := f.describe("Orders")
	if d.TableStatus != "ACTIVE" || *d.TableArn != "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders" || len(*d.TableId) != 36 {
		t.Errorf("status %s, ARN %s, id %s", d.TableStatus, *d.TableArn, *d.TableId)
	}
	if !d.CreationDateTime.Equal(start) || *d.ProvisionedThroughput.ReadCapacityUnits != 5 || *d.ProvisionedThroughput.WriteCapacityUnits != 6 {
		t.Errorf("created %s, capacity %v", d.CreationDateTime, *d.ProvisionedThroughput)
	}
	if *d.KeySchema[0].AttributeName != "id" || *d.KeySchema[1].AttributeName != "at" || d.AttributeDefinitions[0].AttributeType != "N" {
		t.Errorf("schema %v", d.KeySchema)
	}
	if *d.LatestStreamLabel != "2026-11-21T10:00:00.500" || *d.LatestStreamArn != *d.TableArn+"/stream/2026-11-21T10:00:00.500" || d.StreamSpecification.StreamViewType != "NEW_IMAGE" {
		t.Errorf("stream %s %s", *d.LatestStreamLabel, *d.LatestStreamArn)
	}
	f.put("Orders", attrs{"id": &types.AttributeValueMemberB{Value: []byte{0}}, "at": num("1")})
	if d := f.describe(*d.TableArn); *d.ItemCount != 1 || *d.TableSizeBytes != 2+1+2+2 {
		t.Errorf("%d items, %d bytes", *d.ItemCount, *d.TableSizeBytes)
	}
	tags, err := f.db.ListTagsOfResource(f.ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: d.TableArn})
	f.noError(err)
	if len(tags.Tags) != 1 || *tags.Tags[0].Value != "data" {
		t.Errorf("tags %v", tags.Tags)
	}
	backups, err := f.db.DescribeContinuousBackups(f.ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: ptr("Orders")})
	f.noError(err)
	if backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus != "DISABLED" {
		t.Error("backups are not disabled")
	}
}

func TestDescribeLimits(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	out, err := f.db.DescribeLimits(f.ctx, &dynamodb.DescribeLimitsInput{})
	f.noError(err)
	if *out.TableMaxReadCapacityUnits != 40000 {
		t.Errorf("%d units", *out.TableMaxReadCapacityUnits)
	}
}

func TestCreateTableRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	def := func(pairs ...string) string {
		var parts []string
		for i := 0; i < len(pairs); i += 2 {
			parts = append(parts, `{"AttributeName":"`+pairs[i]+`","AttributeType":"`+pairs[i+1]+`"}`)
		}
		return `"AttributeDefinitions":[` + strings.Join(parts, ",") + `]`
	}
	key := func(pairs ...string) string {
		return strings.NewReplacer("AttributeDefinitions", "KeySchema", "AttributeType", "KeyType").Replace(def(pairs...))
	}
	const onDemand = `"BillingMode":"PAY_PER_REQUEST"`
	cases := map[string]string{
		`"TableName":"ab",` + def("a", "S") + `,` + key("a", "HASH") + `,` + onDemand:                                                                                 "greater than or equal to 3",
		`"TableName":"a/b",` + def("a", "S") + `,` + key("a", "HASH") + `,` + onDemand:                                                                                "regular expression pattern",
		`"TableName":"` + strings.Repeat("x", 256) + `",` + def("a", "S") + `,` + key("a", "HASH") + `,` + onDemand:                                                   "less than or equal to 255",
		`"TableName":"Orders",` + def("a", "SS") + `,` + key("a", "HASH") + `,` + onDemand:                                                                            "enum value set: [B, N, S]",
		`"TableName":"Orders",` + def("a", "S", "a", "S") + `,` + key("a", "HASH") + `,` + onDemand:                                                                   "Duplicate AttributeName",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "RANGE") + `,` + onDemand:                                                                            "Invalid KeySchema",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("b", "HASH") + `,` + onDemand:                                                                             "not defined in AttributeDefinitions",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "HASH", "a", "RANGE") + `,` + onDemand:                                                               "Invalid KeySchema: Some index key attribute have no definition",
		`"TableName":"Orders",` + def("a", "S", "b", "S") + `,` + key("a", "HASH") + `,` + onDemand:                                                                   "does not exactly match",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "HASH"):                                                                                              "must both be specified",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "HASH") + `,"BillingMode":"FREE"`:                                                                    "billingMode",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "HASH") + `,` + onDemand + `,"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`: "Neither",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "HASH") + `,` + onDemand + `,"StreamSpecification":{"StreamEnabled":true}`:                           "StreamViewType is required",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "HASH") + `,` + onDemand + `,"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"ALL"}`:    "streamViewType",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "HASH") + `,` + onDemand + `,"GlobalSecondaryIndexes":[]`:                                            "List of GlobalSecondaryIndexes is empty",
		`"TableName":"Orders",` + def("a", "S") + `,` + key("a", "HASH") + `,` + onDemand + `,"TableClass":"GOLD"`:                                                    "tableClass",
	}
	for members, want := range cases {
		if resp, body := f.post("DynamoDB_20120810.CreateTable", "{"+members+"}"); resp.StatusCode != 400 || !strings.Contains(body, "#ValidationException") || !strings.Contains(body, want) {
			t.Errorf("%s gives %s, want %q", members, body, want)
		}
	}
}

func TestListTables(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	for _, name := range []string{"delta", "Alpha", "charlie", "bravo"} {
		f.createTable(name, "", "")
	}
	var names []string
	pages := dynamodb.NewListTablesPaginator(f.db, &dynamodb.ListTablesInput{Limit: ptr(int32(2))})
	for pages.HasMorePages() {
		out, err := pages.NextPage(f.ctx)
		f.noError(err)
		names = append(names, out.TableNames...)
	}
	if got := strings.Join(names, " "); got != "Alpha bravo charlie delta" {
		t.Error(got)
	}
}

func TestUpdateTableBilling(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	if f.describe("Orders").BillingModeSummary.BillingMode != "PAY_PER_REQUEST" {
		t.Error("not on demand")
	}
	out, err := f.db.UpdateTable(f.ctx, &dynamodb.UpdateTableInput{
		TableName: ptr("Orders"), BillingMode: "PROVISIONED",
		ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: ptr(int64(7)), WriteCapacityUnits: ptr(int64(8))},
	})
	f.noError(err)
	if out.TableDescription.TableStatus != "UPDATING" || *f.describe("Orders").ProvisionedThroughput.ReadCapacityUnits != 7 {
		t.Error("billing was not changed")
	}
}

func TestDeletionProtection(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	protect := func(on bool) {
		_, err := f.db.UpdateTable(f.ctx, &dynamodb.UpdateTableInput{TableName: ptr("Orders"), DeletionProtectionEnabled: &on})
		f.noError(err)
	}
	protect(true)
	_, err := f.db.DeleteTable(f.ctx, &dynamodb.DeleteTableInput{TableName: ptr("Orders")})
	f.wantCode(err, "ValidationException")
	protect(false)
	_, err = f.db.DeleteTable(f.ctx, &dynamodb.DeleteTableInput{TableName: ptr("Orders")})
	f.noError(err)
	_, err = f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: ptr("Orders")})
	f.wantCode(err, "ResourceNotFoundException")
}

// A recreated table is another table, with another stream; the old stream stays readable.
func TestTableCreatedAgain(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	f.put("Orders", attrs{"pk": str("a")})
	first := f.describe("Orders")
	_, err := f.db.DeleteTable(f.ctx, &dynamodb.DeleteTableInput{TableName: ptr("Orders")})
	f.noError(err)
	f.createTable("Orders", "KEYS_ONLY", "")
	second := f.describe("Orders")
	if *first.LatestStreamArn == *second.LatestStreamArn || *first.TableId == *second.TableId || *second.ItemCount != 0 {
		t.Error("the second table continues the first")
	}
	if n := len(f.records(*first.LatestStreamArn, f.onlyShard(*first.LatestStreamArn))); n != 1 {
		t.Errorf("the old stream has %d records", n)
	}
	if n := len(f.records(*second.LatestStreamArn, f.onlyShard(*second.LatestStreamArn))); n != 0 {
		t.Errorf("the new stream has %d records", n)
	}
}

func TestTimeToLive(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Sessions", "NEW_AND_OLD_IMAGES", "")
	status := func() string {
		out, err := f.db.DescribeTimeToLive(f.ctx, &dynamodb.DescribeTimeToLiveInput{TableName: ptr("Sessions")})
		f.noError(err)
		return string(out.TimeToLiveDescription.TimeToLiveStatus)
	}
	set := func(attribute string, on bool) error {
		_, err := f.db.UpdateTimeToLive(f.ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName: ptr("Sessions"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: &on},
		})
		return err
	}
	if status() != "DISABLED" {
		t.Error("enabled from the start")
	}
	f.noError(set("exp", true))
	f.wantCode(set("exp", true), "ValidationException")
	if status() != "ENABLED" {
		t.Error("not enabled")
	}
	at := func(d time.Duration) types.AttributeValue {
		return num(itoa(start.Add(d).Unix()))
	}
	f.put("Sessions", attrs{"pk": str("past"), "exp": at(-time.Second)})
	f.put("Sessions", attrs{"pk": str("future"), "exp": at(time.Hour)})
	f.put("Sessions", attrs{"pk": str("ancient"), "exp": at(-6 * 365 * 24 * time.Hour)})
	f.put("Sessions", attrs{"pk": str("text"), "exp": str("1")})
	f.put("Sessions", attrs{"pk": str("none")})
	sweep := func(want int) {
		t.Helper()
		n, err := f.server.SweepTTL("Sessions")
		f.noError(err)
		if n != want {
			t.Errorf("swept %d, want %d", n, want)
		}
	}
	sweep(1)
	sweep(0)
	f.clock.Advance(time.Hour)
	sweep(1)
	arn := f.streamARN("Sessions")
	records := f.records(arn, f.onlyShard(arn))
	for i, r := range records {
		expired := i >= 5
		if (r.UserIdentity != nil) != expired {
			t.Errorf("record %d: identity %v", i, r.UserIdentity)
		}
		if expired && (r.EventName != "REMOVE" || *r.UserIdentity.PrincipalId != "dynamodb.amazonaws.com" || *r.UserIdentity.Type != "Service" || r.Dynamodb.OldImage == nil) {
			t.Errorf("record %d: %v", i, r)
		}
	}
	if len(records) != 7 {
		t.Errorf("%d records", len(records))
	}
	f.wantCode(set("other", false), "ValidationException")
	f.noError(set("exp", false))
	f.put("Sessions", attrs{"pk": str("past"), "exp": at(-time.Second)})
	sweep(0)
}
