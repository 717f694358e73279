// Package readiness judges the gates of a cutover and of a rollback.
package readiness

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Limits are the limits of the gates. Within these limits, the application may be frozen.
type Limits struct {
	LagBelow, LagHeldFor time.Duration
	VerifyWithin         time.Duration
	FinalWithin          time.Duration // the freeze's deadline, if workers make the final verify; 0 otherwise
	// Small is the number of items below which the driver itself compares a table; 0 means 20,000.
	Small         int64
	ParkedAtMost  int
	HeadroomAbove time.Duration
	// Lease is the duration of the workers' leases. A report that is older than three leases does
	// not count.
	Lease time.Duration
}

// The names of the gates.
const (
	GateCopy     = "copy"
	GateLag      = "lag"
	GateVerify   = "verify"
	GateFull     = "full_verify"
	GateParked   = "parked"
	GateHeadroom = "headroom"
	GateFence    = "fence"
)

// GateNames are the names of the gates of every cutover.
var GateNames = []string{GateCopy, GateLag, GateVerify, GateFull, GateParked, GateHeadroom, GateFence}

// Overridable are the gates that an operator may override. The other gates check that a table is
// copied and was compared completely. Otherwise the attempt would fail after the freeze.
var Overridable = []string{GateLag, GateVerify, GateParked, GateHeadroom, GateFence}

// GateFallback is the gate of a cutover with a way back. It cannot be overridden.
const GateFallback = "fallback"

// The names of the gates of a rollback.
const (
	GateFollowing = "following"
	GateCarried   = "carried"
	GateBehind    = "behind"
	GateLeader    = "leader"
)

// WayBackGates are the gates of a way back: of the cutover that has one, and of the rollback. Only
// GateCarried can be overridden.
var WayBackGates = []string{GateFallback, GateFollowing, GateCarried, GateBehind, GateLeader}

// Override notes the operator's reasons on the gates that may be overridden.
func Override(gates []checkpoint.CutoverGate, plan checkpoint.CutoverPlan) {
	for i := range gates {
		g := &gates[i]
		j := slices.IndexFunc(plan.Overrides, func(o checkpoint.CutoverOverride) bool { return o.Gate == g.Name })
		if !g.Ready && !g.Binding && j >= 0 {
			g.Overridden = plan.Overrides[j].Reason
		}
	}
}

// Open returns the gates that are neither ready nor overridden.
func Open(gates []checkpoint.CutoverGate) (open []checkpoint.CutoverGate) {
	for _, g := range gates {
		if !g.Ready && g.Overridden == "" {
			open = append(open, g)
		}
	}
	return open
}
