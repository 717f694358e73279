package transform

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ordinaryFamily returns the first family that takes any attribute, or a placeholder if there is
// none.
func (c *compiler) ordinaryFamily() string {
	for _, f := range c.spec.Families {
		if f.Aggregate == NoAggregate {
			return yamlName(f.Name)
		}
	}
	return "FAMILY"
}

// yamlPlain matches names that every version of YAML reads as text without quotes.
var yamlPlain = regexp.MustCompile(`^[A-Za-z_][-_.A-Za-z0-9]*$`)

// yamlName returns the name of a family as YAML writes it.
func yamlName(name string) string {
	switch strings.ToLower(name) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if yamlPlain.MatchString(name) {
			return name
		}
	}
	return strconv.Quote(name)
}

// undeclared returns the fix for a family that is used but not declared. The fix declares the
// family, or corrects its name to what the user probably meant.
func undeclared(family string, as Encoding, attr string) string {
	switch {
	case family == "*" && attr != "":
		return fmt.Sprintf(`did you mean "*": %s? Attributes go to a family, and "*" means all attributes`, yamlName(attr))
	case !familyName.MatchString(family):
		return "write the name of a family: at most 64 letters, digits, '-', '_' and '.'"
	case as == AsCounter:
		return fmt.Sprintf("add to families:\n  %s: never:intsum", yamlName(family))
	}
	return fmt.Sprintf("add to families:\n  %s: maxversions=1", yamlName(family))
}
