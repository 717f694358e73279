package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/iam/apiv1/iampb"
	longrunning "cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cloud serves what Cloud Bigtable has and bttest lacks: clusters, app profiles, permissions and
// authorized views. Until a script uses it, bttest answers unchanged.
type cloud struct {
	mu       sync.Mutex
	on       bool
	empty    bool // the instance has no table yet
	clusters []string
	denied   []string
	profiles map[string]*adminpb.AppProfile
	views    map[string]*adminpb.AuthorizedView
	splits   map[string][]string // of created tables
}

// withCloud is `cloud`. With a first word it is one of: empty, clusters NAME…, deny PERMISSION…,
// profile NAME, view TABLE VIEW FAMILY, tables, splits TABLE.
func withCloud(ts *testscript.TestScript, _ bool, args []string) {
	c := servicesOf(ts).cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.on {
		c.on, c.clusters = true, []string{"c1"}
		c.profiles, c.views, c.splits = map[string]*adminpb.AppProfile{}, map[string]*adminpb.AuthorizedView{}, map[string][]string{}
	}
	if len(args) == 0 {
		return
	}
	switch args[0] {
	case "empty": // a new instance, which a ping does not find until it has a table
		c.empty = true
	case "clusters":
		c.clusters = args[1:]
	case "deny":
		c.denied = args[1:]
	case "profile": // a valid one of this name
		c.profiles["projects/p/instances/i/appProfiles/"+args[1]] = &adminpb.AppProfile{RoutingPolicy: &adminpb.AppProfile_SingleClusterRouting_{
			SingleClusterRouting: &adminpb.AppProfile_SingleClusterRouting{ClusterId: c.clusters[0], AllowTransactionalWrites: true}}}
	case "view": // of a table, with a family
		c.views["projects/p/instances/i/tables/"+args[1]+"/authorizedViews/"+args[2]] = &adminpb.AuthorizedView{AuthorizedView: &adminpb.AuthorizedView_SubsetView_{
			SubsetView: &adminpb.AuthorizedView_SubsetView{FamilySubsets: map[string]*adminpb.AuthorizedView_FamilySubsets{args[3]: {}}}}}
	case "tables": // created tables, to stdout
		_, err := fmt.Fprintln(ts.Stdout(), "tables:", slices.Sorted(maps.Keys(c.splits)))
		ts.Check(err)
	case "splits": // of a table, to stdout
		_, err := ts.Stdout().Write([]byte(strings.Join(c.splits[args[1]], "\n") + "\n"))
		ts.Check(err)
	default:
		ts.Fatalf("cloud cannot %s", args[0])
	}
}

func (c *cloud) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c.mu.Lock()
	answer, err, known := c.answer(req)
	c.mu.Unlock()
	if !known {
		return handler(ctx, req)
	}
	return answer, err
}

func (c *cloud) answer(req any) (answer any, err error, known bool) {
	if !c.on {
		return nil, nil, false
	}
	absent := status.Error(codes.NotFound, "not found")
	switch r := req.(type) {
	case *bigtablepb.PingAndWarmRequest:
		return nil, status.Error(codes.NotFound, "No tables found for instance "+r.Name), c.empty
	case *iampb.TestIamPermissionsRequest:
		has := slices.DeleteFunc(slices.Clone(r.Permissions), func(p string) bool { return slices.Contains(c.denied, p) })
		return &iampb.TestIamPermissionsResponse{Permissions: has}, nil, true
	case *adminpb.ListClustersRequest:
		out := &adminpb.ListClustersResponse{}
		for _, name := range c.clusters {
			out.Clusters = append(out.Clusters, &adminpb.Cluster{Name: r.Parent + "/clusters/" + name, Location: "projects/p/locations/us-central1-b",
				ServeNodes: 3, DefaultStorageType: adminpb.StorageType_SSD})
		}
		return out, nil, true
	case *adminpb.GetAppProfileRequest:
		if p := c.profiles[r.Name]; p != nil {
			return p, nil, true
		}
		return nil, absent, true
	case *adminpb.CreateAppProfileRequest:
		c.profiles[r.Parent+"/appProfiles/"+r.AppProfileId] = r.AppProfile
		return r.AppProfile, nil, true
	case *adminpb.GetAuthorizedViewRequest:
		if v := c.views[r.Name]; v != nil {
			return v, nil, true
		}
		return nil, absent, true
	case *adminpb.CreateAuthorizedViewRequest:
		c.views[r.Parent+"/authorizedViews/"+r.AuthorizedViewId] = r.AuthorizedView
		return &longrunning.Operation{Done: true}, nil, true
	case *adminpb.CreateTableRequest:
		c.empty = false
		c.splits[r.TableId] = []string{}
		for _, s := range r.InitialSplits {
			c.splits[r.TableId] = append(c.splits[r.TableId], string(s.Key))
		}
	}
	return nil, nil, false
}
