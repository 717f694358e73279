package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Judge compares results with the verdicts. It returns differences without a verdict, and verdicts
// without a difference. Service is Embedded or OtherProject.
func Judge(service string, results []Result) (problems, outdated []string) {
	open := map[string]bool{}
	for name := range verdicts[service] {
		open[name] = true
	}
	for _, r := range results {
		if len(r.Differences) == 0 {
			continue
		}
		if !open[r.Name] {
			problems = append(problems, fmt.Sprintf("%s, %s (%s):\n    %s", service, r.Name, r.page(), strings.Join(r.Differences, "\n    ")))
		}
		delete(open, r.Name)
	}
	for name := range open {
		outdated = append(outdated, fmt.Sprintf("%s, %s: nothing differs any more; remove the verdict", service, name))
	}
	slices.Sort(outdated)
	return problems, outdated
}

// page returns the address of the documentation.
func (c Case) page() string {
	guide := "developerguide"
	if strings.HasPrefix(c.Source, "API_") {
		guide = "APIReference"
	}
	return "https://docs.aws.amazon.com/amazondynamodb/latest/" + guide + "/" + c.Source + ".html"
}

// Differing counts the results that differ from their cases.
func Differing(results []Result) (n int) {
	for _, r := range results {
		n += min(1, len(r.Differences))
	}
	return n
}

// Outcome is the outcome of one service.
type Outcome struct {
	// Service is Embedded or OtherProject. Version describes it in a few words.
	Service, Version string
	Results          []Result
}

// Report returns the document to store: the differences with their verdicts, then every case.
func Report(outcomes []Outcome) string {
	var b strings.Builder
	b.WriteString(preamble)
	for _, o := range outcomes {
		differ := Differing(o.Results)
		fmt.Fprintf(&b, "- **%s** (%s): %d of %d cases behave as documented, %d differ.\n", o.Service, o.Version, len(o.Results)-differ, len(o.Results), differ)
	}
	b.WriteString("\n## Differences\n")
	for i, c := range Cases() {
		differ := false
		for _, o := range outcomes {
			if len(o.Results[i].Differences) == 0 {
				continue
			}
			if !differ {
				fmt.Fprintf(&b, "\n### %s\n\nDocumented in [%s](%s).\n", c.Name, c.Source, c.page())
				differ = true
			}
			writeDifference(&b, o.Service, o.Results[i])
		}
	}
	b.WriteString("\n## Cases\n\n")
	subject := ""
	for i, c := range Cases() {
		kind, name, _ := strings.Cut(c.Name, "/")
		if kind != subject {
			fmt.Fprintf(&b, "\n### %s\n\n", kind)
			subject = kind
		}
		var otherwise []string
		for _, o := range outcomes {
			if len(o.Results[i].Differences) > 0 {
				otherwise = append(otherwise, o.Service)
			}
		}
		note := ""
		if len(otherwise) > 0 {
			note = "; differs: " + strings.Join(otherwise, ", ")
		}
		fmt.Fprintf(&b, "- %s ([%s](%s))%s\n", name, c.Source, c.page(), note)
	}
	return b.String()
}

// writeDifference writes a service's answer and which side is right.
func writeDifference(b *strings.Builder, service string, r Result) {
	const most = 4
	fmt.Fprintf(b, "\n%s:\n\n", service)
	for _, d := range r.Differences[:min(most, len(r.Differences))] {
		fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(d, "\n", " "))
	}
	if n := len(r.Differences) - most; n > 0 {
		fmt.Fprintf(b, "    … and %d more\n", n)
	}
	if v, judged := verdicts[service][r.Name]; judged {
		fmt.Fprintf(b, "\nCorrect: %s. %s\n", v.right, v.why)
	}
}

const preamble = `# Conformance

AWS's documentation of DynamoDB and DynamoDB Streams, as test cases for any server of the services' protocol
(` + "`test/conformance`" + `). ` + "`make conformance`" + ` runs them against the embedded DynamoDB (` + "`dynamodbtest`" + `) and against
[dynoxide](https://crates.io/crates/dynoxide-rs), an independent implementation, and fails if this file no longer
matches their answers; ` + "`make conformance WRITE=1`" + ` updates it. The documentation does not contain the texts of errors.
The cases compare only a characteristic part of the texts that AWS is known to return. They have not been run against
AWS itself here; CONTRIBUTING.md says how to do this.

In the answers, $ is the prefix of the run's table names, and … is a number that differs in each run.

`
