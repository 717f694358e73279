package standing

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Severity is how urgently a state needs an operator. The words are those of the alert rules.
type Severity string

const (
	SeverityPage    Severity = "page"    // an operator must act now, or changes may be lost
	SeverityWarning Severity = "warning" // an operator must act, but not immediately
	SeverityInfo    Severity = "info"    // no operator must act
)

// Severities lists all severities, the worst first.
var Severities = []Severity{SeverityPage, SeverityWarning, SeverityInfo}

// urgency is how urgent a state with a reason is, and the document that explains it.
type urgency struct {
	severity Severity
	page     string // path of the document, below the folder docs
}

// SeverityOf returns how urgently a state with a reason needs an operator.
func SeverityOf(s State, r Reason) Severity { return urgencyOf(s, r).severity }

// PageOf returns the path of the document that explains a state with a reason, below the folder
// docs.
func PageOf(s State, r Reason) string { return urgencyOf(s, r).page }

func urgencyOf(s State, r Reason) urgency {
	u, found := urgencies[s][r]
	if !found {
		u = urgencies[s][""]
	}
	return u
}

// The documents that explain several states.
const (
	pageLoads   = "how-to/loads.md"
	pageCutover = "how-to/cutover.md"
)

// urgencies holds the severity and the document of all states and reasons. The entry for reason ""
// applies to all reasons without their own entry. The severities agree with the alert rules in
// deploy/monitoring.
var urgencies = map[State]map[Reason]urgency{
	Done: {"": {SeverityInfo, pageCutover + "#afterwards"}},
	Cutover: {
		"":                                   {SeverityInfo, pageCutover},
		Reason(checkpoint.CutoverCancelling): {SeverityWarning, pageCutover},
		watching:                             {SeverityInfo, pageCutover + "#the-way-back"},
	},
	Unknown: {
		"":           {SeverityPage, "how-to/monitoring.md"},
		TargetLost:   {SeverityPage, "runbooks/target-restored.md"},
		OtherCluster: {SeverityPage, "how-to/failover.md"},
		clocksDiffer: {SeverityWarning, "how-to/monitoring.md"},
	},
	Paused:    {"": {SeverityWarning, "how-to/restart-and-upgrade.md"}},
	NeedsLoad: {"": {SeverityPage, "how-to/gap.md"}, rolledBack: {SeverityWarning, pageCutover + "#the-way-back"}},
	Stalled: {
		"":         {SeverityPage, "how-to/monitoring.md"},
		suspended:  {SeverityWarning, "how-to/table-patterns.md"},
		dropped:    {SeverityWarning, "how-to/table-patterns.md"},
		deadLetter: {SeverityPage, "how-to/publish-changes.md"},
	},
	Preparing: {"": {SeverityInfo, pageLoads}, notStarted: {SeverityInfo, "tutorials/first-table.md"}},
	Copying: {
		"":            {SeverityInfo, pageLoads},
		notAsked:      {SeverityWarning, pageLoads},
		byOperator:    {SeverityWarning, pageLoads + "#pause-and-resume-it"},
		lowHeadroom:   {SeverityWarning, pageLoads + "#slow-it"},
		sharedTarget:  {SeverityWarning, pageLoads},
		exportRefused: {SeverityWarning, pageLoads + "#request-an-export-and-copy-it"},
		fastLoad:      {SeverityInfo, "how-to/fast-loads.md"},
	},
	Sweeping: {
		"":           {SeverityInfo, pageLoads + "#the-sweep"},
		approval:     {SeverityWarning, pageLoads + "#the-sweep"},
		byOperator:   {SeverityWarning, pageLoads + "#pause-and-resume-it"},
		lowHeadroom:  {SeverityWarning, pageLoads + "#slow-it"},
		sharedTarget: {SeverityWarning, pageLoads + "#the-sweep"},
		fastLoad:     {SeverityInfo, "how-to/fast-loads.md"},
		openFence:    {SeverityWarning, "how-to/fast-loads.md"},
	},
	Parked:     {"": {SeverityWarning, "how-to/parked-items.md"}},
	Differs:    {"": {SeverityWarning, "how-to/verify.md#repair"}},
	CatchingUp: {"": {SeverityInfo, "how-to/monitoring.md"}, beyondStream: {SeverityPage, "how-to/gap.md"}},
	InSync:     {"": {SeverityInfo, "explanation/guarantees.md"}},
}

// Explained returns the paths of all documents that explain a state, in the form of PageOf.
func Explained() (pages []string) {
	for _, state := range States {
		for _, u := range urgencies[state] {
			pages = append(pages, u.page)
		}
	}
	slices.Sort(pages)
	return slices.Compact(pages)
}
