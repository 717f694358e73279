package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/dynamodb-bigtable/replicator"

// embedded lists packages that only call services within the same process: the demo runs its own
// DynamoDB and Bigtable.
var embedded = []string{module + "/internal/demo", module + "/dynamodbtest", module + "/bigtabletest"}

// libraries are packages for applications. The program uses of them no request: internal/fallback
// converts items as dualwrite does.
var libraries = []string{module + "/dualwrite"}

// bigtableCalls lists the methods of Bigtable's clients that the code may call, with the requests
// that they send.
var bigtableCalls = map[string][]string{
	"Client.Open": nil, "Client.Close": nil, "AdminClient.Close": nil, "InstanceAdminClient.Close": nil,
	"Client.PingAndWarm": {"PingAndWarm"},
	// Only conditional mutations are applied, as tests of the architecture and of sink check (H50).
	"Table.Apply":                              {"CheckAndMutateRow"},
	"Table.ReadRow":                            {"ReadRows"},
	"Table.SampleRowKeys":                      {"SampleRowKeys"},
	"Table.ReadRows":                           {"ReadRows"},
	"AdminClient.TableInfo":                    {"GetTable"},
	"AdminClient.CreateTableFromConf":          {"CreateTable"},
	"AdminClient.UpdateTableWithChangeStream":  {"UpdateTable"},
	"AdminClient.CreateColumnFamilyWithConfig": {"ModifyColumnFamilies"},
	"AdminClient.DeleteColumnFamily":           {"ModifyColumnFamilies"},
	"AdminClient.WaitForReplication":           {"GenerateConsistencyToken", "CheckConsistency"},
	"AdminClient.AuthorizedViewInfo":           {"GetAuthorizedView"},
	"AdminClient.CreateAuthorizedView":         {"CreateAuthorizedView"},
	"AdminClient.DeleteAuthorizedView":         {"DeleteAuthorizedView"},
	"InstanceAdminClient.GetAppProfile":        {"GetAppProfile"},
	"InstanceAdminClient.CreateAppProfile":     {"CreateAppProfile"},
	"InstanceAdminClient.Clusters":             {"ListClusters"},
	"InstanceAdminClient.InstanceIAM":          nil, // a handle; its calls follow
	"Handle.TestPermissions":                   {"TestIamPermissions"},
}

// pubsubCalls is the same for Pub/Sub.
var pubsubCalls = map[string][]string{
	"Client.Close": nil, "Client.Publisher": nil, "Publisher.ResumePublish": nil, "Publisher.Stop": nil,
	"Publisher.Publish":                       {"Publish"},
	"TopicAdminClient.GetTopic":               {"GetTopic"},
	"SubscriptionAdminClient.GetSubscription": {"GetSubscription"}, "SubscriptionAdminClient.Pull": {"Pull"},
	"SubscriptionAdminClient.Acknowledge": {"Acknowledge"}, "SubscriptionAdminClient.ModifyAckDeadline": {"ModifyAckDeadline"},
}

// TestEveryCallHasItsOperation walks the program's packages and finds every call of a vendor's
// client. The possible requests must equal Operations.
func TestEveryCallHasItsOperation(t *testing.T) {
	w := &walker{t: t, set: token.NewFileSet(), found: map[string]bool{}, clients: map[string]bool{}}
	for _, p := range w.list() {
		w.check(p)
	}
	want := map[string]bool{}
	for _, o := range Operations() {
		if o.Service != "kms" { // the services send these
			want[o.Service+"."+o.Name] = true
		}
	}
	if diff := cmp.Diff(want, w.found); diff != "" {
		t.Errorf("operations of this package (-) and calls of the code (+):\n%s", diff)
	}
	for _, client := range []string{"dynamodb", "dynamodbstreams", "sts", "bigtable", "pubsub", "storage", "monitoring"} {
		if !w.clients[client] {
			t.Errorf("no use of the %s client was found: does the walk still work?", client)
		}
	}
}

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Path string }
}

type walker struct {
	t       *testing.T
	set     *token.FileSet
	exports map[string]string
	found   map[string]bool // service.Operation
	clients map[string]bool // clients in use
}

// list returns our own packages in the program, and remembers the export data of all.
func (w *walker) list() []listed {
	c := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", module+"/cmd/replicator")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		w.t.Fatalf("go list: %v", err)
	}
	w.exports = map[string]string{}
	var ours []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return ours
		} else if err != nil {
			w.t.Fatal(err)
		}
		w.exports[p.ImportPath] = p.Export
		inside := func(root string) bool { return p.ImportPath == root || strings.HasPrefix(p.ImportPath, root+"/") }
		if p.Module != nil && p.Module.Path == module && !slices.ContainsFunc(slices.Concat(embedded, libraries), inside) {
			ours = append(ours, p)
		}
	}
}

// check type-checks one package and examines everything that it uses.
func (w *walker) check(p listed) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(w.set, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		files = append(files, f)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(w.exports[path]) }
	conf := types.Config{Importer: importer.ForCompiler(w.set, "gc", lookup)}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	if _, err := conf.Check(p.ImportPath, w.set, files, info); err != nil {
		w.t.Fatalf("%s: %v", p.ImportPath, err)
	}
	for id, object := range info.Uses {
		if f, ok := object.(*types.Func); ok {
			w.use(id, f)
		}
	}
}

func (w *walker) use(id *ast.Ident, f *types.Func) {
	signature := f.Type().(*types.Signature)
	// Everything that accepts an operation's input can send it: the client's methods, paginators,
	// and our interfaces over them.
	for i := range signature.Params().Len() {
		if service, operation, ok := awsInput(signature.Params().At(i).Type()); ok {
			w.found[service+"."+operation], w.clients[service] = true, true
		}
	}
	if f.Pkg() == nil {
		return
	}
	if f.Pkg().Path() == "github.com/aws/aws-sdk-go-v2/credentials/stscreds" && f.Name() == "NewAssumeRoleProvider" {
		w.found["sts.AssumeRole"], w.clients["sts"] = true, true
	}
	// Credentials for our own request, in internal/targetload.
	if f.Pkg().Path() == "golang.org/x/oauth2/google" {
		w.found["monitoring.ListTimeSeries"], w.clients["monitoring"] = true, true
	}
	if path := f.Pkg().Path(); path == "google.golang.org/api/storage/v1" && receiverName(signature) == "ObjectsService" {
		w.found["storage.objects."+strings.ToLower(f.Name())], w.clients["storage"] = true, true
	}
	const bigtable, pubsub = "cloud.google.com/go/bigtable", "cloud.google.com/go/pubsub/v2"
	receiver := receiverName(signature)
	switch path := f.Pkg().Path(); {
	case path == bigtable && slices.Contains([]string{"Client", "Table", "AdminClient", "InstanceAdminClient", "TableAPI"}, receiver),
		path == "cloud.google.com/go/iam" && receiver == "Handle":
		requests, known := bigtableCalls[receiver+"."+f.Name()]
		if !known {
			w.t.Errorf("%s: what does %s.%s send? Tell it in bigtableCalls and in Operations", w.set.Position(id.Pos()), receiver, f.Name())
		}
		for _, r := range requests {
			w.found["bigtable."+r], w.clients["bigtable"] = true, true
		}
	case path == pubsub || strings.HasPrefix(path, pubsub+"/") && strings.HasSuffix(receiver, "Client"):
		if receiver == "" || receiver == "ErrPublishingPaused" {
			break
		}
		requests, known := pubsubCalls[receiver+"."+f.Name()]
		if !known {
			w.t.Errorf("%s: what does %s.%s send? Tell it in pubsubCalls and in Operations", w.set.Position(id.Pos()), receiver, f.Name())
		}
		for _, r := range requests {
			w.found["pubsub."+r], w.clients["pubsub"] = true, true
		}
	case strings.HasPrefix(path, bigtable+"/") && strings.HasSuffix(receiver, "Client"):
		w.t.Errorf("%s: %s.%s is a client that this test does not know", w.set.Position(id.Pos()), receiver, f.Name())
	}
}

// awsInput splits *service.OperationInput into its parts.
func awsInput(t types.Type) (service, operation string, ok bool) {
	pointer, isPointer := t.(*types.Pointer)
	if !isPointer {
		return "", "", false
	}
	named, isNamed := types.Unalias(pointer.Elem()).(*types.Named)
	if !isNamed || named.Obj().Pkg() == nil {
		return "", "", false
	}
	service, isService := strings.CutPrefix(named.Obj().Pkg().Path(), "github.com/aws/aws-sdk-go-v2/service/")
	operation, isInput := strings.CutSuffix(named.Obj().Name(), "Input")
	return service, operation, isService && isInput && !strings.Contains(service, "/")
}

// receiverName returns the name of a method's type, "" for a function.
func receiverName(s *types.Signature) string {
	if s.Recv() == nil {
		return ""
	}
	t := s.Recv().Type()
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}
