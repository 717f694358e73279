package sink

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Profile holds the known facts about an app profile.
type Profile struct {
	// Cluster is the cluster to which requests are routed; empty if unknown.
	Cluster string
	// Note explains why a fact is unknown, for the operator. It is empty if all facts are known.
	Note string
}

// ProfileProblem is a problem of an app profile.
type ProfileProblem uint8

// The problems.
const (
	MissingProfile ProfileProblem = iota + 1
	MultiCluster                  // requests may go to several clusters, so two conflicting requests may both pass the guard
	NoTransactions                // single-row transactions are off, so conditional writes are refused
)

var profileProblems = [...]string{"does not exist", "routes to more than one cluster", "does not allow single-row transactions"}

// ProfileError reports an app profile that cannot be used.
type ProfileError struct {
	Problem  ProfileProblem
	Instance string
	Profile  string
}

func (e *ProfileError) Error() string {
	return fmt.Sprintf("app profile %s of instance %s %s", e.Profile, e.Instance, profileProblems[e.Problem-1])
}

// Profile reads the app profile. It refuses an unsafe profile with *ProfileError. If the profile
// cannot be read, as on emulators or without the permission, the result has a note instead.
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
		return Profile{Note: "cannot check single-cluster routing and single-row transactions: the service does not answer (an emulator?)"}, nil
	case codes.PermissionDenied:
		return Profile{Note: "cannot check single-cluster routing and single-row transactions: permission bigtable.appProfiles.get is missing"}, nil
	default:
		return Profile{}, classifyControl("GetAppProfile", err)
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

// CreateProfile creates the missing app profile, with single-cluster routing and single-row
// transactions. It does not fail if another process has created the profile meanwhile. Profile
// checks the result.
func (a *Admin) CreateProfile(ctx context.Context, cluster string) error {
	_, err := a.instance.CreateAppProfile(ctx, bigtable.ProfileConf{
		ProfileID: a.in.AppProfile, InstanceID: a.in.Instance, Description: "replicator: single cluster, single-row transactions",
		RoutingConfig: &bigtable.SingleClusterRoutingConfig{ClusterID: cluster, AllowTransactionalWrites: true},
	})
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	return classifyControl("CreateAppProfile", err)
}

// Cluster is a cluster of the instance.
type Cluster struct {
	Name string
	Zone string // us-central1-b
	// Nodes is how many nodes serve now. MaxNodes is the maximum with autoscaling, otherwise 0.
	Nodes, MaxNodes int
	HDD             bool
}

// Clusters lists the clusters of the instance. If the clusters are unknown, as on emulators or
// without the permission, it returns a note instead.
func (a *Admin) Clusters(ctx context.Context) (clusters []Cluster, note string, err error) {
	infos, err := a.instance.Clusters(ctx, a.in.Instance)
	var partial bigtable.ErrPartiallyUnavailable
	switch code := status.Code(err); {
	case errors.As(err, &partial):
		return nil, "some clusters are unavailable at present", nil
	case code == codes.Unimplemented:
		return nil, "the service does not list its clusters (an emulator?)", nil
	case code == codes.PermissionDenied:
		return nil, "permission bigtable.clusters.list is missing", nil
	case err != nil:
		return nil, "", classifyControl("ListClusters", err)
	}
	for _, info := range infos {
		c := Cluster{Name: info.Name, Zone: info.Zone, Nodes: info.ServeNodes, HDD: info.StorageType == bigtable.HDD}
		if info.AutoscalingConfig != nil {
			c.MaxNodes = info.AutoscalingConfig.MaxNodes
		}
		clusters = append(clusters, c)
	}
	return clusters, "", nil
}

// Cluster returns the cluster to which the app profile routes; the zero Cluster if it is unknown.
func (a *Admin) Cluster(ctx context.Context) (Cluster, error) {
	profile, err := a.Profile(ctx)
	if err != nil {
		return Cluster{}, err
	}
	clusters, _, err := a.Clusters(ctx)
	for _, c := range clusters {
		if c.Name == profile.Cluster {
			return c, nil
		}
	}
	return Cluster{}, err
}

// Replicate waits until all writes to the table that precede the call are in every cluster of the
// instance, or until ctx ends.
func (a *Admin) Replicate(ctx context.Context, table string) error {
	return classifyControl("CheckConsistency", a.tables.WaitForReplication(ctx, table))
}

// Permissions returns which of the given permissions the identity has on the instance. It changes
// nothing and needs no permission itself. If the permissions are unknown, as on emulators, it
// returns a note instead.
func (a *Admin) Permissions(ctx context.Context, wanted []string) (has []string, note string, err error) {
	has, err = a.instance.InstanceIAM(a.in.Instance).TestPermissions(ctx, wanted)
	switch status.Code(err) {
	case codes.OK:
		return has, "", nil
	case codes.Unimplemented:
		return nil, "the service does not report permissions (an emulator?)", nil
	case codes.InvalidArgument: // a permission that does not apply to instances
		return nil, "the service does not report these permissions: " + status.Convert(err).Message(), nil
	default:
		return nil, "", classifyControl("TestIamPermissions", err)
	}
}
