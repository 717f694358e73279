package standing

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Reason is why a state applies, in one word for programs; "" if the state needs no reason.
type Reason string

// Reasons that other packages set in a Doubt.
const (
	OtherCluster     Reason = "other_cluster"
	TargetLost       Reason = "target_lost"
	TargetUnreadable Reason = "target_unreadable"
)

// The other reasons. In addition, reasons of the state Cutover are the steps of a cutover, and
// reasons of NeedsLoad are the kinds of gaps.
const (
	watching         = Reason(checkpoint.CutoverWatching)
	finalized        = Reason("finalized")
	ledgerUnreadable = Reason("ledger_unreadable")
	clocksDiffer     = Reason("clocks_differ")
	byOperator       = Reason("operator")
	undeclared       = Reason("undeclared")
	leftRows         = Reason(checkpoint.KindSweep)
	rolledBack       = Reason(checkpoint.KindRolledBack)
	noWorker         = Reason("no_worker")
	workerSilent     = Reason("worker_silent")
	stepFails        = Reason("step_fails")
	notRead          = Reason("not_read")
	notListed        = Reason("not_listed")
	noChildren       = Reason("children_not_listed")
	suspended        = Reason("suspended")
	dropped          = Reason("dropped")
	streamEnded      = Reason("stream_ended")
	deadLetter       = Reason("dead_letter")
	notStarted       = Reason("not_started")
	notAsked         = Reason("not_asked")
	asked            = Reason("asked")
	exportRefused    = Reason("no_export")
	approval         = Reason("approval")
	lowHeadroom      = Reason(checkpoint.PausedForHeadroom)
	targetBusy       = Reason("target_busy")
	sharedTarget     = Reason("shared_target")
	fastLoad         = Reason(checkpoint.FastLoad)
	openFence        = Reason("fence")
	byVerify         = Reason("verify")
	bySample         = Reason("sample")
	newGeneration    = Reason("new_generation")
	lagging          = Reason("lag")
	unread           = Reason("unread")
	unapplied        = Reason("topic")
	beyondStream     = Reason("beyond_retention")
)

// Condition is a state that applies, with the reason and the time since which it applies.
type Condition struct {
	State   State
	Reason  Reason
	Since   time.Time // zero if unknown
	Detail  string    // a count, a name, or the words of an error; "" if there is none
	command string    // command that replaces the command in words; "" to use the command in words
}

// Text returns the condition in one sentence.
func (c Condition) Text() string { return Sentence(c.State, c.Reason, c.Detail) }

// Sentence describes a state with its reason in one sentence. The detail is as in Condition.
func Sentence(s State, r Reason, detail string) string {
	text := wordingOf(s, r).text
	if detail != "" {
		text += ": " + detail
	}
	return text
}

// Cause is like Sentence, but shorter. If the detail says what happens, it is the detail alone.
func Cause(s State, r Reason, detail string) string {
	if detail != "" && (r == stepFails || r == suspended) {
		return detail
	}
	return Sentence(s, r, detail)
}

// AwaitsApproval reports whether the table waits for an operator's approval.
func (c Condition) AwaitsApproval() bool { return c.State == Sweeping && c.Reason == approval }

// NextStep returns the command to run for a condition of the named table; false if the condition
// passes without a command. The argument `flags` is appended to the command, as in Command.
func (c Condition) NextStep(table, flags string) (NextStep, bool) {
	command := cmp.Or(c.command, wordingOf(c.State, c.Reason).command)
	if command == "" {
		return NextStep{}, false
	}
	return NextStep{Command(command, table, flags), c.Text()}, true
}

// wording describes a condition by a sentence and the command to run. The command lacks the word
// replicator, and has TABLE in place of the table's name. It is "" if the condition passes without
// a command.
type wording struct{ text, command string }

// wordingOf returns the wording of a state with a reason.
func wordingOf(s State, r Reason) wording {
	w, found := words[s][r]
	if !found {
		w = words[s][""]
	}
	return w
}

// Commands that several conditions use, or from which a condition chooses one.
const (
	look      = "status --shards --table TABLE"
	redo      = "backfill redo --table TABLE"
	repairGap = "backfill repair TABLE"
	list      = "verify --table TABLE"
	repair    = "verify --repair --dry-run --table TABLE"
	foreign   = "verify --repair --remove-foreign --dry-run --table TABLE"
)

// shareOrPart is the advice if another migration writes the target. It is not a command, because
// the configurations must be changed.
const shareOrPart = "another migration writes the target table (set target.shared: true in both, or change one target)"

// mayShow is what readers of the target see during a fast load.
const mayShow = "removed items and attributes may show until the sweep is done"

// Advised returns all commands of conditions, in the form that Command takes.
func Advised() []string {
	found := map[string]bool{redo: true, repairGap: true, list: true, foreign: true}
	for _, reasons := range words {
		for _, w := range reasons {
			found[w.command] = true
		}
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

// words holds the wordings of all states and reasons. The wording for reason "" applies to all
// reasons without their own wording.
var words = map[State]map[Reason]wording{
	Done: {
		"":        {"the application no longer uses the source", "finalize --dry-run"},
		finalized: {"the application no longer uses the source, and the target was finalized", ""},
	},
	Cutover: {
		"":                                   {"the application's writes are frozen", "cutover status"},
		Reason(checkpoint.CutoverSwitching):  {"the application is being switched", "cutover status"},
		Reason(checkpoint.CutoverCancelling): {"the attempt is being cancelled", "cutover status"},
		watching:                             {"the application has switched; replicator watches for late writers", "cutover status"},
	},
	Unknown: {
		"":               {"the target cannot be read", "plan"},
		TargetLost:       {"the target was lost or restored", "run"},
		OtherCluster:     {"the app profile routes to another cluster", "failover --dry-run"},
		ledgerUnreadable: {"the ledger cannot be read", "status"},
		clocksDiffer:     {"the clocks of a worker and of this machine differ", "status --shards"},
	},
	Paused: {"": {"an operator paused the table", "resume --table TABLE"}},
	NeedsLoad: {
		"":         {"changes or rows are missing", ""},
		undeclared: {"changes are missing, and no worker has declared the gap", "run"},
		rolledBack: {"the application was moved back to DynamoDB, so the rows need another load", ""},
		leftRows: {"a sweep left rows; verify names them by hash (with --show-values by key), " +
			"and verify --repair removes those of this migration", ""},
	},
	Stalled: {
		"":           {"the stream is not read", look},
		noWorker:     {"no worker reads the stream", "run"},
		workerSilent: {"the worker that holds the lease is silent", "run"},
		stepFails:    {"a step fails and is retried", look},
		notListed:    {"the stream has no complete listing yet", look},
		noChildren:   {"no listing shows the children of a shard that ended", look},
		suspended:    {"the table cannot be followed", look},
		dropped:      {"the table was dropped", ""},
		streamEnded:  {"the stream was disabled", look},
		deadLetter:   {"messages are in the dead-letter topic", "relay dead-letter list"},
	},
	Preparing: {
		"":         {"the stream is being listed", ""},
		notStarted: {"no worker has followed the table yet", "run"},
	},
	Copying: {
		"":            {"existing items are being copied", ""},
		notAsked:      {"existing items are not copied, and no load was requested", "backfill start --table TABLE"},
		asked:         {"the load is being planned", ""},
		byOperator:    {"an operator paused the load", "backfill resume --table TABLE"},
		lowHeadroom:   {"the load is paused, because the stream will soon drop unapplied changes", ""},
		targetBusy:    {"the load is paused, because the target is busy", ""},
		sharedTarget:  {"the load is refused, because " + shareOrPart, ""},
		exportRefused: {"the load waits for an export", "backfill status"},
		fastLoad:      {"a fast load copies the existing items; " + mayShow, ""},
	},
	Sweeping: {
		"":           {"rows that the copy did not write are compared with the source", ""},
		approval:     {"the sweep waits for approval", "backfill resume --table TABLE --yes"},
		byOperator:   {"an operator paused the sweep", "backfill resume --table TABLE"},
		lowHeadroom:  {"the sweep is paused, because the stream will soon drop unapplied changes", ""},
		targetBusy:   {"the sweep is paused, because the target is busy", ""},
		sharedTarget: {"the sweep is refused, because " + shareOrPart, ""},
		fastLoad:     {"the cells that a fast load left are removed from changed rows; " + mayShow, ""},
		openFence:    {"the sweep waits, because the fence does not reject late requests of the fast load; another load is guarded, and needs no fence", redo},
	},
	Parked: {"": {"items could not be stored", "parked list --table TABLE"}},
	Differs: {
		"":       {"the last verify found rows that differ", repair},
		bySample: {"a sample found rows that differ", repair},
	},
	CatchingUp: {
		"":            {"changes are not applied yet", ""},
		newGeneration: {"workers are starting a new generation", ""},
		unread:        {"a shard is not read yet", ""},
		unapplied:     {"published messages are not confirmed as applied", ""},
		beyondStream:  {"changes have waited longer than the stream keeps them", look},
	},
	InSync: {"": {"every change is applied", ""}},
}
