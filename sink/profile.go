package sink

import (
	"context"
	"fmt"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Profile is what is known of an app profile.
type Profile struct {
	// Cluster is the one cluster that requests are routed to; empty if it cannot be told.
	Cluster string
	// Note says why something cannot be told, for the operator; empty if all is known.
	Note string
}

// ProfileProblem is what is wrong with an app profile.
type ProfileProblem uint8

// The problems.
const (
	MissingProfile ProfileProblem = iota + 1
	MultiCluster                  // requests may go to several clusters, and two of them may both pass the guard
	NoTransactions                // single-row transactions are off: conditional writes are refused
)

var profileProblems = [...]string{"does not exist", "routes to more than one cluster", "does not allow single-row transactions"}

// ProfileError is an app profile that cannot be used.
type ProfileError struct {
	Problem  ProfileProblem
	Instance string
	Profile  string
}

func (e *ProfileError) Error() string {
	return fmt.Sprintf("app profile %s of instance %s %s", e.Profile, e.Instance, profileProblems[e.Problem-1])
}

// Profile looks at the app profile and refuses one that is not safe: *ProfileError. Where it cannot be told, as on emulators or
// without the permission to look, the answer has a note instead.
func (a *Admin) Profile(ctx context.Context) (Profile, error) {
	name := a.in.AppProfile
	if name == "" {
		name = "default"
	}
	p, err := a.instance.GetAppProfile(ctx, a.in.Instance, name)
	switch status.Code(err) {
	case codes.OK:
		return judgeProfile(p, a.in.Instance, name)
	case codes.NotFound:
		return Profile{}, &ProfileError{MissingProfile, a.in.Instance, name}
	case codes.Unimplemented:
		return Profile{Note: "cannot tell whether the app profile is single-cluster with single-row transactions: the service does not answer (an emulator?)"}, nil
	case codes.PermissionDenied:
		return Profile{Note: "cannot tell whether the app profile is single-cluster with single-row transactions: permission bigtable.appProfiles.get is missing"}, nil
	default:
		return Profile{}, classify("GetAppProfile", err)
	}
}

func judgeProfile(p *adminpb.AppProfile, instance, name string) (Profile, error) {
	single := p.GetSingleClusterRouting()
	switch {
	case single == nil:
		return Profile{}, &ProfileError{MultiCluster, instance, name}
	case !single.GetAllowTransactionalWrites():
		return Profile{}, &ProfileError{NoTransactions, instance, name}
	default:
		return Profile{Cluster: single.GetClusterId()}, nil
	}
}
