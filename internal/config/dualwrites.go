package config

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// checkDualWrites refuses cells that the application and replicator cannot write together. The
// timestamp or number of such a cell is not the time of the change.
func (d *decoder) checkDualWrites(c *Config) {
	if attribute := c.DualWrites.VersionAttribute; attribute != "" && c.DualWrites.Settle > 0 {
		d.report(diag.Error{Code: diag.DualWritesImpossible, Pos: c.Where("dual_writes"), What: "dual_writes has both settle and version_attribute",
			Cause: "version_attribute orders the writes of both, so nothing is settled later",
			Fix:   "remove settle if every writer raises " + attribute + " under a condition; otherwise remove version_attribute"})
	}
	for i := range c.Tables {
		t := &c.Tables[i]
		if !c.DualWritten(*t) {
			continue
		}
		report := func(path, what string) {
			d.report(diag.Error{Code: diag.DualWritesImpossible, Pos: t.place(t.Path()+path, 0), What: what + " does not work with dual_writes",
				Cause: "with dual writes, two writers write the target's cells, each with timestamps of its own clock",
				Fix:   "write dual_writes: off for this table if nothing else writes its target"})
		}
		if t.KeepVersions {
			report(".keep_versions", "keep_versions")
		}
		if t.TTL.Expire == "gc" {
			report(".ttl.expire", "expire: gc")
		}
		t.eachColumn(func(path string, column Column) {
			if column.As == "cells" {
				report(path, "as: cells")
			}
		})
	}
}

// eachColumn calls f for each column that the table's rules name, with its path below the table.
func (t *Table) eachColumn(f func(path string, c Column)) {
	for i, r := range t.Rules {
		path := fmt.Sprintf(".rules[%d]", i)
		for _, c := range r.Columns {
			f(path+".columns."+c.Attribute, c)
		}
		for j, w := range r.Write {
			for _, c := range w.Columns {
				f(fmt.Sprintf("%s.write[%d].columns.%s", path, j, c.Attribute), c)
			}
		}
	}
}

// folds reports whether several items of the table share one row.
func (t *Table) folds() bool {
	for _, r := range t.Rules {
		if r.Cell.given() {
			return true
		}
		for _, w := range r.Write {
			if w.Cell.given() {
				return true
			}
		}
	}
	return false
}

// warnOfDualWrites returns warnings about writes that the application must not make.
func warnOfDualWrites(c *Config) (found diag.List) {
	for i := range c.Tables {
		if t := &c.Tables[i]; c.DualWritten(*t) && t.folds() {
			found = append(found, &diag.Error{
				Code: diag.DualWritesShareRows, Warning: true, Pos: t.place(t.Path(), 0),
				What:  "the application must not delete whole rows of the target of " + t.From,
				Cause: "several items share a row, so DeleteRow removes the cells of all of them, and replicator does not write unchanged items again",
				Fix:   "have it delete the item's own cell (DeleteFromColumn)",
			})
		}
	}
	return found
}
