package desk

import "github.com/dynamodb-bigtable/replicator/internal/diag"

// Needs lists the requirements of a command for the migration that it opens.
type Needs struct {
	// Does describes the command's effect. %s is replaced by the name of a table or of the
	// migration. A refusal of the command begins with this text.
	Does string
	// Role is the prefix of the id under which the command writes to the ledger.
	Role string
	// Begun is the code of the error that is returned if the migration has not started. It is ""
	// for a command that may run before.
	Begun string
	// Hint is the fix that is shown if the migration has not started. If it is "", the fix is to
	// start a worker. The flags that name the configuration are appended.
	Hint string
	// Write marks a command that changes data, so a flag must allow the use of an emulator.
	Write bool
	// Cluster requires that the app profile routes to the cluster that the ledger records.
	Cluster bool
	// Cutover is the last stage of a cutover in which the command is allowed.
	Cutover Stage
	// Mapping requires that the existing rows were written with the mapping of this configuration.
	Mapping bool
	// Names makes the command show the names of source and target on stderr. Without Names, only
	// the name of an emulator is shown.
	Names bool
	// Source requires that the source describes every table, and that each is the table that the
	// ledger follows.
	Source bool
	// AnyStream also accepts a table that was recreated, or that has another stream. AnyRegion also
	// accepts a table in another region or account, and leaves out tables of patterns that are missing
	// there.
	AnyStream, AnyRegion bool
}

// Stage limits a command to the time before a stage of a cutover.
type Stage uint8

// The stages. After the freeze, writes are frozen and the tables are compared. After the switch,
// the target belongs to the application.
const (
	Whenever     Stage = iota
	BeforeSwitch       // refused after the switch
	BeforeFreeze       // refused while writes are frozen, and after the switch
	Unrequested        // refused while a cutover is running, and after the switch
)

// commands are all commands that open a migration, with their requirements.
var commands = map[string]Needs{
	// A problem of the cluster or the mapping is part of the status, so it is no reason to refuse.
	"status": {Role: "operator"},
	// In another cluster or with another mapping, correct rows would look wrong.
	"explain": {Does: "explain an item of %s", Role: "explain", Cluster: true, Mapping: true, Names: true, Cutover: BeforeSwitch},

	"backfill status": {Role: "operator"},
	"backfill start":  load("start the load of %s"),
	"backfill repair": load("repair %s"),
	"backfill pause":  load("pause the load of %s"),
	"backfill resume": load("resume the load of %s"),
	"backfill redo":   load("redo the load of %s"),
	"backfill cancel": load("cancel the load of %s"),
	// A process that copies parts of a load, and that is not a worker.
	"lend":     {Does: "copy parts of the load of %s", Role: "lend", Begun: diag.LoadRefused, Write: true, Cluster: true, Cutover: BeforeFreeze, Mapping: true, Source: true, Names: true},
	"throttle": {Does: "change the limits of %s", Role: "operator", Begun: diag.LoadRefused, Write: true, Cluster: true, Cutover: BeforeSwitch},
	"pause":    {Does: "pause %s", Role: "operator", Begun: diag.LoadRefused, Write: true, Cluster: true, Cutover: Unrequested},
	"resume":   {Does: "resume %s", Role: "operator", Begun: diag.LoadRefused, Write: true, Cluster: true, Cutover: BeforeSwitch},
	// A failover needs no check of the cluster: the new cluster must differ from the ledger's.
	"failover": {Does: "fail over %s", Role: "failover", Begun: diag.FailoverRefused, Write: true,
		Hint: "if its ledger is in another cluster and was never replicated here, begin again: replicator run"},
	"failover --source-region": {Does: "move the source of %s to another region", Role: "failover", Begun: diag.FailoverRefused, Write: true, Cluster: true, Source: true,
		AnyRegion: true, Names: true},

	"verify status": {Does: "verify %s", Role: "verify"},
	"verify":        compare(BeforeSwitch),
	// A repair writes rows, which belong to the application after the switch.
	"verify --repair": compare(BeforeFreeze),
	// After the switch the target decides, and the source follows it.
	"verify --reverse": {Does: "compare the items of %s with their rows", Role: "verify", Begun: diag.VerifyRefused, Write: true, Cluster: true, Mapping: true},
	// The final verify of a cutover cannot be paused or cancelled. Only the cutover itself can be
	// cancelled.
	"verify pause":  {Does: "pause the verify of %s", Role: "verify", Begun: diag.VerifyRefused, Write: true, Cluster: true, Cutover: BeforeFreeze},
	"verify cancel": {Does: "cancel the verify of %s", Role: "verify", Begun: diag.VerifyRefused, Write: true, Cluster: true, Cutover: BeforeFreeze},
	"verify resume": {Does: "resume the verify of %s", Role: "verify", Begun: diag.VerifyRefused, Write: true, Cluster: true, Cutover: BeforeSwitch},

	"parked list":  {Role: "parked"},
	"parked show":  {Role: "parked"},
	"parked retry": {Does: "retry parked items of %s", Role: "parked", Write: true, Cluster: true, Cutover: BeforeFreeze},
	// Parked items must stay until the freeze ends, because the evidence of the cutover lists them.
	"parked drop": {Does: "drop parked items of %s", Role: "parked", Write: true, Cluster: true, Cutover: BeforeFreeze},

	"relay dead-letter list": {Role: "operator"},
	"relay dead-letter drop": {Does: "drop dead-letter messages of %s", Role: "operator", Write: true, Cluster: true},

	"cutover check":        {Does: "check the cutover of %s", Role: "cutover", Begun: diag.CutoverRefused, Cluster: true, Mapping: true, Source: true},
	"cutover start":        {Does: "start the cutover of %s", Role: "cutover", Begun: diag.CutoverRefused, Write: true, Cluster: true, Mapping: true, Source: true},
	"cutover approve":      steer("approve the cutover of %s"),
	"cutover postpone":     steer("postpone the cutover of %s"),
	"cutover cancel":       steer("cancel the cutover of %s"),
	"cutover resolve":      steer("resolve the cutover of %s"),
	"cutover rollback":     steer("roll back the cutover of %s"),
	"cutover end-fallback": steer("end the way back of %s"),
	"cutover status":       {Does: "show the cutover of %s", Role: "cutover", Cluster: true},
	"cutover evidence":     {Does: "write the evidence of %s", Role: "cutover", Begun: diag.CutoverRefused, Cluster: true},
	"finalize":             {Does: "finalize %s", Role: "cutover", Begun: diag.CutoverRefused, Write: true, Cluster: true},
}

// load returns the requirements of a command that starts or controls loads.
func load(does string) Needs {
	return Needs{Does: does, Role: "operator", Begun: diag.LoadRefused, Write: true, Cluster: true, Cutover: BeforeFreeze}
}

// compare returns the requirements of a command that begins a verify.
func compare(until Stage) Needs {
	return Needs{Does: "verify %s", Role: "verify", Begun: diag.VerifyRefused, Write: true, Cluster: true, Cutover: until, Mapping: true, Source: true}
}

// steer returns the requirements of a command for a running cutover. The application's writes may
// be frozen, so the command must not fail for an avoidable reason. It works with any mapping and
// without the source, and needs only the ledger.
func steer(does string) Needs {
	return Needs{Does: does, Role: "cutover", Begun: diag.CutoverRefused, Write: true, Cluster: true}
}
