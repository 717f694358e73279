package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Admin checks tables, views and app profiles, and creates those that are missing. It never alters
// existing tables, views or profiles, and drops only replicator's own families and views. Only
// Admin uses Bigtable's admin clients.
type Admin struct {
	in       Instance
	emulator bool
	tables   *bigtable.AdminClient
	instance *bigtable.InstanceAdminClient
}

// ConnectAdmin opens the admin clients in the way that Connect opens the data client.
func ConnectAdmin(ctx context.Context, in Instance, opts ...option.ClientOption) (*Admin, error) {
	emulated := false
	connection := func() ([]option.ClientOption, error) { // each client needs its own, because it closes its connection
		emulator, err := dialEmulator(in)
		emulated = emulator != nil
		if emulator == nil || err != nil {
			return append([]option.ClientOption{option.WithGRPCDialOption(alive), option.WithUserAgent(build.UserAgent())}, opts...), err
		}
		return append([]option.ClientOption{option.WithGRPCConn(emulator)}, opts...), nil
	}
	forTables, err := connection()
	if err != nil {
		return nil, err
	}
	tables, err := bigtable.NewAdminClient(ctx, in.Project, in.Instance, forTables...)
	if err != nil {
		return nil, fmt.Errorf("open the admin client of Bigtable instance %s of project %s: %w", in.Instance, in.Project, err)
	}
	forInstance, err := connection()
	if err != nil {
		return nil, errors.Join(err, tables.Close())
	}
	instance, err := bigtable.NewInstanceAdminClient(ctx, in.Project, forInstance...)
	if err != nil {
		_ = tables.Close()
		return nil, fmt.Errorf("open the instance admin client of project %s: %w", in.Project, err)
	}
	return &Admin{in, emulated, tables, instance}, nil
}

// Close closes the connections.
func (a *Admin) Close() error { return errors.Join(a.tables.Close(), a.instance.Close()) }

// Keep is a simple garbage collection rule. The zero value keeps everything.
type Keep struct {
	Versions int           // how many newest cells of a column are kept; 0: no such rule
	Age      time.Duration // cells older than this may be collected; 0: no such rule
}

func (k Keep) policy() bigtable.GCPolicy {
	var rules []bigtable.GCPolicy
	if k.Versions > 0 {
		rules = append(rules, bigtable.MaxVersionsPolicy(k.Versions))
	}
	if k.Age > 0 {
		rules = append(rules, bigtable.MaxAgePolicy(k.Age))
	}
	switch len(rules) {
	case 0:
		return bigtable.NoGcPolicy()
	case 1:
		return rules[0]
	default:
		return bigtable.UnionPolicy(rules...)
	}
}

// FamilySpec is a family that a table must have.
type FamilySpec struct {
	Name string
	// Keep is the rule with which the family is created. If Keep is the zero value, GC is the rule.
	Keep Keep
	GC   transform.GC
	// Aggregate is the kind of aggregate that the family's cells have. An existing family must have
	// the same kind.
	Aggregate transform.Aggregate
	// Check is the requirement on the rule of an existing family.
	Check Check
}

// Check is a requirement on the garbage collection rule of an existing family.
type Check uint8

// The checks.
const (
	Any       Check = iota // any rule is accepted
	NoAge                  // no age rule is accepted, because it would collect versions of live rows, and counters
	Same                   // only the declared rule is accepted, because the mapping depends on it
	ExactlyAt              // only an age rule of exactly Keep.Age is accepted; with a shorter age, deleted rows could return
)

// TableSpec specifies a table that must exist.
type TableSpec struct {
	Name     string
	Families []FamilySpec
	// SplitKeys are the keys at which a new table is split, ascending, so that a large load does
	// not begin on one tablet.
	SplitKeys []string
	// View names an authorized view over the data families, so that the view's readers never see
	// rows of removed items. It is empty if no view is wanted.
	View string
	// ChangeStream asks for a change stream. A new table gets one. An existing table without one is
	// altered only by EnableChangeStream.
	ChangeStream bool
}

// TargetSpec returns the specification of a target table: the data families, and replicator's two
// families.
func TargetSpec(table string, tombstoneAge time.Duration, dataFamilies ...string) TableSpec {
	spec := TableSpec{Name: table}
	for _, family := range dataFamilies {
		spec.Families = append(spec.Families, FamilySpec{Name: family, Keep: Keep{Versions: 1}})
	}
	spec.Families = append(spec.Families,
		FamilySpec{Name: LiveFamily, Keep: Keep{Versions: 1}, Check: NoAge},
		FamilySpec{Name: GoneFamily, Keep: Keep{Age: tombstoneAge}, Check: ExactlyAt})
	return spec
}

// DataFamilies returns the specifications of the families that a mapping declares.
func DataFamilies(families []transform.Family) []FamilySpec {
	specs := make([]FamilySpec, len(families))
	for i, f := range families {
		specs[i] = FamilySpec{Name: f.Name, GC: f.GC, Aggregate: f.Aggregate}
	}
	return specs
}

// StateSpec returns the specification of the state table: the families of parked records and of the
// ledger.
func StateSpec(table string, ledgerFamilies ...string) TableSpec {
	spec := TableSpec{Name: table, Families: []FamilySpec{{Name: ParkedFamily, Keep: Keep{Versions: 1}, Check: NoAge}}}
	for _, family := range ledgerFamilies {
		spec.Families = append(spec.Families, FamilySpec{Name: family, Keep: Keep{Versions: 1}, Check: NoAge})
	}
	return spec
}

// Problem is a problem of a table.
type Problem uint8

// The problems.
const (
	MissingTable   Problem = iota + 1
	MissingFamily          // the table exists, but lacks the family
	MissingView            // the table exists, but lacks the view
	EatsVersions           // an age rule collects versions or counters, which must live as long as their rows
	WrongAge               // the rule of the tombstones' family differs from state.tombstone_age
	WrongRule              // the rule differs from the declared one, so cells would expire at another time or list elements would be collected
	WrongAggregate         // the family's kind of aggregate differs from the configured one; either may be none
	CollectsItems          // an undeclared age rule collects cells of unchanged items; reported, but not an error
)

var problemNames = [...]string{"", "table does not exist", "family does not exist", "authorized view does not exist", "an age rule would collect cells that must stay", "tombstones are not kept for the configured time",
	"the garbage collection rule differs from the declared one", "the family has another kind of cells than configured", "an undeclared age rule collects cells of unchanged items"}

// String describes the problem.
func (p Problem) String() string { return problemNames[p] }

// SchemaError reports a table that differs from its specification.
type SchemaError struct {
	Problem Problem
	Table   string
	Family  string // "" for MissingTable and MissingView
	View    string // the missing view; "" for other problems
	Have    string // the family's current rule; "" if the family is missing
	Want    string // the rule that it should have
}

func (e *SchemaError) Error() string {
	switch e.Problem {
	case MissingTable:
		return fmt.Sprintf("table %s: %s", e.Table, e.Problem)
	case MissingView:
		return fmt.Sprintf("table %s, view %s: %s", e.Table, e.View, e.Problem)
	}
	return fmt.Sprintf("table %s, family %s: %s (has %q, wanted %q)", e.Table, e.Family, e.Problem, e.Have, e.Want)
}

// Made lists the tables, families and views that Prepare created.
type Made struct {
	Tables   []string
	Families []string // <table>:<family>, only of tables that existed before
	Views    []string // <table>:<view>
	// NoViews are the views that cannot be created, because the service does not support authorized
	// views. Emulators do not support them.
	NoViews []string // <table>:<view>
	// Ageing are existing families with an age rule that is not declared (CollectsItems).
	Ageing []*SchemaError
}

// Prepare checks the tables. If `create` is true, it creates missing tables and families. Other
// workers may do the same at the same time. It returns *SchemaError for a missing or unsuitable
// table, and *Error for a request that the service refuses.
func (a *Admin) Prepare(ctx context.Context, specs []TableSpec, create bool) (Made, error) {
	var made Made
	for _, spec := range specs {
		if err := a.prepare(ctx, spec, create, &made); err != nil {
			return made, err
		}
	}
	return made, nil
}

func (a *Admin) prepare(ctx context.Context, spec TableSpec, create bool, made *Made) error {
	info, err := a.tables.TableInfo(ctx, spec.Name)
	if status.Code(err) == codes.NotFound {
		if !create {
			return &SchemaError{Problem: MissingTable, Table: spec.Name}
		}
		switch err := a.createTable(ctx, spec); status.Code(err) {
		case codes.OK:
			made.Tables = append(made.Tables, spec.Name)
		case codes.AlreadyExists: // another worker was faster
		default:
			return spec.refused(err)
		}
		info, err = a.tables.TableInfo(ctx, spec.Name)
	}
	if err != nil {
		return classifyControl("GetTable", err)
	}
	for _, family := range spec.Families {
		n := slices.IndexFunc(info.FamilyInfos, func(f bigtable.FamilyInfo) bool { return f.Name == family.Name })
		if n >= 0 {
			if err := family.judge(spec.Name, info.FamilyInfos[n]); err != nil {
				return err
			}
			made.Ageing = append(made.Ageing, family.ageing(spec.Name, info.FamilyInfos[n])...)
			continue
		}
		if !create {
			return &SchemaError{Problem: MissingFamily, Table: spec.Name, Family: family.Name, Want: family.Rule()}
		}
		err := a.tables.CreateColumnFamilyWithConfig(ctx, spec.Name, family.Name, family.family())
		switch status.Code(err) {
		case codes.OK:
			made.Families = append(made.Families, spec.Name+":"+family.Name)
		case codes.AlreadyExists:
		default:
			return classifyControl("ModifyColumnFamilies", err)
		}
	}
	if spec.View == "" {
		return nil
	}
	return a.prepareView(ctx, spec, create, made)
}

// judge checks an existing family.
func (f FamilySpec) judge(table string, info bigtable.FamilyInfo) error {
	have := info.FullGCPolicy
	fail := func(p Problem) error {
		return &SchemaError{Problem: p, Table: table, Family: f.Name, Have: ruleText(have), Want: f.Rule()}
	}
	if kind := aggregateOf(info.ValueType); kind != f.Aggregate {
		return &SchemaError{Problem: WrongAggregate, Table: table, Family: f.Name, Have: aggregateText(kind), Want: aggregateText(f.Aggregate)}
	}
	switch f.Check {
	case NoAge:
		// Rules on the number of versions are harmless, because a version column has only one cell
		// at one timestamp.
		if hasAge(have) {
			return fail(EatsVersions)
		}
	case Same:
		if !ruleOf(have).Same(ruleOf(f.policy())) {
			return fail(WrongRule)
		}
	case ExactlyAt:
		if age, ok := have.(bigtable.MaxAgeGCPolicy); !ok || time.Duration(age) != f.Keep.Age {
			return fail(WrongAge)
		}
	}
	return nil
}

// ageing returns a CollectsItems problem if the rule of an existing family is not checked and
// collects cells by an age that is not declared. Otherwise it returns nil. With such a rule, cells
// of an unchanged item vanish although the row's version shows that they exist. The rule may be
// intended, so it is reported, but is not an error.
func (f FamilySpec) ageing(table string, info bigtable.FamilyInfo) []*SchemaError {
	have := info.FullGCPolicy
	if f.Check != Any || !agesNewest(have) || ruleOf(have).Same(ruleOf(f.policy())) {
		return nil
	}
	return []*SchemaError{{Problem: CollectsItems, Table: table, Family: f.Name, Have: ruleText(have), Want: f.Rule()}}
}

// agesNewest reports whether a rule collects even the newest cell of a column by age. Rules on the
// number of versions keep that cell.
func agesNewest(policy bigtable.GCPolicy) bool {
	switch p := policy.(type) {
	case bigtable.MaxAgeGCPolicy:
		return true
	case bigtable.UnionGCPolicy:
		return slices.ContainsFunc(p.Children, agesNewest)
	case bigtable.IntersectionGCPolicy: // collects only cells that all its children collect
		return len(p.Children) > 0 && !slices.ContainsFunc(p.Children, func(child bigtable.GCPolicy) bool { return !agesNewest(child) })
	default:
		return false
	}
}

func hasAge(policy bigtable.GCPolicy) bool {
	switch p := policy.(type) {
	case bigtable.MaxAgeGCPolicy:
		return true
	case bigtable.UnionGCPolicy:
		return slices.ContainsFunc(p.Children, hasAge)
	case bigtable.IntersectionGCPolicy:
		return slices.ContainsFunc(p.Children, hasAge)
	default:
		return false
	}
}

// ruleText returns a rule in the syntax of cbt: maxversions=1 || maxage=14d.
func ruleText(policy bigtable.GCPolicy) string { return ruleOf(policy).String() }

// ruleOf converts a policy of the client to a rule.
func ruleOf(policy bigtable.GCPolicy) transform.GC {
	joined := func(all bool, children []bigtable.GCPolicy) transform.GC {
		rule := transform.GC{All: all}
		for _, c := range children {
			rule.Rules = append(rule.Rules, ruleOf(c))
		}
		return rule
	}
	switch p := policy.(type) {
	case bigtable.MaxVersionsGCPolicy:
		return transform.GC{Versions: int(p)}
	case bigtable.MaxAgeGCPolicy:
		return transform.GC{Age: time.Duration(p)}
	case bigtable.UnionGCPolicy:
		return joined(false, p.Children)
	case bigtable.IntersectionGCPolicy:
		return joined(true, p.Children)
	default:
		return transform.GC{}
	}
}

// family returns the family as the admin client creates it.
func (f FamilySpec) family() bigtable.Family {
	created := bigtable.Family{GCPolicy: f.policy()}
	if a := aggregators[f.Aggregate]; a != nil {
		created.ValueType = bigtable.AggregateType{Input: bigtable.Int64Type{Encoding: bigtable.BigEndianBytesEncoding{}}, Aggregator: a}
	}
	return created
}

func (f FamilySpec) policy() bigtable.GCPolicy {
	if f.Keep != (Keep{}) {
		return f.Keep.policy()
	}
	return gcPolicy(f.GC)
}

// Rule returns the specified rule and aggregate of the family, in the syntax of cbt.
func (f FamilySpec) Rule() string {
	if f.Aggregate != transform.NoAggregate {
		return ruleText(f.policy()) + ":" + string(f.Aggregate)
	}
	return ruleText(f.policy())
}

func gcPolicy(g transform.GC) bigtable.GCPolicy {
	if len(g.Rules) == 0 {
		return Keep{Versions: g.Versions, Age: g.Age}.policy()
	}
	children := make([]bigtable.GCPolicy, len(g.Rules))
	for i, r := range g.Rules {
		children[i] = gcPolicy(r)
	}
	if g.All {
		return bigtable.IntersectionPolicy(children...)
	}
	return bigtable.UnionPolicy(children...)
}

var aggregators = map[transform.Aggregate]bigtable.Aggregator{
	transform.IntSum: bigtable.SumAggregator{}, transform.IntMin: bigtable.MinAggregator{},
	transform.IntMax: bigtable.MaxAggregator{}, transform.IntHLL: bigtable.HllppUniqueCountAggregator{},
}

// unknownAggregate represents a kind of cells that this program does not know.
const unknownAggregate transform.Aggregate = "another type"

// aggregateOf returns the aggregate of an existing family.
func aggregateOf(t bigtable.Type) transform.Aggregate {
	switch v := t.(type) {
	case bigtable.AggregateType:
		switch v.Aggregator.(type) {
		case bigtable.SumAggregator:
			return transform.IntSum
		case bigtable.MinAggregator:
			return transform.IntMin
		case bigtable.MaxAggregator:
			return transform.IntMax
		case bigtable.HllppUniqueCountAggregator:
			return transform.IntHLL
		}
		return unknownAggregate
	}
	return transform.NoAggregate
}

func aggregateText(a transform.Aggregate) string {
	if a == transform.NoAggregate {
		return "not an aggregate"
	}
	return string(a)
}
