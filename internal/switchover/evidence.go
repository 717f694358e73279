package switchover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/evidence"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Evidence writes the evidence of the last attempt to a new folder. The folder must not exist.
func (o *Operator) Evidence(ctx context.Context, dir string) error {
	if err := o.open(ctx, "cutover evidence"); err != nil {
		return err
	}
	defer o.Close()
	what := "cannot read the ledger in table " + o.Cfg.State.Table
	in := evidence.Input{Name: o.Cfg.Name, Version: o.Version, At: o.Now(ctx)}
	groups, err := o.toSteer("write the evidence of", func(c *checkpoint.Cutover) bool { return c.Attempt > 0 })
	if err != nil {
		return err
	}
	if len(groups) > 1 {
		return unchosen(groups, "a folder holds the evidence of one group")
	}
	g := groups[0]
	if in.Record = g.record; in.Record.Attempt == 0 {
		return &diag.Error{Code: diag.CutoverRefused, What: "no evidence was written", Cause: "the cutover is " + terminal.NotStarted, Fix: "see replicator cutover check" + o.with(g)}
	}
	known, err := status.Read(ctx, o.Cfg, o.ends().Target, "")
	if err != nil {
		return err
	}
	for _, w := range known.Judge(o.Env, "", in.At).Workers {
		if w.Version != nil {
			in.Versions = append(in.Versions, *w.Version)
		}
	}
	for i, t := range known.Tables {
		if !in.Record.Moves(t.From) {
			continue
		}
		found := known.Inputs[i]
		one := evidence.TableInput{State: found.State, Shards: found.Shards}
		for _, target := range t.Targets() {
			one.Targets = append(one.Targets, target.Table)
		}
		if one.Parked, err = o.parked(ctx, t.From); err != nil {
			return explain(ctx, what, err)
		}
		in.Tables = append(in.Tables, one)
	}
	d := evidence.NewDocument(in)
	files, err := evidence.Files(d)
	if err == nil {
		err = evidence.Write(dir, files)
	}
	if errors.Is(err, fs.ErrExist) {
		return diag.BadUsage(dir+" exists already", "evidence never overwrites a folder; name another folder")
	}
	if err != nil {
		return &diag.Error{Code: diag.Internal, What: "cannot write the evidence", Err: err, Exit: diag.ExitFailed}
	}
	if o.AsJSON() {
		return o.WriteJSON(d)
	}
	for _, f := range files {
		if _, err := fmt.Fprintf(o.Stdout, "%s/%s\n", dir, f.Name); err != nil {
			return err
		}
	}
	return nil
}

// parked returns the references of a table's parked items.
func (o *Operator) parked(ctx context.Context, table string) (refs []string, err error) {
	parking := sink.NewParking(o.ends().Target.Records(o.Cfg.State.Table), o.Cfg.Name)
	err = parking.List(ctx, table, func(ref sink.Ref, _ transform.Parked) error {
		refs = append(refs, string(ref))
		return nil
	})
	return refs, err
}
