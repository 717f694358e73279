package config

import (
	"regexp"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

// Lookup finds an environment variable, as os.LookupEnv does.
type Lookup = environment.Lookup

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces these forms in the text of one value:
//
//	${NAME}           the variable, which must be set; it may be empty
//	${NAME:-default}  the variable, or the default if it is not set or empty
//	${NAME:?message}  the variable, or an error with the message if it is not set or empty
//	$$                one dollar sign, also inside a default or a message
//
// A dollar sign before any other character is an ordinary character. The YAML is parsed before the
// expansion, so the text of a variable always stays within one value. It cannot add keys, end a
// quote or start a comment. The value of a variable is not expanded again.
func expand(s string, env Lookup) (string, *fault) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			s = after[1:]
		case strings.HasPrefix(after, "{"):
			expression, rest, closed := strings.Cut(after[1:], "}")
			if !closed {
				return "", malformed(after[1:], "the closing } is missing")
			}
			value, err := variable(expression, env)
			if err != nil {
				return "", err
			}
			out.WriteString(value)
			s = rest
		default:
			out.WriteByte('$')
			s = after
		}
	}
}

// variable returns the text for the expression between ${ and }.
func variable(expression string, env Lookup) (string, *fault) {
	name, argument, hasArgument := strings.Cut(expression, ":")
	if !variableName.MatchString(name) {
		return "", malformed(expression, "a variable's name has letters, digits and _ only, and does not begin with a digit")
	}
	if strings.Contains(argument, "${") {
		return "", malformed(expression, "expressions cannot be nested")
	}
	value, set := env(name)
	if !hasArgument {
		if !set {
			return "", &fault{diag.VariableUnset, "environment variable " + name + " is not set",
				"${" + name + "} has no default", "set " + name + ", or write ${" + name + ":-default}"}
		}
		return value, nil
	}
	if argument == "" || argument[0] != '-' && argument[0] != '?' {
		return "", malformed(expression, "-default or ?message must follow the colon")
	}
	if value != "" {
		return value, nil
	}
	word := strings.ReplaceAll(argument[1:], "$$", "$")
	if argument[0] == '-' {
		return word, nil
	}
	state := "not set"
	if set {
		state = "empty"
	}
	if word == "" {
		word = "${" + name + ":?} needs a value"
	}
	return "", &fault{diag.VariableUnset, "environment variable " + name + " is " + state, word, "set " + name}
}

func malformed(expression, cause string) *fault {
	return &fault{diag.BadExpansion, "malformed expression " + diag.Shortened("${"+expression), cause, ""}
}
