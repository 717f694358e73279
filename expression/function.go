package expression

import (
	"maps"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// functions are the functions of conditions, with the number of operands of each.
var functions = map[string]int{
	"attribute_exists": 1, "attribute_not_exists": 1, "attribute_type": 2, "begins_with": 2, "contains": 2, "size": 1,
}

// arguments reads the operands of the next function call and checks their number.
func (p *parser) arguments() (name token, args []operand, err error) {
	name = p.next()
	want, known := functions[name.text]
	if !known {
		return name, nil, p.fail(name, p.nearest(name.text), "Invalid function name; function: %s", name.text)
	}
	p.pos++ // the parenthesis that isCall saw
	if args, err = p.operands(); err != nil {
		return name, nil, err
	}
	if len(args) != want {
		return name, nil, p.fail(name, "", "Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name.text, len(args))
	}
	if want == 2 {
		err = p.distinct(name, name.text, args[0], args[1])
	}
	return name, args, err
}

// nearest suggests the function whose name is most similar to the given name.
func (p *parser) nearest(name string) string {
	if !p.literals {
		return ""
	}
	best, least := "", len(name)/2+1
	for _, known := range slices.Sorted(maps.Keys(functions)) {
		if d := distance(simplified(name), simplified(known)); d < least {
			best, least = known, d
		}
	}
	if best == "" {
		return "the functions are attribute_exists, attribute_not_exists, attribute_type, begins_with, contains and size"
	}
	return "did you mean " + best + "?"
}

// size reads size(operand), the only function that is an operand.
func (p *parser) size() (operand, error) {
	if name := p.peek(); name.text != "size" {
		if _, known := functions[name.text]; !known {
			return operand{}, p.fail(name, p.nearest(name.text), "Invalid function name; function: %s", name.text)
		}
		return operand{}, p.fail(name, "", "The function is not allowed to be used this way in an expression; function: %s", name.text)
	}
	name, args, err := p.arguments()
	if err != nil {
		return operand{}, err
	}
	o := args[0]
	if o.size {
		return operand{}, p.fail(name, "", "Incorrect operand type for operator or function; operator or function: size, operand type: N")
	}
	if err := p.checkKind(name, "size", o, attribute.KindS, attribute.KindB, attribute.KindSS, attribute.KindNS, attribute.KindBS, attribute.KindL, attribute.KindM); err != nil {
		return operand{}, err
	}
	o.size = true
	return o, nil
}

// function reads a call of a function that is a condition by itself.
func (p *parser) function() (predicate, error) {
	name, args, err := p.arguments()
	if err != nil {
		return nil, err
	}
	var call predicate
	switch name.text {
	case "attribute_exists", "attribute_not_exists":
		call, err = &exists{args[0].path, name.text == "attribute_exists"}, p.wantPath(name, args[0])
	case "attribute_type":
		call, err = p.typeFunction(name, args)
	case "contains":
		call = &contains{args[0], args[1]}
	default:
		for _, o := range args {
			if err := p.checkKind(name, name.text, o, attribute.KindS, attribute.KindB); err != nil {
				return nil, err
			}
		}
		call = &beginsWith{args[0], args[1]}
	}
	if err != nil {
		return nil, err
	}
	if _, ok := comparator(p.peek()); ok || keyword(p.peek(), "BETWEEN") || keyword(p.peek(), "IN") {
		return nil, p.fail(name, "it is true or false by itself; put NOT before it to invert it", "The function is not allowed to be used this way in an expression; function: %s", name.text)
	}
	return call, nil
}

// wantPath rejects an operand of a function that is not a path.
func (p *parser) wantPath(name token, o operand) error {
	if o.isPath() {
		return nil
	}
	return p.fail(name, "", "Operator or function requires a document path; operator or function: %s", name.text)
}

// typeFunction makes an attribute_type predicate. Its first operand may also be a value, although
// the documentation says otherwise.
func (p *parser) typeFunction(name token, args []operand) (predicate, error) {
	if args[0].size {
		return nil, p.wantPath(name, args[0])
	}
	wanted := args[1]
	if wanted.isPath() {
		return nil, p.fail(name, `write the type in quotes, such as "S"`, "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
	}
	if err := p.checkKind(name, name.text, wanted, attribute.KindS); err != nil {
		return nil, err
	}
	for kind := attribute.KindS; kind <= attribute.KindBS; kind++ {
		if kind.String() == wanted.literal.Text() {
			return &hasType{args[0], kind}, nil
		}
	}
	return nil, p.fail(name, "the types are S, N, B, BOOL, NULL, M, L, SS, NS and BS", "Invalid attribute type name found; valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}")
}
