// Package job copies parts of a running load in a Beam job. The ledger plans the load, and decides
// when it is complete. The job only lends machines: it acquires parts like workers do, and releases
// them.
package job

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/load"
)

// Job is what every task of a job knows. It travels as text, and has no secrets. It has neither a
// number of the fence nor a time of cells, because a task reads these when it acquires a part.
type Job struct {
	Name   string // of the Beam job
	Config string // the effective configuration
	Table  string // source table
	Ledger string // id of the ledger
	Hash   string // of the mapping
	// Generation and Load name the load, which has so many Parts.
	Generation, Load uint32
	Parts            int
	// AllowEmulator and AllowInsecure have the same meaning as the flags of replicator.
	AllowEmulator, AllowInsecure bool
	// Patience is how long a task waits for a part that another worker holds. AtMost is how long it
	// works on a part.
	Patience, AtMost time.Duration
}

// order returns the copy of the job's load.
func (j Job) order() load.Order {
	return load.Order{Generation: j.Generation, Number: j.Load, Parts: j.Parts}
}

// bounds returns the bounds of the work on a part. A task reports saved items, and looks whether
// its part has ended, every few seconds.
func (j Job) bounds() load.Lending {
	return load.Lending{Patience: j.Patience, AtMost: j.AtMost, Report: 5 * time.Second}
}

// configuration decodes the configuration. It is effective, so variables of this machine do not
// change it.
func (j Job) configuration() (*config.Config, error) {
	return config.Parse("configuration of job "+j.Name, []byte(j.Config), func(string) (string, bool) { return "", false })
}

// effective returns a configuration as text for tasks.
func effective(cfg *config.Config) (string, error) {
	var text bytes.Buffer
	err := cfg.Print(&text)
	return text.String(), err
}

func init() {
	register.DoFn4x1[context.Context, int, func(string, int64), func(string, int64), error](&CopyPart{})
	register.DoFn3x1[context.Context, string, int64, error](&Check{})
	register.DoFn3x1[context.Context, string, int64, error](&Outcomes{})
	register.Emitter2[string, int64]()
}

// Pipeline returns the pipeline of a job: the numbers of the parts, shuffled, one task for each,
// and a last look at the ledger.
func Pipeline(j Job) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	// In random order, because tasks of two jobs would else wait for the same parts.
	numbers := rand.Perm(j.Parts)
	parts := beam.Reshuffle(s, beam.CreateList(s, numbers))
	items, outcomes := beam.ParDo2(s.Scope("copy parts"), &CopyPart{j}, parts)
	beam.ParDo0(s.Scope("count outcomes"), &Outcomes{}, stats.SumPerKey(s, outcomes))
	beam.ParDo0(s.Scope("check the ledger"), &Check{j}, stats.SumPerKey(s, items))
	return p
}

// Check fails unless all parts of the load are done. Only the ledger knows that: a task that found
// its part held by another worker has succeeded, too.
type Check struct{ Job Job }

// ProcessElement gets the number of items that the job has saved.
func (c *Check) ProcessElement(ctx context.Context, table string, items int64) error {
	p, release, err := shared.acquire(ctx, c.Job)
	if err != nil {
		return err
	}
	defer release()
	left, _, err := c.Job.order().Left(ctx, p.Ledger, table)
	if err == nil && left > 0 {
		err = leftError{left, c.Job.Parts}
	}
	p.Log.Info("copied items", "table", table, "items", items, "parts_left", left)
	return err
}

// leftError is the error of a job that has ended before all parts were done.
type leftError struct{ left, total int }

func (e leftError) Error() string {
	return fmt.Sprintf("%s of %s parts are left", grouped(e.left), grouped(e.total))
}

// grouped writes a number with a comma after each three digits.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
