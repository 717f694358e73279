package backfill

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// A page that was changed on its way is requested again. A changed value is not copied, and a
// changed name does not end the segment.
func TestPagesAreHeldAgainstTheirChecksums(t *testing.T) {
	const sent = `{"Count":1,"Items":[{"pk":{"S":"k"},"price":{"N":"100"}}],"LastEvaluatedKey":{"pk":{"S":"k"}},"ScannedCount":1}`
	scan := func(text string) (ScanPage, error) {
		return tables(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Amz-Crc32", fmt.Sprint(crc32.ChecksumIEEE([]byte(sent))))
			answer(200, text)(w, r)
		})).Scan(context.Background(), "T", 0, 1, attribute.Item{}, 0)
	}
	if page, err := scan(sent); err != nil || len(page.Items) != 1 || !page.Next.Exists() {
		t.Errorf("as it was sent: %+v, %v", page, err)
	}
	for _, changed := range []string{strings.Replace(sent, "100", "900", 1), strings.Replace(sent, "LastEvaluatedKey", "LastEvaluatedKex", 1)} {
		if page, err := scan(changed); !cdc.Is(err, cdc.Unavailable) || !errors.Is(err, cdc.ErrChecksum) {
			t.Errorf("changed: %d items, next %v, %v", len(page.Items), page.Next.Exists(), err)
		}
	}
}
