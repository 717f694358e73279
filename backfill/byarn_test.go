package backfill

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const foreignARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders"

// Each operation on a table sends the ARN, whatever the operation is. Other tables keep their
// names, and the caller's parameters do not change.
func TestByARNConcernsEveryOperation(t *testing.T) {
	arns := map[string]string{"Orders": foreignARN}
	operations, client := 0, reflect.TypeFor[*dynamodb.Client]()
	for i := range client.NumMethod() {
		method := client.Method(i).Type
		if method.NumIn() < 3 || method.In(2).Kind() != reflect.Pointer {
			continue
		}
		field, ok := method.In(2).Elem().FieldByName("TableName")
		if !ok || field.Type != reflect.TypeFor[*string]() {
			continue
		}
		operations++
		for name, want := range map[string]string{"Orders": foreignARN, "Customers": "Customers"} {
			in := reflect.New(method.In(2).Elem())
			in.Elem().FieldByName("TableName").Set(reflect.ValueOf(&name))
			out, err := namedByARN(in.Interface(), arns)
			if err != nil {
				t.Fatal(err)
			}
			if got := *reflect.ValueOf(out).Elem().FieldByName("TableName").Interface().(*string); got != want {
				t.Errorf("%s sends %s, want %s", client.Method(i).Name, got, want)
			}
			if name != "Orders" && name != "Customers" || in.Elem().FieldByName("TableName").Interface().(*string) != &name {
				t.Errorf("%s changes the caller's parameters", client.Method(i).Name)
			}
		}
	}
	if operations < 15 {
		t.Errorf("only %d operations name a table", operations)
	}
}

func TestByARNConcernsTransactions(t *testing.T) {
	orders, customers := "Orders", "Customers"
	in := &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Put: &types.Put{TableName: &orders}}, {Delete: &types.Delete{TableName: &orders}},
		{Update: &types.Update{TableName: &orders}}, {ConditionCheck: &types.ConditionCheck{TableName: &customers}}}}
	out, err := namedByARN(in, map[string]string{"Orders": foreignARN})
	if err != nil {
		t.Fatal(err)
	}
	items := out.(*dynamodb.TransactWriteItemsInput).TransactItems
	if *items[0].Put.TableName != foreignARN || *items[1].Delete.TableName != foreignARN || *items[2].Update.TableName != foreignARN || *items[3].ConditionCheck.TableName != customers {
		t.Errorf("%+v", items)
	}
	if *in.TransactItems[0].Put.TableName != "Orders" || items[0].Delete != nil {
		t.Error("the caller's parameters changed")
	}
	for _, batch := range []any{&dynamodb.BatchWriteItemInput{}, &dynamodb.BatchGetItemInput{}} {
		if _, err := namedByARN(batch, nil); err == nil || !strings.Contains(err.Error(), "cannot name tables by ARN") {
			t.Errorf("%T: %v", batch, err)
		}
	}
}

// The option reaches the wire, and a client without ARNs is as before.
func TestByARNOnTheWire(t *testing.T) {
	var sent struct{ TableName string }
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&sent)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, `{"Items":[],"Count":0,"ScannedCount":0}`)
	})
	for want, arns := range map[string]map[string]string{"Orders": nil, foreignARN: {"Orders": foreignARN}} {
		if _, err := client(t, service, ByARN(arns)).Scan(context.Background(), &dynamodb.ScanInput{TableName: aws.String("Orders")}); err != nil || sent.TableName != want {
			t.Errorf("sent %s, want %s (%v)", sent.TableName, want, err)
		}
	}
}
