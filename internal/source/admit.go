package source

import (
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Admissible checks whether the requested load may begin. If `yet` is true, the load must wait. If
// the error is not nil, the load can never begin. Then the request stays in the ledger, and its
// failure is shown, until an operator requests other images.
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

// YoungEnough refuses images that are older than `most`, which depends on the age of tombstones.
// With older images, a removed item might come back, or the writer would park the image (H105). If
// `most` is 0, there is no limit.
func YoungEnough(noun string, at, now time.Time, most time.Duration) error {
	if age := now.Sub(at); most > 0 && age > most {
		return fmt.Errorf("the %s is %s old, but a load takes images of at most %s; request a new one", noun, age.Round(time.Hour), most)
	}
	return nil
}
