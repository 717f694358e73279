package config

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func contractEnv(name string) (string, bool) {
	if name == "GOOGLE_CLOUD_PROJECT" {
		return "acme-project", true
	}
	return "", false
}

func contract(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("testdata/contract/complete.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The complete example loads, agrees with the JSON Schema, and has only warnings: items move with
// tenantId, and readers would need a view.
func TestCompleteExampleLoads(t *testing.T) {
	content := contract(t)
	c, err := Parse("replicator.yaml", content, contractEnv)
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.Replace(content, []byte(`${GOOGLE_CLOUD_PROJECT:?set it or run "gcloud config set project"}`), []byte("p"), 1)
	whole = bytes.ReplaceAll(whole, []byte(`${GOOGLE_CLOUD_PROJECT}`), []byte("p"))
	if !agree(t, compiledSchema(t), whole) {
		t.Error("the decoder refuses it")
	}
	c.Target.View = ""
	found := Lint(c)
	for i, names := range []string{"PK SK", "rank host", "PK SK", "id", "deviceId ts"} {
		entry := &c.Tables[i]
		if entry.IsPattern() {
			joined, _ := c.Table("Keyword_Search_Result_iPhone_2015_01")
			entry = &joined
		}
		var keys []transform.KeyAttribute
		for _, name := range strings.Fields(names) {
			keys = append(keys, transform.KeyAttribute{Name: name, Type: attribute.KindS})
		}
		found = append(found, entry.Warnings(keys)...)
	}
	var warnings []string
	for _, f := range found {
		if !f.Warning {
			t.Errorf("lint: %v", f)
		}
		warnings = append(warnings, f.Code+" "+f.What)
	}
	want := []string{
		diag.TombstonesVisible + " readers of the target can see rows of removed items for 14d",
		diag.DualWritesShareRows + " the application must not delete whole rows of the target of VideoApp",
		diag.DualWritesShareRows + " the application must not delete whole rows of the target of Billing",
		diag.FreezeLong + " a freeze may last 38s, longer than cutover.freeze_at_most (8s)",
		diag.ItemsMove + ` the row key uses "tenantId", which is not part of the primary key`,
		diag.ItemsMove + ` the row key uses "tenantId", which is not part of the primary key`,
	}
	if !slices.Equal(warnings, want) {
		t.Errorf("warnings %q", warnings)
	}
}

// contractItem is an item of the complete example and its expected rows.
type contractItem struct {
	table, keys string // the table's name, and the names of its primary key
	item        string
	cells       string // row family:qualifier=value, one per line; values that are not text are quoted
}

var contractItems = []contractItem{
	{"VideoApp", "PK SK", `{"PK":{"S":"VIDEO#42"},"SK":{"S":"META"},"tenantId":{"S":"acme"},"title":{"S":"Tea"},"durationMs":{"N":"61000"},
		"tags":{"SS":["b","a"]},"encoding":{"M":{"codec":{"S":"av1"},"bitrate":{"N":"900"}}},"chapters":{"L":[{"S":"one"}]},
		"views":{"N":"7"},"likes":{"N":"3"},"GSI1PK":{"S":"x"},"GSI1SK":{"S":"y"},"entityType":{"S":"video"}}`, `
acme#42 counters:likes+="\x00\x00\x00\x00\x00\x00\x00\x03"
acme#42 counters:views+="\x00\x00\x00\x00\x00\x00\x00\a"
acme#42 d:PK=VIDEO#42
acme#42 d:SK=META
acme#42 d:chapters=["one"]
acme#42 d:duration_ms="\x00\x00\x00\x00\x00\x00\xeeH"
acme#42 d:encoding.bitrate=900
acme#42 d:encoding.codec=av1
acme#42 d:tenantId=acme
acme#42 d:title=Tea
acme#42 tags:a=
acme#42 tags:b=`},
	{"VideoApp", "PK SK", `{"PK":{"S":"VIDEO#42"},"SK":{"S":"COMMENT#2026-01-01#9"},"tenantId":{"S":"acme"},"author":{"S":"ann"},"body":{"S":"Nice"},"votes":{"N":"2"}}`, `
acme#42 comments:2026-01-01#9={"author":"ann","body":"Nice"}`},
	{"VideoApp", "PK SK", `{"PK":{"S":"PRESENCE#1"},"SK":{"S":"x"}}`, ``},
	{"Keyword_Search_Result_iPhone_2015_01", "rank host", `{"rank":{"N":"17"},"host":{"S":"video.example.com"},"title":{"S":"t"}}`, `
iPhone#201501#000017#com.example.video r:host=video.example.com
iPhone#201501#000017#com.example.video r:rank=17
iPhone#201501#000017#com.example.video r:title=t`},
	{"Billing", "PK SK", `{"PK":{"S":"INVOICE#1"},"SK":{"S":"INVOICE#1"},"total":{"N":"12345678901234567890123456789012345.678"}}`, `
invoice#1 i:PK=INVOICE#1
invoice#1 i:SK=INVOICE#1
invoice#1 i:total=12345678901234567890123456789012345.678`},
	{"Billing", "PK SK", `{"PK":{"S":"PAYMENT#5"},"SK":{"S":"PAYMENT#5"},"method":{"S":"card"}}`, `
payment#5 i:PK=PAYMENT#5
payment#5 i:SK=PAYMENT#5
payment#5 i:method=card`},
	{"Billing", "PK SK", `{"PK":{"S":"INVOICE#1"},"SK":{"S":"PAYMENT#5"},"amount":{"N":"10"},"paidAt":{"S":"2026"},"method":{"S":"card"}}`, `
invoice#1 payments:5={"amount":10,"method":"card","paidAt":"2026"}
payment#5 invoices:1={"amount":10,"paidAt":"2026"}`},
	{"Sessions", "id", `{"id":{"S":"s1"},"expiresAt":{"N":"1800000000"},"user":{"S":"u"}}`, `
s1 s:expiresAt=1800000000
s1 s:id=s1
s1 s:user=u`},
	{"DeviceEvents", "deviceId ts", `{"deviceId":{"S":"dev-7"},"ts":{"N":"1795170000000"},"load":{"N":"0.5"}}`, `
02#dev-7#8204829999999 e:deviceId=dev-7
02#dev-7#8204829999999 e:load=0.5
02#dev-7#8204829999999 e:ts=1795170000000`},
}

// Items of every table of the complete example become what a reader of the example expects.
func TestCompleteExampleMaps(t *testing.T) {
	c, err := Parse("replicator.yaml", contract(t), contractEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range contractItems {
		item, err := attribute.UnmarshalItem([]byte(x.item))
		if err != nil {
			t.Fatal(err)
		}
		entry, ok := c.Table(x.table)
		if !ok {
			t.Errorf("no entry is for table %s", x.table)
			continue
		}
		var keys []transform.KeyAttribute
		for _, name := range strings.Fields(x.keys) {
			v, _ := item.Get(name)
			keys = append(keys, transform.KeyAttribute{Name: name, Type: v.Kind()})
		}
		m, err := entry.Mapping(keys)
		if err != nil {
			t.Errorf("%s: %v", x.table, err)
			continue
		}
		placed, err := m.Map(item, time.Unix(1_795_000_000, 0))
		if err != nil {
			t.Errorf("%s: %v", x.item, err)
		}
		if placed.Ignored != (x.cells == "") {
			t.Errorf("%s: ignored %v", x.item, placed.Ignored)
		}
		if got := cellLines(placed.Rows); got != strings.TrimPrefix(x.cells, "\n") {
			t.Errorf("%s becomes\n%s\nwant%s", x.item, got, x.cells)
		}
	}
}

func cellLines(rows []transform.RowMutation) string {
	var lines []string
	for _, row := range rows {
		for _, cell := range row.Cells {
			value, sign := string(cell.Value), "="
			if bytes.ContainsFunc(cell.Value, func(r rune) bool { return r < ' ' || r > '~' }) {
				value = fmt.Sprintf("%q", value)
			}
			if cell.Add {
				sign = "+="
			}
			lines = append(lines, fmt.Sprintf("%s %s:%s%s%s", row.Row, cell.Family, cell.Qualifier, sign, value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
