package exports

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/test/known"
)

// The service documents that it creates an empty file for an empty partition. Such a file has no
// records.
func TestAFileOfNoBytesHasNoRecords(t *testing.T) {
	d := full("01-a", hat, "")
	d.edit = func(o objects, list []map[string]any) {
		o["01-a/data/01-a-1.json.gz"] = nil
		list[1]["md5Checksum"] = base64MD5(nil)
	}
	all, err := records(t, read(t, objects{}, d))
	known.Defect(t, 45, "1 records, and then the file is refused",
		known.Expect(err == nil && len(all) == 1, "%d records, and then the file is refused", len(all)))
}

// A window in which nothing was changed may list no file.
func TestAWindowWithoutFilesHasNoChanges(t *testing.T) {
	o := objects{}
	d := window("02-b", 0, 900)
	d.write(t, o)
	_, err := Read(t.Context(), o, d.id)
	known.Defect(t, 45, "the export is refused", known.Expect(err == nil, "the export is refused"))
}
