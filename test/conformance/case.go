package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Case tests one behaviour.
type Case struct {
	// Name is unique: the subject, a slash, and the tested behaviour.
	Name string
	// Source is the page of the AWS documentation that states the behaviour. For error messages,
	// which no page lists, it is another source.
	Source string
	run    func(c *run)
}

// Cases returns the suite.
func Cases() []Case {
	return slices.Concat(itemCases, updateCases, conditionCases, projectionCases, queryCases, scanCases, indexCases, batchCases, transactionCases,
		limitCases, tableCases, streamCases)
}

// Result is the result of a case.
type Result struct {
	Case
	// Differences say how the service differs from the case. It is empty if the service does not
	// differ.
	Differences []string
}

// Suite is one run of the cases against one endpoint.
type Suite struct {
	endpoint *Endpoint
	// prefix of the tables' names, so that other tables are not touched
	prefix string
	tables []string // created tables
}

// Run runs the suite. It always deletes the tables that it creates. An error means that the suite
// could not run, not that a service differs.
func Run(ctx context.Context, e *Endpoint) (results []Result, err error) {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	s := &Suite{endpoint: e, prefix: "conformance-" + hex.EncodeToString(random[:]) + "-"}
	defer func() { err = errors.Join(err, s.deleteTables(context.WithoutCancel(ctx))) }()
	for _, f := range fixtures {
		if err := s.createTable(ctx, f.name, f.parameters); err != nil {
			return nil, err
		}
	}
	for _, f := range fixtures {
		if err := s.waitActive(ctx, f.name); err != nil {
			return nil, err
		}
	}
	for _, test := range Cases() {
		c := &run{ctx: ctx, suite: s, key: test.Name}
		if err := c.attempt(test); err != nil {
			return nil, fmt.Errorf("%s: %w", test.Name, err)
		}
		results = append(results, Result{test, c.differences})
	}
	return results, nil
}

// run is one case while it runs.
type run struct {
	ctx         context.Context
	suite       *Suite
	key         string // of the case's items
	subject     string // the subject of the differences
	differences []string
}

// broken ends a case by panic, because the service gave no answer.
type broken struct{ err error }

// attempt runs a case until it ends, or until the service gives no answer.
func (c *run) attempt(test Case) (err error) {
	defer func() {
		if p := recover(); p != nil {
			end, ok := p.(broken)
			if !ok {
				panic(p)
			}
			err = end.err
		}
	}()
	test.run(c)
	return nil
}

// about sets the subject of the following differences, "" for none.
func (c *run) about(what string) { c.subject = what }

// long matches numbers that differ between runs.
var long = regexp.MustCompile(`[0-9]{12,}|[0-9]{10}\.[0-9]+`)

// differ records a difference, once.
func (c *run) differ(format string, args ...any) {
	what := long.ReplaceAllString(fmt.Sprintf(format, args...), "…")
	if c.subject != "" {
		what = c.subject + ": " + what
	}
	if !slices.Contains(c.differences, what) {
		c.differences = append(c.differences, what)
	}
}

// expand replaces words after $: $k is the key of the case's items, any other word a table. Answers
// are translated back, so that a value of one answer can be part of the next request.
func (c *run) expand(text string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if rest, ok := c.ownKey(after); ok {
			b.WriteString(c.key)
			text = rest
			continue
		}
		b.WriteString(c.suite.prefix)
		text = after
	}
}

// ownKey strips the k of $k from the text after a $.
func (c *run) ownKey(after string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(after, "k")
	return rest, ok && (rest == "" || rest[0] != '-' && (rest[0] < 'a' || rest[0] > 'z'))
}

// expandKey replaces $k and leaves table names.
func (c *run) expandKey(text string) string { return strings.ReplaceAll(text, `"$k"`, `"`+c.key+`"`) }

// call sends a request of the case, an object without its braces. It repeats throttled requests,
// because no case tests throttling.
func (c *run) call(operation, request string) answer {
	deadline := time.Now().Add(c.suite.endpoint.Patience)
	for {
		text, failed, err := c.suite.endpoint.post(c.ctx, operation, "{"+c.expand(request)+"}")
		var a answer
		if err == nil {
			a, err = parse(bytes.ReplaceAll(text, []byte(c.suite.prefix), []byte("$")), failed)
		}
		if err != nil {
			panic(broken{fmt.Errorf("%s: %w", operation, err)})
		}
		if !slices.Contains(throttled, a.code) || time.Now().After(deadline) {
			return a
		}
		if err := pause(c.ctx); err != nil {
			panic(broken{err})
		}
	}
}

// throttled lists the errors of requests that were sent too soon. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
var throttled = []string{"ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"}

// ok sends a request that must succeed.
func (c *run) ok(operation, request string) answer {
	a := c.call(operation, request)
	if a.code != "" {
		c.differ("%s fails: %s: %s", operation, a.code, a.message)
	}
	return a
}

// is sends a request whose answer must equal this document, without its braces.
func (c *run) is(operation, request, want string) { c.compare(operation, request, want, false) }

// has sends a request whose answer must have these members, and may have others.
func (c *run) has(operation, request, want string) { c.compare(operation, request, want, true) }

func (c *run) compare(operation, request, want string, partial bool) {
	if a := c.ok(operation, request); a.code == "" {
		if what := mismatch(c.wanted(want), a.document, partial); what != "" {
			c.differ("%s: %s", operation, what)
		}
	}
}

func (c *run) wanted(want string) any {
	document, err := decode([]byte("{" + c.expandKey(want) + "}"))
	if err != nil {
		panic(fmt.Sprintf("case %s wants what is no JSON: %v: %s", c.key, err, want))
	}
	return document
}

// fails sends a request that must fail with this code, and a message that contains each part.
func (c *run) fails(operation, request, code string, parts ...string) answer {
	a := c.call(operation, request)
	switch {
	case a.code == "":
		c.differ("%s succeeds, want %s", operation, code)
	case a.code != code:
		c.differ("%s fails with %s (%s), want %s", operation, a.code, a.message, code)
	}
	for _, part := range parts {
		if a.code == code && !strings.Contains(a.message, part) {
			c.differ("%s fails with the message %q, want %q", operation, a.message, part)
		}
	}
	return a
}

// eventually repeats a check until it passes or patience ends, and records the last difference.
func (c *run) eventually(look func() (difference string)) {
	deadline := time.Now().Add(c.suite.endpoint.Patience)
	for {
		what := look()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			c.differ("%s", what)
			return
		}
		if err := pause(c.ctx); err != nil {
			panic(broken{err})
		}
	}
}

// pause waits briefly between two checks.
func pause(ctx context.Context) error {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
