package dynamodbtest

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// Limits of transactions (API reference, TransactWriteItems). They are the number of actions, the
// bytes of items, and how long a client's token is kept.
const (
	maxTransactItems = 100
	maxTransactBytes = 4 << 20
	tokenLife        = 10 * time.Minute
	maxToken         = 36 // characters
)

// transactTarget holds the members that all actions of a transaction share.
type transactTarget struct {
	tableRef
	conditionParameters
}

type transactWrite struct {
	Put *struct {
		transactTarget
		Item item.Item
	}
	Update *struct {
		transactTarget
		Key              item.Item
		UpdateExpression *string
	}
	Delete *struct {
		transactTarget
		Key item.Item
	}
	ConditionCheck *struct {
		transactTarget
		Key item.Item
	}
}

type transactWriteRequest struct {
	TransactItems               []transactWrite
	ClientRequestToken          string
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

func (r *transactWriteRequest) subject() (string, string) { return "", "" }

// checkTransactSize rejects transactions without actions or with too many. The service shows the
// actions in this message. This server shows only their number, because its errors contain no item
// data.
func checkTransactSize(n int) error {
	switch {
	case n == 0:
		return validation("1 validation error detected: Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1")
	case n > maxTransactItems:
		return validation("1 validation error detected: Value '[%d actions]' at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to %d", n, maxTransactItems)
	}
	return nil
}

// planTransact validates one action.
func (s *Server) planTransact(action *transactWrite) (write, error) {
	given := 0
	var w write
	var err error
	if a := action.Put; a != nil {
		given++
		w, err = s.planPut(a.tableRef, &a.conditionParameters, a.Item)
	}
	if a := action.Update; a != nil {
		given++
		if a.UpdateExpression == nil {
			return w, missingMember("transactItems.member.update.updateExpression")
		}
		w, err = s.planUpdate(a.tableRef, &a.conditionParameters, a.Key, a.UpdateExpression, nil)
	}
	if a := action.Delete; a != nil {
		given++
		w, err = s.planKeyed(a.tableRef, &a.conditionParameters, a.Key, nil)
		w.delete = true
	}
	if a := action.ConditionCheck; a != nil {
		given++
		if a.ConditionExpression == nil {
			return w, missingMember("transactItems.member.conditionCheck.conditionExpression")
		}
		w, err = s.planKeyed(a.tableRef, &a.conditionParameters, a.Key, nil)
	}
	if given != 1 {
		return w, validation("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	return w, err
}

func (s *Server) transactWrite(req *transactWriteRequest) (any, error) {
	if err := checkTransactSize(len(req.TransactItems)); err != nil {
		return nil, err
	}
	if err := req.checkEnums(); err != nil {
		return nil, err
	}
	if len(req.ClientRequestToken) > maxToken {
		return nil, validation("1 validation error detected: Value '%s' at 'clientRequestToken' failed to satisfy constraint: Member must have length less than or equal to %d", req.ClientRequestToken, maxToken)
	}
	writes := make([]write, len(req.TransactItems))
	seen := map[*table]map[string]bool{}
	for i := range req.TransactItems {
		w, err := s.planTransact(&req.TransactItems[i])
		if kind := kindOf(err); w.table != nil && (kind == keyMismatch || kind == indexMismatch) {
			// The service detects this mistake only when it executes the transaction, and then
			// cancels the transaction.
			w.refused = err
			writes[i] = w
			continue
		}
		if err != nil {
			return nil, err
		}
		if seen[w.table] == nil {
			seen[w.table] = map[string]bool{}
		}
		if seen[w.table][w.key.order] {
			return nil, validation("Transaction request cannot include multiple operations on one item")
		}
		seen[w.table][w.key.order] = true
		writes[i] = w
	}
	done, err := s.claim(req)
	if err != nil {
		return nil, err
	}
	if done {
		// A repeated request that was already executed costs only the reads of its items.
		reads := make([]transactRead, len(writes))
		for i := range writes {
			reads[i] = transactRead{table: writes[i].table, key: writes[i].key}
		}
		meters := transactMeters(reads, "Read", req.ReturnConsumedCapacity)
		readAll(reads, meters)
		return answerTransact(req, writes, meters), nil
	}
	meters := transactMeters(writes, "Write", req.ReturnConsumedCapacity)
	err = commitAll(writes, meters)
	s.settle(req, err == nil)
	if err != nil {
		return nil, err
	}
	return answerTransact(req, writes, meters), nil
}

// transactMeters returns a meter for each table.
func transactMeters[A interface{ of() *table }](actions []A, kind, returned string) map[*table]*meter {
	meters := map[*table]*meter{}
	for i := range actions {
		t := actions[i].of()
		m := newMeter(returned, t.name)
		m.kind = kind
		meters[t] = &m
	}
	return meters
}

func answerTransact(req *transactWriteRequest, writes []write, meters map[*table]*meter) wire {
	r := newResponse()
	var list []*meter
	for _, t := range sortedTables(meters) {
		list = append(list, meters[t])
	}
	r.capacities(list)
	keys := map[*table][]primaryKey{}
	for i := range writes {
		if w := &writes[i]; w.changes() {
			keys[w.table] = append(keys[w.table], w.key)
		}
	}
	r.collections(req.ReturnItemCollectionMetrics, keys)
	return r.close()
}

// sortedTables returns the tables of a map, sorted by name. Tables are locked in this order.
func sortedTables[V any](m map[*table]V) []*table {
	var tables []*table
	for t := range m {
		tables = append(tables, t)
	}
	slices.SortFunc(tables, func(a, b *table) int { return strings.Compare(a.name, b.name) })
	return tables
}

// commitAll checks all writes, and makes them if none is rejected.
func commitAll(writes []write, meters map[*table]*meter) error {
	for _, t := range sortedTables(meters) {
		if err := t.lock(); err != nil {
			return err
		}
		defer t.mu.Unlock()
	}
	changes := make([]change, len(writes))
	reasons := make([]cancellation, len(writes))
	cancelled := false
	size := 0
	for i := range writes {
		c, err := writes[i].decide()
		if kindOf(err) == emptyIndexKey {
			return err
		}
		reasons[i] = cancellation{Code: "None"}
		if err != nil {
			cancelled = true
			reasons[i] = reasonFor(err)
		}
		changes[i] = c
		size += sizeOf(c.image)
	}
	if cancelled {
		return cancelledError(reasons)
	}
	if size > maxTransactBytes {
		return validation("Collection size of items in the transaction exceeds the limit of 4 MB")
	}
	now := writes[0].table.server.Now()
	for i := range writes {
		w := &writes[i]
		old := w.table.items.get(w.key.order)
		var indexes []indexWrite
		if w.changes() {
			_, indexes = w.table.apply(changes[i], now)
		}
		// A transaction pays for each item twice: to prepare the write, and to commit it.
		for range 2 {
			meters[w.table].write(max(sizeOf(old), sizeOf(changes[i].image)), indexes)
		}
	}
	return nil
}

func reasonFor(err error) cancellation {
	api := asError(err)
	reason := cancellation{Code: api.Code, Message: api.Message, Item: api.item}
	switch api.Code {
	case "ConditionalCheckFailedException":
		reason.Code = "ConditionalCheckFailed"
	case "ValidationException":
		reason.Code = "ValidationError"
	}
	return reason
}

func cancelledError(reasons []cancellation) error {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i] = r.Code
	}
	e := newError("TransactionCanceledException", "Transaction cancelled, please refer cancellation reasons for specific reasons ["+strings.Join(codes, ", ")+"]")
	e.reasons = reasons
	return e
}

// transactToken is a request that is in progress or was executed.
type transactToken struct {
	sum  [sha256.Size]byte
	at   time.Time
	done bool
}

// claim reports whether a request with this token was already executed. If not, the request counts
// as in progress until settle.
func (s *Server) claim(req *transactWriteRequest) (done bool, err error) {
	if req.ClientRequestToken == "" {
		return false, nil
	}
	sum, err := req.sum()
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	for token, former := range s.tokens {
		if former.done && now.Sub(former.at) >= tokenLife {
			delete(s.tokens, token)
		}
	}
	former, found := s.tokens[req.ClientRequestToken]
	switch {
	case !found:
		s.tokens[req.ClientRequestToken] = transactToken{sum: sum, at: now}
		return false, nil
	case former.sum != sum:
		return false, newError("IdempotentParameterMismatchException", "The request uses the same client token as a previous, but non-identical request.")
	case !former.done:
		return false, newError("TransactionInProgressException", "The transaction with the given request token is already in progress.")
	}
	return true, nil
}

// settle ends the progress that claim began. A request that failed may be sent again.
func (s *Server) settle(req *transactWriteRequest, done bool) {
	if req.ClientRequestToken == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !done {
		delete(s.tokens, req.ClientRequestToken)
		return
	}
	token := s.tokens[req.ClientRequestToken]
	token.done = true
	s.tokens[req.ClientRequestToken] = token
}

// sum returns a digest of the request without its token.
func (r *transactWriteRequest) sum() ([sha256.Size]byte, error) {
	encoded, err := json.Marshal(r.TransactItems)
	return sha256.Sum256(encoded), err
}

type transactGet struct {
	Get *struct {
		tableRef
		Key                      item.Item
		ProjectionExpression     *string
		ExpressionAttributeNames map[string]string
	}
}

type transactGetRequest struct {
	TransactItems          []transactGet
	ReturnConsumedCapacity string
}

func (r *transactGetRequest) subject() (string, string) { return "", "" }

// transactRead is one validated read of a transaction.
type transactRead struct {
	table      *table
	key        primaryKey
	projection *expression.Projection
	refused    error // the reason why the item cannot be read
}

func (r transactRead) of() *table { return r.table }

func (s *Server) transactGet(req *transactGetRequest) (any, error) {
	if err := checkTransactSize(len(req.TransactItems)); err != nil {
		return nil, err
	}
	if err := constraints(enumCapacity(req.ReturnConsumedCapacity)); err != nil {
		return nil, err
	}
	reads := make([]transactRead, len(req.TransactItems))
	seen := map[*table]map[string]bool{}
	for i, action := range req.TransactItems {
		if action.Get == nil || !action.Get.Key.Given {
			return nil, missingMember("transactItems.member.get")
		}
		get := action.Get
		t, err := s.find(get.tableRef)
		if err != nil {
			return nil, err
		}
		key, err := t.schema.ofKey(get.Key.Item)
		refused := err
		if err != nil && !isMismatch(err) {
			return nil, err
		}
		if seen[t] == nil {
			seen[t] = map[string]bool{}
		}
		if refused == nil && seen[t][key.order] {
			return nil, validation("Transaction request cannot include multiple operations on one item")
		}
		seen[t][key.order] = true
		projection, err := parseProjection(get.ProjectionExpression, get.ExpressionAttributeNames, nil)
		if err != nil {
			return nil, err
		}
		reads[i] = transactRead{t, key, projection, refused}
	}
	if err := refusedReads(reads); err != nil {
		return nil, err
	}
	meters := transactMeters(reads, "Read", req.ReturnConsumedCapacity)
	found := readAll(reads, meters)
	r := newResponse()
	r.member("Responses")
	r.json = append(r.json, '[')
	for i, it := range found {
		if i > 0 {
			r.json = append(r.json, ',')
		}
		r.json = append(r.json, '{')
		if it != nil {
			shown, err := project(it.wire, reads[i].projection)
			if err != nil {
				return nil, err
			}
			r.json = append(r.json, `"Item":`...)
			r.json = append(r.json, shown...)
		}
		r.json = append(r.json, '}')
	}
	r.json = append(r.json, ']')
	var list []*meter
	for _, t := range sortedTables(meters) {
		list = append(list, meters[t])
	}
	r.capacities(list)
	return r.close(), nil
}

// refusedReads returns the cancellation of a transaction with keys that do not match the schema.
func refusedReads(reads []transactRead) error {
	reasons := make([]cancellation, len(reads))
	cancelled := false
	for i, r := range reads {
		reasons[i] = cancellation{Code: "None"}
		if r.refused != nil {
			cancelled = true
			reasons[i] = reasonFor(r.refused)
		}
	}
	if !cancelled {
		return nil
	}
	return cancelledError(reasons)
}

// readAll reads all items at one moment.
func readAll(reads []transactRead, meters map[*table]*meter) []*stored {
	for _, t := range sortedTables(meters) {
		t.mu.RLock()
		defer t.mu.RUnlock()
	}
	found := make([]*stored, len(reads))
	for i, read := range reads {
		found[i] = read.table.items.get(read.key.order)
		for range 2 {
			meters[read.table].read(sizeOf(found[i]), true)
		}
	}
	return found
}
