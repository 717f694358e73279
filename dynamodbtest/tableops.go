package dynamodbtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"
)

// validName matches names of tables and indexes ("Naming rules").
var validName = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// tableRef is a table's name or ARN. The service accepts either form.
type tableRef struct{ TableName *string }

func refTo(name string) tableRef { return tableRef{&name} }

func (r *tableRef) subject() (string, string) { return r.name(), "" }

// address returns the name or ARN as the request has it.
func (r *tableRef) address() string { return textOrEmpty(r.TableName) }

// name returns the table's name; empty if the request has none.
func (r *tableRef) name() string {
	if r.TableName == nil {
		return ""
	}
	if strings.HasPrefix(*r.TableName, "arn:") {
		return tableOfARN(*r.TableName)
	}
	return *r.TableName
}

// find returns the table. If the table does not exist, the error is the error of operations on
// items.
func (s *Server) find(ref tableRef) (*table, error) {
	if ref.TableName == nil {
		return nil, missingMember("tableName")
	}
	name := ref.name()
	if err := checkName(name, "tableName", 1); err != nil {
		return nil, err
	}
	if err := s.checkOwner(*ref.TableName); err != nil {
		return nil, err
	}
	s.mu.RLock()
	t := s.tables[name]
	s.mu.RUnlock()
	if t == nil {
		return nil, resourceNotFound("Requested resource not found")
	}
	return t, nil
}

// checkOwner refuses the ARN of a table in another region or account. This server has one of each,
// so no policy of another account can allow the access.
func (s *Server) checkOwner(arn string) error {
	parts := strings.SplitN(arn, ":", arnParts)
	switch {
	case len(parts) < arnParts: // a name
		return nil
	case parts[3] != s.opts.Region:
		return validation("Invalid TableArn: Invalid ResourceArn provided as input %s", arn)
	case parts[4] != s.opts.AccountID:
		return newError("AccessDeniedException", "User is not authorized to perform this operation on resource: "+arn)
	}
	return nil
}

// findNamed is like find, but for operations on tables. Their error names the missing table.
func (s *Server) findNamed(ref tableRef) (*table, error) {
	t, err := s.find(ref)
	if api := (*Error)(nil); errors.As(err, &api) && api.Code == "ResourceNotFoundException" {
		err = resourceNotFound("Requested resource not found: Table: %s not found", ref.name())
	}
	return t, err
}

// checkName rejects an invalid name of a table or index. The argument `member` is the name's place
// in the request.
func checkName(name, member string, least int) error {
	what := ""
	switch {
	case len(name) < least:
		what = fmt.Sprintf("Member must have length greater than or equal to %d", least)
	case len(name) > 255:
		what = "Member must have length less than or equal to 255"
	case !validName.MatchString(name):
		what = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
	default:
		return nil
	}
	return validation("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", name, member, what)
}

// lock locks the table for writing. It fails if the table was deleted since it was found.
func (t *table) lock() error {
	t.mu.Lock()
	if t.deleted {
		t.mu.Unlock()
		return resourceNotFound("Requested resource not found")
	}
	return nil
}

type keyElement struct {
	AttributeName string
	KeyType       string
}

type attributeDefinition struct {
	AttributeName string
	AttributeType string
}

type throughput struct {
	ReadCapacityUnits  int64
	WriteCapacityUnits int64
}

type streamSpecification struct {
	StreamEnabled  bool
	StreamViewType string `json:",omitempty"`
}

type createTableRequest struct {
	tableRef
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keyElement
	BillingMode               string
	ProvisionedThroughput     *throughput
	LocalSecondaryIndexes     []indexSpecification
	GlobalSecondaryIndexes    []indexSpecification
	OnDemandThroughput        *onDemandThroughput
	SSESpecification          *encryption
	StreamSpecification       *streamSpecification
	Tags                      []tag
	TableClass                string
	DeletionProtectionEnabled bool
}

// encryption is a table's SSESpecification. This server encrypts nothing, but it describes the
// setting as the service does.
type encryption struct {
	Enabled        bool
	SSEType        string
	KMSMasterKeyId string
}

type encryptionDescription struct {
	Status          string
	SSEType         string
	KMSMasterKeyArn string
}

// describe returns the description for DescribeTable; nil for the service's default keys.
func (e *encryption) describe(t *table) *encryptionDescription {
	if e == nil || !e.Enabled {
		return nil
	}
	arn := e.KMSMasterKeyId
	if !strings.HasPrefix(arn, "arn:") {
		arn = "arn:aws:kms:" + t.server.opts.Region + ":" + t.server.opts.AccountID + ":key/" + cmp.Or(arn, "aws-dynamodb")
	}
	return &encryptionDescription{"ENABLED", "KMS", arn}
}

func (ks keySchema) elements() []keyElement {
	var elements []keyElement
	for _, a := range ks.hash {
		elements = append(elements, keyElement{a.name, "HASH"})
	}
	for _, a := range ks.sort {
		elements = append(elements, keyElement{a.name, "RANGE"})
	}
	return elements
}

// readBilling validates the capacity parameters of CreateTable and UpdateTable.
func readBilling(mode string, t *throughput, former billing, now time.Time) (billing, error) {
	b := former
	if mode == "PAY_PER_REQUEST" {
		if t != nil {
			return b, validation("One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
		}
		return billing{onDemand: true, changed: now}, nil
	}
	if t == nil {
		return b, validation("One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	if t.ReadCapacityUnits < 1 || t.WriteCapacityUnits < 1 {
		return b, validation("1 validation error detected: Value at 'provisionedThroughput' failed to satisfy constraint: Member must have value greater than or equal to 1")
	}
	return billing{read: t.ReadCapacityUnits, write: t.WriteCapacityUnits}, nil
}

// checkView validates a stream specification. It returns the view type to enable, or nothing.
func checkView(spec *streamSpecification) (string, error) {
	if !spec.StreamEnabled {
		if spec.StreamViewType != "" {
			return "", validation("One or more parameter values were invalid: StreamViewType must not be specified when StreamEnabled is false")
		}
		return "", nil
	}
	if spec.StreamViewType == "" {
		return "", validation("One or more parameter values were invalid: StreamViewType is required when StreamEnabled is true")
	}
	return spec.StreamViewType, nil
}

func (s *Server) createTable(req *createTableRequest) (any, error) {
	if req.TableName == nil {
		return nil, validation("The parameter 'TableName' is required but was not present in the request")
	}
	if err := checkName(req.name(), "tableName", 3); err != nil {
		return nil, err
	}
	if err := req.checkEnums(); err != nil {
		return nil, err
	}
	kinds, err := definitionsOf(req.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	schema, err := readKeys(req.KeySchema, kinds, "keySchema", false)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	capacity, err := readBilling(req.BillingMode, req.ProvisionedThroughput, billing{}, now)
	if err != nil {
		return nil, err
	}
	indexes, err := readIndexes(schema, req.LocalSecondaryIndexes, req.GlobalSecondaryIndexes, kinds, capacity)
	if err != nil {
		return nil, err
	}
	if err := checkDefinitions(schema, indexes, kinds); err != nil {
		return nil, err
	}
	view := ""
	if req.StreamSpecification != nil {
		if view, err = checkView(req.StreamSpecification); err != nil {
			return nil, err
		}
	}
	t := &table{
		server: s, name: req.name(), schema: schema, created: now, billing: capacity, tags: req.Tags,
		tableClass: req.TableClass, deletionProtection: req.DeletionProtectionEnabled, autoRoll: s.opts.AutoRoll, policyDelay: s.opts.PolicyDelay,
		onDemand: req.OnDemandThroughput, encryption: req.SSESpecification,
	}
	t.secondary.Store(&indexes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables[t.name] != nil {
		return nil, newError("ResourceInUseException", "Table already exists: "+t.name)
	}
	s.created++
	t.random = rand.New(rand.NewPCG(s.opts.Seed, s.created))
	a, b := t.random.Uint64(), t.random.Uint64()
	t.id = fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
	if view != "" {
		t.enableStream(view, now)
	}
	s.tables[t.name] = t
	return struct{ TableDescription tableDescription }{t.describe("CREATING")}, nil
}

type provisionedThroughput struct {
	NumberOfDecreasesToday int64
	ReadCapacityUnits      int64
	WriteCapacityUnits     int64
}

type billingModeSummary struct {
	BillingMode                       string
	LastUpdateToPayPerRequestDateTime seconds
}

type tableClassSummary struct{ TableClass string }

type tableDescription struct {
	AttributeDefinitions      []attributeDefinition
	TableName                 string
	KeySchema                 []keyElement
	TableStatus               string
	CreationDateTime          seconds
	ProvisionedThroughput     provisionedThroughput
	TableSizeBytes            int
	ItemCount                 int
	TableArn                  string
	TableId                   string
	BillingModeSummary        *billingModeSummary    `json:",omitempty"`
	LocalSecondaryIndexes     []indexDescription     `json:",omitempty"`
	GlobalSecondaryIndexes    []indexDescription     `json:",omitempty"`
	StreamSpecification       *streamSpecification   `json:",omitempty"`
	LatestStreamLabel         string                 `json:",omitempty"`
	LatestStreamArn           string                 `json:",omitempty"`
	TableClassSummary         *tableClassSummary     `json:",omitempty"`
	OnDemandThroughput        *onDemandThroughput    `json:",omitempty"`
	SSEDescription            *encryptionDescription `json:",omitempty"`
	DeletionProtectionEnabled bool
}

// describe returns the description for DescribeTable. The caller must hold mu, unless no other
// goroutine can use the table yet.
func (t *table) describe(status string) tableDescription {
	d := tableDescription{
		AttributeDefinitions: definitions(t.schema, t.indexes()), TableName: t.name, KeySchema: t.schema.elements(),
		TableStatus: status, CreationDateTime: seconds(t.created),
		ProvisionedThroughput: provisionedThroughput{0, t.billing.read, t.billing.write},
		TableSizeBytes:        t.items.bytes, ItemCount: t.items.count, TableArn: t.arn(), TableId: t.id,
		LocalSecondaryIndexes: t.describeIndexes(false), GlobalSecondaryIndexes: t.describeIndexes(true),
		OnDemandThroughput: t.onDemand, SSEDescription: t.encryption.describe(t), DeletionProtectionEnabled: t.deletionProtection,
	}
	if t.billing.onDemand {
		d.BillingModeSummary = &billingModeSummary{"PAY_PER_REQUEST", seconds(t.billing.changed)}
	}
	if t.tableClass != "" {
		d.TableClassSummary = &tableClassSummary{t.tableClass}
	}
	if t.stream != nil {
		// The label and ARN of the latest stream remain after it is disabled.
		d.LatestStreamArn, d.LatestStreamLabel = t.stream.arn, t.stream.label
		if t.stream.enabled {
			d.StreamSpecification = &streamSpecification{true, t.stream.view}
		}
	}
	return d
}

func (s *Server) describeTable(ref *tableRef) (any, error) {
	t, err := s.findNamed(*ref)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return struct{ Table tableDescription }{t.describe("ACTIVE")}, nil
}

func (s *Server) deleteTable(ref *tableRef) (any, error) {
	t, err := s.findNamed(*ref)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	if t.deletionProtection {
		return nil, validation("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	}
	if t.stream != nil && t.stream.enabled {
		t.stream.disable(s.Now())
	}
	t.deleted = true
	delete(s.tables, t.name)
	d := t.describe("DELETING")
	t.items = index{}
	t.secondary.Store(nil)
	return struct{ TableDescription tableDescription }{d}, nil
}

type updateTableRequest struct {
	tableRef
	AttributeDefinitions        []attributeDefinition
	GlobalSecondaryIndexUpdates []indexUpdate
	BillingMode                 string
	ProvisionedThroughput       *throughput
	OnDemandThroughput          *onDemandThroughput
	SSESpecification            *encryption
	StreamSpecification         *streamSpecification
	TableClass                  string
	DeletionProtectionEnabled   *bool
}

func (s *Server) updateTable(req *updateTableRequest) (any, error) {
	if err := req.checkEnums(); err != nil {
		return nil, err
	}
	t, err := s.findNamed(req.tableRef)
	if err != nil {
		return nil, err
	}
	view := ""
	if req.StreamSpecification != nil {
		if view, err = checkView(req.StreamSpecification); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	now := s.Now()
	capacity := t.billing
	if req.BillingMode != "" || req.ProvisionedThroughput != nil {
		if capacity, err = readBilling(req.BillingMode, req.ProvisionedThroughput, t.billing, now); err != nil {
			return nil, err
		}
		if !capacity.onDemand && capacity == t.billing && req.GlobalSecondaryIndexUpdates == nil {
			return nil, validation("The provisioned throughput for the table will not change. The requested value equals the current value. "+
				"Current ReadCapacityUnits provisioned for the table: %d. Requested ReadCapacityUnits: %d. Current WriteCapacityUnits provisioned for the table: %d. Requested WriteCapacityUnits: %d. "+
				"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.", capacity.read, capacity.read, capacity.write, capacity.write)
		}
	}
	if req.GlobalSecondaryIndexUpdates != nil {
		if err := t.updateIndexList(req.GlobalSecondaryIndexUpdates, req.AttributeDefinitions, capacity); err != nil {
			return nil, err
		}
	}
	if req.StreamSpecification != nil {
		if err := t.switchStream(view, now); err != nil {
			return nil, err
		}
	}
	t.billing = capacity
	t.onDemand = cmp.Or(req.OnDemandThroughput, t.onDemand)
	t.encryption = cmp.Or(req.SSESpecification, t.encryption)
	t.tableClass = cmp.Or(req.TableClass, t.tableClass)
	if req.DeletionProtectionEnabled != nil {
		t.deletionProtection = *req.DeletionProtectionEnabled
	}
	return struct{ TableDescription tableDescription }{t.describe("UPDATING")}, nil
}

// switchStream enables a stream of the view type. If view is empty, it disables the current stream.
func (t *table) switchStream(view string, now time.Time) error {
	enabled := t.stream != nil && t.stream.enabled
	switch {
	case view != "" && enabled:
		return validation("Table already has an enabled stream: TableName: %s", t.name)
	case view == "" && !enabled:
		return validation("Table is already disabled: its stream cannot be disabled again: TableName: %s", t.name)
	case view != "":
		t.enableStream(view, now)
	default:
		t.stream.disable(now)
	}
	return nil
}

type listTablesRequest struct {
	Limit                   *int
	ExclusiveStartTableName string

	caller string
}

func (r *listTablesRequest) setCaller(arn string) { r.caller = arn }

func (r *listTablesRequest) subject() (string, string) { return "", "" }

func (s *Server) listTables(req *listTablesRequest) (any, error) {
	limit, err := listLimit(req.Limit)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	response := struct {
		TableNames             []string
		LastEvaluatedTableName string `json:",omitempty"`
	}{TableNames: []string{}}
	if s.foreign(req.caller) {
		return response, nil // the caller's own account has no tables
	}
	for _, name := range sortedKeys(s.tables) {
		if name <= req.ExclusiveStartTableName {
			continue
		}
		if len(response.TableNames) == limit {
			response.LastEvaluatedTableName = response.TableNames[limit-1]
			break
		}
		response.TableNames = append(response.TableNames, name)
	}
	return response, nil
}

type noParameters struct{}

func (*noParameters) subject() (string, string) { return "", "" }

// describeLimits returns the initial quotas of an account. This server does not enforce them.
func (s *Server) describeLimits(*noParameters) (any, error) {
	return json.RawMessage(`{"AccountMaxReadCapacityUnits":80000,"AccountMaxWriteCapacityUnits":80000,` +
		`"TableMaxReadCapacityUnits":40000,"TableMaxWriteCapacityUnits":40000}`), nil
}

// describeEndpoints names this server as the only endpoint. Clients that discover endpoints then
// use the server for CachePeriodInMinutes.
func (s *Server) describeEndpoints(*noParameters) (any, error) {
	return json.RawMessage(`{"Endpoints":[{"Address":"dynamodb.` + s.opts.Region + `.amazonaws.com","CachePeriodInMinutes":1440}]}`), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
