package expression

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

const updateKind = "UpdateExpression"

// Update is a parsed UpdateExpression.
type Update struct {
	sets    []setAction
	removes []path
	adds    []memberAction
	deletes []memberAction
}

type setAction struct {
	path  path
	value term
}

// memberAction is an ADD or DELETE: a path and a literal number or set.
type memberAction struct {
	path  path
	value attribute.Value
}

// ParseUpdate parses an UpdateExpression.
func ParseUpdate(text string, b *Bindings) (*Update, error) {
	p, err := newParser(updateKind, text, b)
	if err != nil {
		return nil, err
	}
	u := &Update{}
	seen := map[string]bool{}
	for p.peek().kind != tokenEnd {
		t := p.next()
		section := strings.ToUpper(t.text)
		if t.kind == tokenWord && seen[section] {
			return nil, failure(updateKind, "The %q section can only be used once in an update expression;", section)
		}
		seen[section] = true
		var clause func() error
		switch {
		case t.kind != tokenWord:
		case section == "SET":
			clause = func() error { return p.setClause(u) }
		case section == "REMOVE":
			clause = func() error { return p.removeClause(u) }
		case section == "ADD":
			clause = func() error {
				return p.memberClause("ADD", &u.adds, attribute.KindN, attribute.KindSS, attribute.KindNS, attribute.KindBS)
			}
		case section == "DELETE":
			clause = func() error {
				return p.memberClause("DELETE", &u.deletes, attribute.KindSS, attribute.KindNS, attribute.KindBS)
			}
		}
		if clause == nil {
			p.pos--
			return nil, p.syntax()
		}
		if err := clause(); err != nil {
			return nil, err
		}
		for p.op(",") {
			if err := clause(); err != nil {
				return nil, err
			}
		}
	}
	return u, checkPaths(updateKind, u.paths())
}

// paths returns the places that the update writes, in the order of its clauses.
func (u *Update) paths() []path {
	var paths []path
	for _, a := range u.sets {
		paths = append(paths, a.path)
	}
	paths = append(paths, u.removes...)
	for _, a := range u.adds {
		paths = append(paths, a.path)
	}
	for _, a := range u.deletes {
		paths = append(paths, a.path)
	}
	return paths
}

// Attributes returns the names of the top-level attributes that the update writes to.
func (u *Update) Attributes() []string {
	var names []string
	for _, p := range u.paths() {
		names = append(names, p[0].name)
	}
	return names
}

// Creates reports whether the update creates a missing item. An update that only removes attributes
// does not.
func (u *Update) Creates() bool {
	return len(u.sets) > 0 || len(u.adds) > 0 || len(u.removes) == 0 && len(u.deletes) == 0
}

func (p *parser) setClause(u *Update) error {
	target, err := p.path()
	if err != nil {
		return err
	}
	if err := p.want("="); err != nil {
		return err
	}
	value, err := p.sum()
	if err != nil {
		return err
	}
	u.sets = append(u.sets, setAction{target, value})
	return nil
}

// sum reads operand [(+|-) operand].
func (p *parser) sum() (term, error) {
	left, err := p.primary(p.sum)
	if err != nil {
		return nil, err
	}
	operator, apply := "+", add
	switch {
	case p.op("+"):
	case p.op("-"):
		operator, apply = "-", subtract
	default:
		return left, nil
	}
	right, err := p.primary(p.sum)
	if err != nil {
		return nil, err
	}
	for _, o := range []term{left, right} {
		if err := p.checkTerm(operator, o, attribute.KindN); err != nil {
			return nil, err
		}
	}
	return binary{left, right, arithmetic(apply)}, nil
}

// argument reads an operand of a function, which cannot be a sum or a list_append.
func (p *parser) argument() (term, error) {
	if p.isCall() && p.peek().text == "list_append" {
		return nil, failure(p.kind, "The function is not allowed to be used this way in an expression; function: list_append")
	}
	return p.primary(p.argument)
}

// primary reads a value, a path or a function call. In parentheses it reads a term with the
// function inside.
func (p *parser) primary(inside func() (term, error)) (term, error) {
	if p.op("(") {
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer p.leave()
		inner, err := inside()
		if err != nil {
			return nil, err
		}
		return inner, p.want(")")
	}
	if p.isCall() {
		return p.updateFunction()
	}
	if p.peek().kind == tokenValue {
		v, err := p.value()
		return literal(v), err
	}
	return p.path()
}

func (p *parser) updateFunction() (term, error) {
	name := p.next().text
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	p.pos++ // the parenthesis that isCall saw
	switch name {
	case "if_not_exists":
		target, err := p.path()
		if err != nil {
			return nil, err
		}
		if err := p.want(","); err != nil {
			return nil, err
		}
		fallback, err := p.argument()
		if err != nil {
			return nil, err
		}
		return ifNotExists{target, fallback}, p.want(")")
	case "list_append":
		left, err := p.argument()
		if err != nil {
			return nil, err
		}
		if err := p.want(","); err != nil {
			return nil, err
		}
		right, err := p.argument()
		if err != nil {
			return nil, err
		}
		for _, o := range []term{left, right} {
			if err := p.checkTerm(name, o, attribute.KindL); err != nil {
				return nil, err
			}
		}
		return binary{left, right, listAppend}, p.want(")")
	}
	return nil, failure(p.kind, "Invalid function name; function: %s", name)
}

func (p *parser) removeClause(u *Update) error {
	target, err := p.path()
	u.removes = append(u.removes, target)
	return err
}

func (p *parser) memberClause(operator string, actions *[]memberAction, kinds ...attribute.Kind) error {
	target, err := p.path()
	if err != nil {
		return err
	}
	v, err := p.value()
	if err != nil {
		return err
	}
	if err := p.checkTerm(operator, literal(v), kinds...); err != nil {
		return err
	}
	*actions = append(*actions, memberAction{target, v})
	return nil
}
