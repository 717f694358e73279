package dualwrite_test

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
)

// TestPagesShowTestedCode: except for indentation, the code on the pages about dual writes is code
// that tests compile and run. Go code between two lines "page NAME" and "end" is a block of that
// page.
func TestPagesShowTestedCode(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const pages = "../docs/how-to/"
	recipe := pages + "dual-writes-recipe.md"
	tested := map[string][]string{
		recipe + " python": {read(programs + "/python/orders.py")},
		recipe + " yaml":   {read("testdata/replicator.yaml")},
	}
	_, rest, found := strings.Cut(read("pages_test.go"), "\n\t// page ")
	for found {
		var name, block string
		name, rest, _ = strings.Cut(rest, "\n")
		block, rest, _ = strings.Cut(rest, "\t// end\n")
		tested[pages+name+" go"] = append(tested[pages+name+" go"], block)
		_, rest, found = strings.Cut(rest, "\n\t// page ")
	}
	for where, want := range tested {
		path, language, _ := strings.Cut(where, " ")
		blocks := blocksOf(read(path), language)
		if len(blocks) != len(want) {
			t.Errorf("%s: %d blocks, %d of them are tested", where, len(blocks), len(want))
			continue
		}
		for i := range want {
			if flat(blocks[i]) != flat(want[i]) {
				t.Errorf("%s: block %d differs from what is tested:\n%s\nwant\n%s", where, i+1, blocks[i], want[i])
			}
		}
	}
}

// blocksOf returns the fenced blocks of a page in a language.
func blocksOf(page, language string) (blocks []string) {
	var block []string
	inside := false
	for line := range strings.Lines(page) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "```"+language:
			inside, block = true, nil
		case trimmed == "```" && inside:
			inside, blocks = false, append(blocks, strings.Join(block, ""))
		case inside:
			block = append(block, line)
		}
	}
	return blocks
}

// flat returns code without its indentation.
func flat(code string) string {
	var lines []string
	for line := range strings.Lines(strings.Trim(code, "\n")) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// openOrders opens a writer as the page shows it.
func openOrders(ctx context.Context) error {
	// page version-attribute.md
	writer, err := dualwrite.Open(ctx, "replicator.yaml", "Orders")
	if err != nil {
		return err
	}
	defer writer.Close()
	// end
	return nil
}

// writeOrders writes as the page shows it.
func writeOrders(ctx context.Context, writer *dualwrite.Writer, order, other attribute.Item,
	pay func(attribute.Item) (attribute.Item, error), merge func([]attribute.Item) ([]attribute.Item, error),
) error {
	// page version-attribute.md
	// The order has the number with which it was read, or none if it is new.
	order, err := writer.Put(ctx, order)
	if err != nil {
		return err
	}
	// Update reads, changes and writes; it starts again if another writer was faster.
	order, err = writer.Update(ctx, order, pay)
	if err != nil {
		return err
	}
	// Transact does the same with several items, all or none.
	both, err := writer.Transact(ctx, []attribute.Item{order, other}, merge)
	if err != nil {
		return err
	}
	return writer.Delete(ctx, both[0])
	// end
}

// putOrder writes both stores without dualwrite, where writes are settled.
func putOrder(ctx context.Context, dynamo *dynamodb.Client, orders *bigtable.Table, key, table string,
	item map[string]types.AttributeValue, condition *string, encoded func(types.AttributeValue) []byte,
) error {
	// page dual-writes.md
	out, err := dynamo.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &table, Item: item, ConditionExpression: condition, ReturnValues: types.ReturnValueAllOld,
	})
	if err != nil {
		return err // refused or unknown: Bigtable must not be written
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // below settle: 45s
	defer cancel()
	row := bigtable.NewMutation()
	for name := range out.Attributes { // columns that the item may have lost
		row.DeleteCellsInColumn("d", name)
	}
	for name, value := range item {
		row.Set("d", name, bigtable.Now(), encoded(value)) // as replicator preview shows it
	}
	if err := orders.Apply(ctx, key, row); err != nil {
		log.Print(err) // replicator will write the row
	}
	// end
	return nil
}

// The code of the pages does what they say.
func TestCodeOfThePages(t *testing.T) {
	s := start(t, ranked)
	s.replicate(t)
	if err := openOrders(t.Context()); err == nil {
		t.Error("there is no such file here")
	}
	key := func(sk string) attribute.Item {
		return item(t, `{"pk":{"S":"c1"},"sk":{"S":"`+sk+`"},"note":{"S":"first"}}`)
	}
	pay := func(read attribute.Item) (attribute.Item, error) { return withText(read, "paid"), nil }
	merge := func(read []attribute.Item) ([]attribute.Item, error) {
		return []attribute.Item{withText(read[0], "merged"), withText(key("o2"), text(read[0], "note"))}, nil
	}
	if err := writeOrders(t.Context(), s.open(t), key("o1"), key("o2"), pay, merge); err != nil {
		t.Error(err)
	}
	if found := s.rows(t); found["c1#o2 d:note"] != "paid" || found["c1#o1 gone"] == "" {
		t.Errorf("%s", found)
	}
}

// Cells that are written without dualwrite equal those of replicator, and stay when it settles
// them.
func TestCodeOfThePageOnSettling(t *testing.T) {
	s := start(t, settled)
	s.replicate(t)
	client, err := bigtable.NewClient(t.Context(), "p", "i")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	encoded := func(v types.AttributeValue) []byte { return []byte(v.(*types.AttributeValueMemberS).Value) }
	for _, note := range []string{"first", "second"} {
		order := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "c1"}, "sk": &types.AttributeValueMemberS{Value: "o1"},
			note: &types.AttributeValueMemberS{Value: note}}
		if err := putOrder(t.Context(), s.dynamo, client.Open("orders"), "c1#o1", "Orders", order, nil, encoded); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range []string{"the application", "the stream"} {
		if found := s.rows(t); found["c1#o1 d:second"] != "second" || found["c1#o1 d:first"] != "" {
			t.Errorf("as %s wrote it: %s", by, found)
		}
		s.replicate(t)
	}
}

var errFrozen = errors.New("writes are frozen")

// instance counts the requests of an application to Bigtable.
type instance struct {
	mu            sync.Mutex
	frozen        bool
	inFlight      int
	lastUncertain time.Time // when a request last ended without an answer
	now           func() time.Time
}

// write sends a request, unless the application is frozen.
func (i *instance) write(ctx context.Context, send func(context.Context) error) error {
	// page dual-writes.md
	if !i.enter() { // counts the request, and then checks whether writes are frozen
		return errFrozen
	}
	err := send(ctx)
	i.leave(answered(err)) // answered: no error, or a status with which Bigtable refuses the request
	return err
	// end
}

func (i *instance) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.frozen {
		return false
	}
	i.inFlight++
	return true
}

func (i *instance) leave(answered bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.inFlight--
	if !answered {
		i.lastUncertain = i.now()
	}
}

func answered(err error) bool { return err == nil || status.Code(err) == codes.InvalidArgument }

// quiet reports whether this instance may promise that its writes have ended.
func (i *instance) quiet(settle time.Duration) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.frozen && i.inFlight == 0 && i.now().Sub(i.lastUncertain) > settle
}

// An application may be quiet once it is frozen, no request is in flight, and every request of the last
// time to settle has an answer.
func TestAnInstanceKnowsWhenItIsQuiet(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	i := &instance{now: func() time.Time { return now }}
	quiet := func(want bool, when string) {
		t.Helper()
		if got := i.quiet(time.Minute); got != want {
			t.Errorf("%s: quiet %t", when, got)
		}
	}
	quiet(false, "before the freeze")
	err := i.write(t.Context(), func(context.Context) error {
		i.frozen = true
		quiet(false, "in flight")
		return context.DeadlineExceeded
	})
	quiet(false, "without an answer")
	if now = now.Add(2 * time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	quiet(true, "later")
	if err := i.write(t.Context(), func(context.Context) error { t.Error("it is sent"); return nil }); !errors.Is(err, errFrozen) {
		t.Error(err)
	}
}
