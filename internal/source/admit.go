package source

import (
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Admissible reports whether the requested load has to wait before it may begin. The error says why
// it never may: then the request stays, and its failure is shown, until an operator requests other
// images.
func Admissible(table checkpoint.TableState, shards []checkpoint.Shard, now time.Time, late time.Duration) (yet bool, err error) {
	load := table.Load
	if len(load.Exports()) == 0 {
		return checkpoint.Admissible(table, shards, now, late) != nil, nil
	}
	if load.MendsGap() {
		err = checkpoint.MendsFrom(table, load.Export.From)
	}
	if err == nil {
		err = checkpoint.AdmissibleExport(table, shards, load.ImagesAt(), now, late)
	}
	var hole *checkpoint.NotAdmissible
	if errors.As(err, &hole) && hole.Yet {
		return true, nil
	}
	return false, err
}

// YoungEnough refuses images that are older than the age of tombstones. A removed item would come
// back, or the writer would park the image (H105). A most of 0 means no limit.
func YoungEnough(noun string, at, now time.Time, most time.Duration) error {
	if age := now.Sub(at); most > 0 && age > most {
		return fmt.Errorf("the %s is %s old, but a load takes images of at most %s; request a new one", noun, age.Round(time.Hour), most)
	}
	return nil
}
