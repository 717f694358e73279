package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// podMonitoring has the fields of Google's custom resource (monitoring.googleapis.com/v1) that are
// checked here. Its types are in a module with a hundred dependencies.
type podMonitoring struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// built holds the objects of a kustomization, or of the chart.
type built struct {
	deployment appsv1.Deployment
	service    corev1.Service
	account    corev1.ServiceAccount
	config     corev1.ConfigMap
	federation corev1.ConfigMap
	budget     policyv1.PodDisruptionBudget
	policy     networkingv1.NetworkPolicy
	namespace  corev1.Namespace
	monitoring podMonitoring
	scaler     autoscalingv2.HorizontalPodAutoscaler
	job        batchv1.Job
	claim      corev1.PersistentVolumeClaim
	operator   operated
	kinds      map[string]int
}

// build runs kustomize and decodes every object strictly: an unknown field is an error.
func build(t *testing.T, dir string) *built {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../kubernetes/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	b := &built{kinds: map[string]int{}}
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		b.decode(t, r.GetKind(), r.GetName(), text)
	}
	if t.Failed() {
		t.FailNow() // later checks would report the same
	}
	return b
}

// decode adds one object.
func (b *built) decode(t *testing.T, kind, name string, text []byte) {
	t.Helper()
	b.kinds[kind]++
	into := map[string]any{"Deployment": &b.deployment, "Service": &b.service, "ServiceAccount": &b.account, "ConfigMap": &b.config,
		"PodDisruptionBudget": &b.budget, "NetworkPolicy": &b.policy, "Namespace": &b.namespace, "PodMonitoring": &b.monitoring,
		"HorizontalPodAutoscaler": &b.scaler, "Job": &b.job, "PersistentVolumeClaim": &b.claim,
		"PodMonitor": &b.operator.pods, "ServiceMonitor": &b.operator.services, "PrometheusRule": &b.operator.rules}[kind]
	switch {
	case into == nil:
		t.Errorf("%s: a kind that no test looks at", kind)
		return
	case kind == "ConfigMap" && (strings.HasPrefix(name, "google-federation-") || strings.HasSuffix(name, "-google")):
		into = &b.federation
	case kind == "ConfigMap" && strings.HasSuffix(name, "-dashboard"):
		into = &b.operator.dashboard
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Errorf("%s %s: %v", kind, name, err)
	}
}

// of returns the value of a pointer, or the zero value if a manifest omits it.
func of[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// The files themselves are decoded strictly too, because kustomize may silently drop a misspelt
// field of a patch.
func TestFilesDecodeStrictly(t *testing.T) {
	for name, into := range map[string]any{
		"base/deployment.yaml": &appsv1.Deployment{}, "base/service.yaml": &corev1.Service{}, "base/serviceaccount.yaml": &corev1.ServiceAccount{},
		"base/poddisruptionbudget.yaml": &policyv1.PodDisruptionBudget{}, "base/networkpolicy.yaml": &networkingv1.NetworkPolicy{},
		"overlays/gke/deployment.yaml": &appsv1.Deployment{}, "overlays/gke/serviceaccount.yaml": &corev1.ServiceAccount{},
		"overlays/eks/deployment.yaml": &appsv1.Deployment{}, "overlays/eks/serviceaccount.yaml": &corev1.ServiceAccount{},
		"overlays/eks/namespace.yaml": &corev1.Namespace{}, "overlays/appliers/deployment.yaml": &appsv1.Deployment{},
		"overlays/appliers/autoscaler.yaml": &autoscalingv2.HorizontalPodAutoscaler{}, "overlays/load/job.yaml": &batchv1.Job{},
		"overlays/gke/namespace.yaml": &corev1.Namespace{}, "overlays/gke/podmonitoring.yaml": &podMonitoring{},
		"components/hooks/claim.yaml": &corev1.PersistentVolumeClaim{}, "components/hooks/deployment.yaml": &appsv1.Deployment{},
	} {
		text, err := os.ReadFile("../kubernetes/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var kustomizations = []string{"base", "overlays/gke", "overlays/eks"}

func TestDeployment(t *testing.T) {
	for _, dir := range kustomizations {
		b := build(t, dir)
		for kind, want := range map[string]int{"Deployment": 1, "Service": 1, "ServiceAccount": 1, "PodDisruptionBudget": 1, "NetworkPolicy": 1,
			"ConfigMap": map[string]int{"overlays/eks": 2}[dir], "Role": 0, "RoleBinding": 0, "ClusterRole": 0, "ClusterRoleBinding": 0} {
			if kind == "ConfigMap" {
				want = max(want, 1)
			}
			if b.kinds[kind] != want {
				t.Errorf("%s: %d of kind %s, want %d", dir, b.kinds[kind], kind, want)
			}
		}
		d, pod := b.deployment.Spec, b.deployment.Spec.Template.Spec
		if of(d.Replicas) != 2 || of(pod.TerminationGracePeriodSeconds) != 60 || len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
			t.Errorf("%s: replicas, grace or containers: %+v", dir, d)
		}
		checkSelectors(t, dir, b)
		checkSecurity(t, dir, pod)
		checkContainer(t, dir, pod.Containers[0])
		if of(b.budget.Spec.MaxUnavailable).IntVal >= of(d.Replicas) {
			t.Errorf("%s: the budget lets all workers go at once", dir)
		}
		if pod.ServiceAccountName != b.account.Name {
			t.Errorf("%s: account %q is not %q", dir, pod.ServiceAccountName, b.account.Name)
		}
	}
}

// checkSelectors: every selector for pods selects those of the deployment.
func checkSelectors(t *testing.T, dir string, b *built) {
	t.Helper()
	labels := b.deployment.Spec.Template.Labels
	selectors := map[string]map[string]string{"deployment": of(b.deployment.Spec.Selector).MatchLabels, "service": b.service.Spec.Selector,
		"budget": of(b.budget.Spec.Selector).MatchLabels, "network policy": b.policy.Spec.PodSelector.MatchLabels,
	}
	for _, spread := range b.deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selectors["spread"] = of(spread.LabelSelector).MatchLabels
	}
	if b.kinds["PodMonitoring"] > 0 {
		selectors["monitoring"] = b.monitoring.Spec.Selector.MatchLabels
	}
	for what, selector := range selectors {
		if len(selector) == 0 {
			t.Errorf("%s: the %s selects everything", dir, what)
		}
		for name, value := range selector {
			if labels[name] != value {
				t.Errorf("%s: the %s selects %s=%s, the pods have %q", dir, what, name, value, labels[name])
			}
		}
	}
}

// checkSecurity: the pod meets the restricted Pod Security Standard, and has no token of the
// Kubernetes API.
func checkSecurity(t *testing.T, dir string, pod corev1.PodSpec) {
	t.Helper()
	s, c := of(pod.SecurityContext), of(pod.Containers[0].SecurityContext)
	switch {
	case pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken:
		t.Errorf("%s: a token of the Kubernetes API is mounted", dir)
	case !of(s.RunAsNonRoot) || of(s.RunAsUser) == 0 || of(s.SeccompProfile).Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Errorf("%s: pod security %+v", dir, s)
	case c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation || !of(c.ReadOnlyRootFilesystem) || c.Privileged != nil ||
		len(of(c.Capabilities).Add) > 0 || !slices.Equal(of(c.Capabilities).Drop, []corev1.Capability{"ALL"}):
		t.Errorf("%s: container security %+v", dir, c)
	case pod.HostNetwork || pod.HostPID || pod.HostIPC:
		t.Errorf("%s: the host's namespaces", dir)
	}
	for _, v := range pod.Volumes {
		if v.ConfigMap == nil && v.Projected == nil && v.PersistentVolumeClaim == nil {
			t.Errorf("%s: volume %s is neither configuration nor a projected token nor of hooks", dir, v.Name)
		}
	}
	checkImage(t, dir, pod.Containers[0].Image)
}

// checkImage: an image without a version could be another one after each restart.
func checkImage(t *testing.T, dir, image string) {
	t.Helper()
	if dir == "base" && image == "replicator" {
		return // overlays set the registry and the version
	}
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if digest := strings.Contains(image, "@sha256:"); !digest && (tag == "" || tag == "latest") {
		t.Errorf("%s: image %s has neither a version nor a digest", dir, image)
	}
}

// The hook commands of a cutover have a directory for their token file that all pods share and may
// write. Everything else stays read-only.
func TestHooksComponent(t *testing.T) {
	overlay := t.TempDir()
	root, err := filepath.Abs("../kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	to, err := filepath.Rel(overlay, root)
	if err != nil {
		t.Fatal(err)
	}
	text := "resources: [" + to + "/overlays/gke]\ncomponents: [" + to + "/components/hooks]\n"
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Rel(root, overlay)
	if err != nil {
		t.Fatal(err)
	}
	b := build(t, from)
	pod := b.deployment.Spec.Template.Spec
	checkSecurity(t, "components/hooks", pod)
	if !slices.Equal(b.claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}) {
		t.Errorf("pods on several nodes do not share a volume of %v", b.claim.Spec.AccessModes)
	}
	writable := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		if !m.ReadOnly {
			writable[m.MountPath] = m.Name
		}
	}
	name := writable["/var/lib/replicator"]
	if len(writable) != 1 || name == "" {
		t.Fatalf("what may be written: %v", writable)
	}
	for _, v := range pod.Volumes {
		if v.Name == name && (v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != b.claim.Name) {
			t.Errorf("the token is kept in %+v", v)
		}
	}
	if of(of(pod.SecurityContext).FSGroup) != of(of(pod.SecurityContext).RunAsGroup) {
		t.Error("the volume is not writable for the group of the process")
	}
}

func checkContainer(t *testing.T, dir string, c corev1.Container) {
	t.Helper()
	env := map[string]corev1.EnvVar{}
	order := map[string]int{}
	for i, e := range c.Env {
		env[e.Name], order[e.Name] = e, i
	}
	if env["REPLICATOR_HTTP_LISTEN"].Value != ":8080" {
		t.Errorf("%s: probes come from outside of the pod, and it listens on %q", dir, env["REPLICATOR_HTTP_LISTEN"].Value)
	}
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || ports[probe.HTTPGet.Port.StrVal] != 8080 {
			t.Errorf("%s: probe of %s: %+v", dir, path, probe)
		}
	}
	// A worker serves nothing until it has checked both ends. That takes a minute for about ten
	// tables that are created, and minutes for thousands of tables of a pattern.
	if start := of(c.StartupProbe); start.HTTPGet == nil || start.HTTPGet.Path != "/healthz" || ports[start.HTTPGet.Port.StrVal] != 8080 ||
		start.PeriodSeconds*start.FailureThreshold < 600 {
		t.Errorf("%s: a start that takes ten minutes is cut short: %+v", dir, c.StartupProbe)
	}
	limit := env["MEMORY_LIMIT_MIB"].ValueFrom
	if limit == nil || limit.ResourceFieldRef == nil || limit.ResourceFieldRef.Resource != "limits.memory" || limit.ResourceFieldRef.Divisor.String() != "1Mi" ||
		env["GOMEMLIMIT"].Value != "$(MEMORY_LIMIT_MIB)000000" || order["MEMORY_LIMIT_MIB"] > order["GOMEMLIMIT"] {
		t.Errorf("%s: GOMEMLIMIT does not follow from the limit: %+v", dir, c.Env)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: resources %+v", dir, c.Resources)
	}
}

// The configuration is mounted where the program expects it, under its generated name, and passes
// lint.
func TestConfiguration(t *testing.T) {
	for _, dir := range kustomizations {
		b := build(t, dir)
		pod := b.deployment.Spec.Template.Spec
		mounted := ""
		for _, v := range pod.Volumes {
			if v.ConfigMap != nil && v.ConfigMap.Name == b.config.Name {
				for _, m := range pod.Containers[0].VolumeMounts {
					if m.Name == v.Name {
						mounted = m.MountPath
					}
				}
			}
		}
		if mounted != "/etc/replicator" || !strings.HasPrefix(b.config.Name, "replicator-") {
			t.Errorf("%s: configuration %q is mounted at %q", dir, b.config.Name, mounted)
		}
		path := filepath.Join(t.TempDir(), "replicator.yaml")
		if err := os.WriteFile(path, []byte(b.config.Data["replicator.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		lint(t, path)
	}
}

// Every other configuration below deploy passes lint too.
func TestConfigurationsPassLint(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "replicator.yaml" {
			return err
		}
		found++
		lint(t, path)
		return nil
	})
	if err != nil || found < 2 {
		t.Error(found, err)
	}
}

// tokens returns the projected tokens of a pod's container: the file of each, by audience.
func tokens(t *testing.T, pod corev1.PodSpec) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, v := range pod.Volumes {
		if v.Projected == nil {
			continue
		}
		token := v.Projected.Sources[0].ServiceAccountToken
		if token == nil || of(token.ExpirationSeconds) < 600 {
			t.Errorf("token %+v", token)
			continue
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.Name == v.Name {
				files[token.Audience] = m.MountPath + "/" + token.Path
			}
		}
	}
	return files
}

// noKeys checks that no variable of a container holds a key, and returns the variables.
func noKeys(t *testing.T, c corev1.Container) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if strings.Contains(e.Name, "SECRET") || strings.Contains(e.Name, "ACCESS_KEY") {
			t.Errorf("a key: %s", e.Name)
		}
	}
	return env
}

// onAWS checks that the token for AWS is where the SDK looks for it.
func onAWS(t *testing.T, pod corev1.PodSpec) map[string]string {
	t.Helper()
	env := noKeys(t, pod.Containers[0])
	if file := tokens(t, pod)["sts.amazonaws.com"]; file == "" || env["AWS_WEB_IDENTITY_TOKEN_FILE"] != file || !strings.HasPrefix(env["AWS_ROLE_ARN"], "arn:aws:iam::") {
		t.Errorf("the token is at %q: %v", file, env)
	}
	return env
}

// EKS: Google's libraries exchange a token with the provider's audience, and the credentials file
// contains no secret.
func TestEKS(t *testing.T) {
	b := build(t, "overlays/eks")
	pod := b.deployment.Spec.Template.Spec
	env := onAWS(t, pod)
	if b.account.Annotations["eks.amazonaws.com/role-arn"] != env["AWS_ROLE_ARN"] {
		t.Errorf("the account's role is not the pods': %v", b.account.Annotations)
	}
	var federation struct {
		Type             string `json:"type"`
		Audience         string `json:"audience"`
		SubjectTokenType string `json:"subject_token_type"`
		TokenURL         string `json:"token_url"`
		Impersonation    string `json:"service_account_impersonation_url"`
		Source           struct {
			File string `json:"file"`
		} `json:"credential_source"`
	}
	if err := yaml.UnmarshalStrict([]byte(b.federation.Data["external-account.json"]), &federation); err != nil {
		t.Fatal(err)
	}
	if federation.Type != "external_account" || federation.Source.File != tokens(t, pod)["https:"+federation.Audience] || federation.TokenURL != "https://sts.googleapis.com/v1/token" {
		t.Errorf("%+v, %v", federation, tokens(t, pod))
	}
	mounted := ""
	for _, v := range pod.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == b.federation.Name {
			for _, m := range pod.Containers[0].VolumeMounts {
				if m.Name == v.Name {
					mounted = m.MountPath
				}
			}
		}
	}
	if env["GOOGLE_APPLICATION_CREDENTIALS"] != mounted+"/external-account.json" {
		t.Errorf("the federation is mounted at %q: %v", mounted, env)
	}
}

// takes checks that the program accepts the flags of a container's command line: it fails only
// because the file is missing.
func takes(t *testing.T, arguments []string) {
	t.Helper()
	program, err := binary()
	if err != nil {
		t.Fatal(program, err)
	}
	c := exec.Command(program, append(slices.Clone(arguments), "--config", "/nowhere/replicator.yaml")...)
	c.Env = nil
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "R1001") {
		t.Errorf("%v: %v\n%s", arguments, err, out)
	}
}

// Appliers have their own deployment, which grows with the waiting messages of the subscription.
func TestAppliers(t *testing.T) {
	b := build(t, "overlays/appliers")
	pod := b.deployment.Spec.Template.Spec
	checkSelectors(t, "appliers", b)
	checkSecurity(t, "appliers", pod)
	checkContainer(t, "appliers", pod.Containers[0])
	takes(t, pod.Containers[0].Args)
	s := b.scaler.Spec
	if b.deployment.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != "replicator-applier" {
		t.Errorf("the readers' deployment selects these pods: %v", b.deployment.Spec.Selector)
	}
	if b.deployment.Name != "replicator-applier" || s.ScaleTargetRef.Name != b.deployment.Name || of(s.MinReplicas) < 2 || len(s.Metrics) != 1 ||
		s.Metrics[0].External == nil || s.Metrics[0].External.Metric.Name != "pubsub.googleapis.com|subscription|num_undelivered_messages" {
		t.Errorf("%s: %+v", b.deployment.Name, s)
	}
	if b.kinds["Namespace"] != 0 || b.deployment.Spec.Replicas != nil {
		t.Error("the namespace is another overlay's, and the replicas are the autoscaler's")
	}
}

// The job's workers share parts with those of the deployment, and end by themselves.
func TestLoadJob(t *testing.T) {
	b := build(t, "overlays/load")
	spec, pod := b.job.Spec, b.job.Spec.Template.Spec
	checkSecurity(t, "load", pod)
	onAWS(t, pod)
	takes(t, pod.Containers[0].Args)
	if of(spec.CompletionMode) != batchv1.IndexedCompletion || of(spec.Completions) < 2 || of(spec.Completions) != of(spec.Parallelism) || pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", spec)
	}
	path := filepath.Join(t.TempDir(), "replicator.yaml")
	if err := os.WriteFile(path, []byte(b.config.Data["replicator.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	lint(t, path)
}

// For AWS without keys, the SDK exchanges a token with its own audience. For Google, an annotation
// names the account.
func TestGKE(t *testing.T) {
	b := build(t, "overlays/gke")
	pod := b.deployment.Spec.Template.Spec
	if env := onAWS(t, pod); env["GOOGLE_APPLICATION_CREDENTIALS"] != "" {
		t.Error("Google's identity is the account's, not a file's")
	}
	if b.account.Annotations["iam.gke.io/gcp-service-account"] == "" {
		t.Error("no Google identity")
	}
	if b.namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" || b.deployment.Namespace != b.namespace.Name {
		t.Errorf("namespace %+v", b.namespace.ObjectMeta)
	}
	var out bytes.Buffer
	for _, rule := range b.policy.Spec.Egress {
		for _, to := range rule.To {
			out.WriteString(to.IPBlock.CIDR + " ")
		}
	}
	if out.String() != "169.254.169.252/32 169.254.169.254/32 " || len(b.policy.Spec.Egress) != 4 {
		t.Errorf("egress: %s", out.String())
	}
	if image := pod.Containers[0].Image; !strings.Contains(image, "/replicator:") {
		t.Errorf("image %s", image)
	}
	if e := b.monitoring.Spec.Endpoints; len(e) != 1 || e[0].Port != pod.Containers[0].Ports[0].Name {
		t.Errorf("monitoring %+v", e)
	}
}
