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

	"github.com/dynamodb-bigtable/replicator/transform"
)

// Admin looks at tables, views and app profiles and creates what is missing. It never alters what
// exists, and drops nothing but families of the fence. It is the one user of Bigtable's admin
// clients.
type Admin struct {
	in       Instance
	emulator bool
	tables   *bigtable.AdminClient
	instance *bigtable.InstanceAdminClient
}

// ConnectAdmin opens the admin clients, as Connect opens the data client.
func ConnectAdmin(ctx context.Context, in Instance, opts ...option.ClientOption) (*Admin, error) {
	emulated := false
	connection := func() ([]option.ClientOption, error) { // of each client its own: it closes what it was given
		emulator, err := dialEmulator()
		emulated = emulator != nil
		if emulator == nil || err != nil {
			return append([]option.ClientOption{option.WithGRPCDialOption(alive)}, opts...), err
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

// Keep is a garbage collection rule in its simple forms; the zero value keeps everything.
type Keep struct {
	Versions int           // cells of a column beyond so many, counted from the newest, may be collected; 0: no such rule
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
	// Keep is the rule with which the family is created, or GC if Keep is the zero value.
	Keep Keep
	GC   transform.GC
	// Aggregate is what its cells add up to. A family that exists must be of the same kind.
	Aggregate transform.Aggregate
	// Check judges the rule of a family that exists. Any: it is not looked at.
	Check Check
}

// Check says what the garbage collection rule of an existing family must be.
type Check uint8

// The checks.
const (
	Any       Check = iota // the family's rule is the owner's business
	NoAge                  // no age rule may stand anywhere in it: it would eat versions that live, and counters
	Same                   // the rule that was declared: the mapping rests on it
	ExactlyAt              // an age rule of exactly Keep.Age: sooner lets deleted rows return, later is not what was configured
)

// TableSpec is a table that must be there.
type TableSpec struct {
	Name     string
	Families []FamilySpec
	// SplitKeys are where a new table is split from the start, ascending, so that a large load does not begin on one tablet.
	SplitKeys []string
	// View names an authorized view over the families that are not ours, so that readers who use it never see the rows of
	// removed items; empty for none.
	View string
}

// TargetSpec is a target table: the data families and our own two.
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

// DataFamilies are the specs of the families that a mapping declares.
func DataFamilies(families []transform.Family) []FamilySpec {
	specs := make([]FamilySpec, len(families))
	for i, f := range families {
		specs[i] = FamilySpec{Name: f.Name, GC: f.GC, Aggregate: f.Aggregate}
	}
	return specs
}

// StateSpec is the state table: the family of parked records, and those of the ledger.
func StateSpec(table string, ledgerFamilies ...string) TableSpec {
	spec := TableSpec{Name: table, Families: []FamilySpec{{Name: ParkedFamily, Keep: Keep{Versions: 1}, Check: NoAge}}}
	for _, family := range ledgerFamilies {
		spec.Families = append(spec.Families, FamilySpec{Name: family, Keep: Keep{Versions: 1}, Check: NoAge})
	}
	return spec
}

// Problem is what is wrong with a table.
type Problem uint8

// The problems.
const (
	MissingTable   Problem = iota + 1
	MissingFamily          // of a table that exists
	MissingView            // of a table that exists
	EatsVersions           // an age rule where versions must live as long as their rows, or counters
	WrongAge               // the tombstones' family has another rule than state.tombstone_age
	WrongRule              // stamps of cells that are to expire are counted by another rule, or elements of lists would be collected
	WrongAggregate         // a family's cells are an aggregate, or another one, or none
	CollectsItems          // an age rule that was not declared collects cells of items that do not change; told, and no error
)

var problemNames = [...]string{"", "table does not exist", "family does not exist", "authorized view does not exist", "an age rule would collect cells that must stay", "tombstones are not kept for the configured time",
	"the garbage collection rule differs from the declared one", "the family has another kind of cells than configured", "an undeclared age rule collects cells of unchanged items"}

// String describes the problem.
func (p Problem) String() string { return problemNames[p] }

// SchemaError is a table that is not as it must be.
type SchemaError struct {
	Problem Problem
	Table   string
	Family  string // "" for MissingTable and MissingView
	View    string // of MissingView
	Have    string // the family's rule as it is; "" if it is missing
	Want    string // the rule it should have
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

// Made says what Prepare created.
type Made struct {
	Tables   []string
	Families []string // <table>:<family>, of tables that existed
	Views    []string // <table>:<view>
	// NoViews are the views that cannot be had because the service does not know authorized views, as emulators do not.
	NoViews []string // <table>:<view>
	// Ageing are the families that exist with an age rule that was not declared (CollectsItems).
	Ageing []*SchemaError
}

// Prepare checks the tables and, if create is set, makes those tables and families that are missing. Other workers may do the same
// at once. Errors are *SchemaError for what is missing or unfit, *Error for what the service refuses.
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

// Lacks is what a table lacks of its specification.
type Lacks struct {
	Table    bool         // all of it
	Families []FamilySpec // of a table that exists
	View     bool         // of a table that exists or not
	NoViews  bool         // the service knows no authorized views, so that none can be made
	// Ageing are the families that exist with an age rule that was not declared (CollectsItems).
	Ageing []*SchemaError
	// Protected: the service drops no family of the table, those of the fence neither.
	Protected bool
}

// Lacks looks what a table lacks, and changes nothing. The error has everything at once that is there and unfit: *SchemaError for
// each family, or it is the service's, *Error.
func (a *Admin) Lacks(ctx context.Context, spec TableSpec) (Lacks, error) {
	info, err := a.tables.TableInfo(ctx, spec.Name)
	if status.Code(err) == codes.NotFound {
		l := Lacks{Table: true, View: spec.View != ""}
		if l.View {
			// Of a table that does not exist a service that knows views says that there is none.
			_, err := a.tables.AuthorizedViewInfo(ctx, spec.Name, spec.View)
			l.NoViews = status.Code(err) == codes.Unimplemented
			l.View = !l.NoViews
		}
		return l, nil
	}
	if err != nil {
		return Lacks{}, classifyControl("GetTable", err)
	}
	var (
		l      = Lacks{Protected: info.DeletionProtection == bigtable.Protected}
		unfit  []error
		schema *SchemaError
	)
	for _, family := range spec.Families {
		n := slices.IndexFunc(info.FamilyInfos, func(f bigtable.FamilyInfo) bool { return f.Name == family.Name })
		if n < 0 {
			l.Families = append(l.Families, family)
		} else if err := family.judge(spec.Name, info.FamilyInfos[n]); err != nil {
			unfit = append(unfit, err)
		} else {
			l.Ageing = append(l.Ageing, family.ageing(spec.Name, info.FamilyInfos[n])...)
		}
	}
	if spec.View != "" {
		view, err := a.View(ctx, spec.Name, spec.View)
		switch {
		case errors.As(err, &schema):
			l.View = true
		case err != nil:
			unfit = append(unfit, err)
		default:
			l.NoViews = view.Note != ""
		}
	}
	return l, errors.Join(unfit...)
}

func (a *Admin) createTable(ctx context.Context, spec TableSpec) error {
	families := make(map[string]bigtable.Family, len(spec.Families))
	for _, f := range spec.Families {
		families[f.Name] = f.family()
	}
	return a.tables.CreateTableFromConf(ctx, &bigtable.TableConf{TableID: spec.Name, SplitKeys: spec.SplitKeys, ColumnFamilies: families})
}

// judge checks a family that exists.
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
		// Rules on the number of versions are harmless, whatever the number: a version column has one cell at one timestamp.
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

// ageing is a family that exists, whose rule is its owner's business, and whose cells go by an age that was not declared: those of an item
// that does not change vanish, while its version stays and tells that they are there. Nil if that is not so. It may be meant, so that it is
// no more than told.
func (f FamilySpec) ageing(table string, info bigtable.FamilyInfo) []*SchemaError {
	have := info.FullGCPolicy
	if f.Check != Any || !agesNewest(have) || ruleOf(have).Same(ruleOf(f.policy())) {
		return nil
	}
	return []*SchemaError{{Problem: CollectsItems, Table: table, Family: f.Name, Have: ruleText(have), Want: f.Rule()}}
}

// agesNewest tells whether a rule collects by age even the newest cell of a column, which rules on the number of versions keep.
func agesNewest(policy bigtable.GCPolicy) bool {
	switch p := policy.(type) {
	case bigtable.MaxAgeGCPolicy:
		return true
	case bigtable.UnionGCPolicy:
		return slices.ContainsFunc(p.Children, agesNewest)
	case bigtable.IntersectionGCPolicy: // which collects what all of its children do
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

// ruleText writes a rule as cbt reads it: maxversions=1 || maxage=14d.
func ruleText(policy bigtable.GCPolicy) string { return ruleOf(policy).String() }

// ruleOf is the rule of a policy of the client.
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

// family is the family as the admin client creates it.
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

// Rule is what the family should be, in cbt's grammar.
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

// unknownAggregate stands for a kind of cell that this program does not know.
const unknownAggregate transform.Aggregate = "another type"

// aggregateOf is the aggregate of a family that exists.
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
