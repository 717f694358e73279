package check

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	helmlint "helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chartDir = "../helm/replicator"

// operated holds what only the chart has: objects of the Prometheus Operator, and the dashboard.
type operated struct {
	pods      monitoringv1.PodMonitor
	services  monitoringv1.ServiceMonitor
	rules     monitoringv1.PrometheusRule
	dashboard corev1.ConfigMap
}

// installed is a release of the chart.
type installed struct {
	*built          // the workers, and all objects without a component
	appliers *built // nil if they are not enabled
	notes    string
}

// values reads the text of a values file.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	found := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// exampleValues reads a values file of the chart.
func exampleValues(t *testing.T, name string) map[string]any {
	t.Helper()
	return values(t, read(t, filepath.Join(chartDir, name)))
}

// leastValues are the values that a release must have. The configuration is that of the
// kustomization base.
func leastValues(t *testing.T, more string) map[string]any {
	t.Helper()
	all := values(t, more)
	all["config"] = read(t, "../kubernetes/base/replicator.yaml")
	image, _ := all["image"].(map[string]any)
	if image == nil {
		image = map[string]any{}
	}
	if image["repository"] == nil {
		image["repository"] = "registry.example/replicator"
	}
	all["image"] = image
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// render renders the chart as `helm template` does.
func render(t *testing.T, release string, with map[string]any) (map[string]string, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, with, common.ReleaseOptions{Name: release, Namespace: "replicator", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// install renders the chart and decodes every object strictly.
func install(t *testing.T, release string, with map[string]any) *installed {
	t.Helper()
	files, err := render(t, release, with)
	if err != nil {
		t.Fatal(err)
	}
	r := &installed{built: &built{kinds: map[string]int{}}}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(file, "NOTES.txt") {
			r.notes = files[file]
			continue
		}
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(files[file], -1) {
			var o struct {
				Kind     string
				Metadata metav1.ObjectMeta
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, document)
			}
			if o.Kind == "" {
				continue // nothing but white space
			}
			if o.Metadata.Labels["app.kubernetes.io/instance"] != release || o.Metadata.Labels["helm.sh/chart"] == "" {
				t.Errorf("%s %s has the labels %v", o.Kind, o.Metadata.Name, o.Metadata.Labels)
			}
			into := r.built
			if o.Metadata.Labels["app.kubernetes.io/component"] == "applier" {
				if r.appliers == nil {
					r.appliers = &built{kinds: map[string]int{}}
				}
				into = r.appliers
			}
			into.decode(t, o.Kind, o.Metadata.Name, []byte(document))
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return r
}

var chartExamples = []string{"values-gke.yaml", "values-eks.yaml"}

// The chart passes Helm's linter without a warning, with the default values and with each example.
func TestChartPassesHelmLint(t *testing.T) {
	for _, name := range append([]string{"values.yaml"}, chartExamples...) {
		linted := helmlint.RunAll(chartDir, exampleValues(t, name), "replicator")
		for _, m := range linted.Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// asJSON allows a comparison that shows what differs.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// deployed returns the facts of a kustomization or release that must not differ between them.
// Names of ConfigMaps, labels, selectors and the order of lists differ. checkContainer checks the
// order of variables.
func deployed(b *built) map[string]any {
	d := b.deployment.Spec.DeepCopy()
	d.Selector = nil
	d.Template.ObjectMeta = metav1.ObjectMeta{}
	pod := &d.Template.Spec
	for i := range pod.TopologySpreadConstraints {
		pod.TopologySpreadConstraints[i].LabelSelector = nil
	}
	for i := range pod.Volumes {
		if m := pod.Volumes[i].ConfigMap; m != nil {
			m.Name = map[string]string{b.config.Name: "config", b.federation.Name: "federation"}[m.Name]
		}
	}
	slices.SortFunc(pod.Volumes, func(a, b corev1.Volume) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(pod.Containers[0].VolumeMounts, func(a, b corev1.VolumeMount) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(pod.Containers[0].Env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	federation := map[string]any{}
	_ = json.Unmarshal([]byte(b.federation.Data["external-account.json"]), &federation)
	budget, policy := b.budget.Spec.DeepCopy(), b.policy.Spec.DeepCopy()
	budget.Selector, policy.PodSelector = nil, metav1.LabelSelector{}
	return map[string]any{"deployment": d, "ports": b.service.Spec.Ports, "budget": budget, "policy": policy, "token": b.account.AutomountServiceAccountToken,
		"account": b.account.Name, "identities": b.account.Annotations, "federation": federation, "endpoints": b.monitoring.Spec.Endpoints}
}

// The chart deploys what kustomize deploys, so that no fact has two versions.
func TestChartIsTheKustomization(t *testing.T) {
	for dir, with := range map[string]map[string]any{
		"base":         leastValues(t, "image: { repository: replicator }"),
		"overlays/gke": exampleValues(t, "values-gke.yaml"),
		"overlays/eks": exampleValues(t, "values-eks.yaml"),
	} {
		b, r := build(t, dir), install(t, "replicator", with)
		if dir == "base" { // an overlay sets the version
			b.deployment.Spec.Template.Spec.Containers[0].Image += ":" + newestRelease(t)
		}
		kustomized, charted := deployed(b), deployed(r.built)
		for what, wanted := range kustomized {
			if want, got := asJSON(t, wanted), asJSON(t, charted[what]); got != want {
				t.Errorf("%s: the %s of the chart is\n%s\nof kustomize\n%s", dir, what, got, want)
			}
		}
		if got := values(t, r.config.Data["replicator.yaml"]); asJSON(t, got) != asJSON(t, values(t, b.config.Data["replicator.yaml"])) {
			t.Errorf("%s: the chart configures %v", dir, got)
		}
	}
}

// Each release is restricted, mounts its configuration where the program expects it, and selects
// its own pods.
func TestChartReleases(t *testing.T) {
	for name, with := range map[string]map[string]any{
		"least": leastValues(t, ""), "gke": exampleValues(t, "values-gke.yaml"), "eks": exampleValues(t, "values-eks.yaml"),
		"relay": leastValues(t, "command: relay\nextraArgs: [--loads]"),
	} {
		r := install(t, "replicator", with)
		pod := r.deployment.Spec.Template.Spec
		checkSelectors(t, name, r.built)
		checkSecurity(t, name, pod)
		checkContainer(t, name, pod.Containers[0])
		takes(t, pod.Containers[0].Args)
		noKeys(t, pod.Containers[0])
		if pod.Volumes[0].ConfigMap.Name != r.config.Name || pod.Containers[0].VolumeMounts[0].MountPath != "/etc/replicator" {
			t.Errorf("%s: the configuration is mounted as %+v", name, pod.Containers[0].VolumeMounts)
		}
		path := filepath.Join(t.TempDir(), "replicator.yaml")
		if err := os.WriteFile(path, []byte(r.config.Data["replicator.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		lint(t, path)
	}
}

// The configuration is taken as it is written, and a changed one restarts the pods.
func TestChartRestartsForAChangedConfiguration(t *testing.T) {
	sums := map[string]bool{}
	for _, config := range []string{"version: 1\nlimit: 1000000 # a comment\n", "  version: 1\n  text: |2\n   indented\n", "version: 2"} {
		with := leastValues(t, "")
		with["config"] = config
		r := install(t, "replicator", with)
		if got := r.config.Data["replicator.yaml"]; got != config {
			t.Errorf("%q became %q", config, got)
		}
		sums[r.deployment.Spec.Template.Annotations["checksum/config"]] = true
	}
	if len(sums) != 3 {
		t.Errorf("%d checksums of 3 configurations", len(sums))
	}
}

// Two releases in one namespace share no name, and select no pod of each other.
func TestChartTwice(t *testing.T) {
	one, two := install(t, "orders", leastValues(t, "")), install(t, "billing", leastValues(t, ""))
	if one.deployment.Name != "orders-replicator" || two.deployment.Name != "billing-replicator" || one.config.Name == two.config.Name || one.account.Name == two.account.Name {
		t.Errorf("%s and %s", one.deployment.Name, two.deployment.Name)
	}
	for name, selector := range map[string]map[string]string{"deployment": one.deployment.Spec.Selector.MatchLabels, "service": one.service.Spec.Selector,
		"budget": one.budget.Spec.Selector.MatchLabels, "policy": one.policy.Spec.PodSelector.MatchLabels} {
		if matches(selector, two.deployment.Spec.Template.Labels) {
			t.Errorf("the %s selects the pods of the other release: %v", name, selector)
		}
	}
}

// A release's name may have 53 characters. Names of resources are cut to fit, and two releases that
// differ only at their ends still share no name.
func TestChartCutsLongNames(t *testing.T) {
	const long = "dynamodb-bigtable-migration-of-the-orders-of-team-" // 50 characters
	names := map[string]bool{}
	for _, release := range []string{long + "eu", long + "us", "replicator-" + long[:39] + "-eu", "replicator-" + long[:39] + "-us"} {
		r := install(t, release, leastValues(t, "appliers: { enabled: true }"))
		for _, name := range []string{r.deployment.Name, r.service.Name} {
			if len(name) > 50 || strings.HasSuffix(name, "-") {
				t.Errorf("%s: %q has %d characters", release, name, len(name))
			}
		}
		names[r.deployment.Name] = true
	}
	if len(names) != 4 {
		t.Errorf("%v", names)
	}
}

// matches reports whether a selector selects an object with these labels.
func matches(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// Appliers have a deployment, a service and a budget of their own, which select only their pods.
func TestChartAppliers(t *testing.T) {
	const enabled = "command: relay\nappliers: { enabled: true, replicas: 3, autoscaling: { enabled: %, subscription: my-subscription } }\n" +
		"monitoring: { serviceMonitor: { enabled: true } }"
	r := install(t, "replicator", leastValues(t, strings.ReplaceAll(enabled, "%", "true")))
	a := r.appliers
	pod := a.deployment.Spec.Template.Spec
	a.policy = r.policy // one for all pods
	a.monitoring = r.monitoring
	checkSelectors(t, "appliers", a)
	checkSecurity(t, "appliers", pod)
	checkContainer(t, "appliers", pod.Containers[0])
	takes(t, pod.Containers[0].Args)
	labels := map[string]map[string]string{"workers": r.deployment.Spec.Template.Labels, "appliers": a.deployment.Spec.Template.Labels}
	if matches(r.deployment.Spec.Selector.MatchLabels, labels["appliers"]) || matches(a.deployment.Spec.Selector.MatchLabels, labels["workers"]) ||
		matches(r.service.Spec.Selector, labels["appliers"]) || matches(a.budget.Spec.Selector.MatchLabels, labels["workers"]) {
		t.Errorf("workers and appliers are not kept apart: %v", labels)
	}
	for _, service := range []corev1.Service{r.service, a.service} {
		if !matches(r.operator.services.Spec.Selector.MatchLabels, service.Labels) {
			t.Errorf("the monitor does not select the service %s", service.Name)
		}
	}
	kustomized := build(t, "overlays/appliers")
	if got, want := asJSON(t, a.scaler.Spec), asJSON(t, kustomized.scaler.Spec); got != want {
		t.Errorf("the chart scales by\n%s\nand kustomize by\n%s", got, want)
	}
	if got, want := pod.Containers[0].Args, kustomized.deployment.Spec.Template.Spec.Containers[0].Args; !slices.Equal(got, want) || a.deployment.Spec.Replicas != nil {
		t.Errorf("arguments %v, replicas %v", got, a.deployment.Spec.Replicas)
	}
	if fixed := install(t, "replicator", leastValues(t, strings.ReplaceAll(enabled, "%", "false"))).appliers; fixed.kinds["HorizontalPodAutoscaler"] != 0 || of(fixed.deployment.Spec.Replicas) != 3 {
		t.Errorf("without autoscaling: %v, %v replicas", fixed.kinds, fixed.deployment.Spec.Replicas)
	}
}

// Monitoring is off by default. Each way to scrape selects the pods or services of the release, by
// the name of a port. None sets the label pipeline, which would rename the program's.
func TestChartMonitoring(t *testing.T) {
	r := install(t, "replicator", leastValues(t, ""))
	for _, kind := range []string{"PodMonitor", "ServiceMonitor", "PodMonitoring", "PrometheusRule"} {
		if r.kinds[kind] != 0 {
			t.Errorf("%s without being asked", kind)
		}
	}
	if r.kinds["ConfigMap"] != 1 || !strings.Contains(r.notes, "No Prometheus scrapes") {
		t.Errorf("%d ConfigMaps; notes:\n%s", r.kinds["ConfigMap"], r.notes)
	}
	r = install(t, "replicator", leastValues(t, "monitoring: { podMonitor: { enabled: true, labels: { release: prom } }, prometheusRule: { enabled: true, labels: { release: prom } }, dashboard: { enabled: true } }"))
	port := r.deployment.Spec.Template.Spec.Containers[0].Ports[0].Name
	if p := r.operator.pods; p.Labels["release"] != "prom" || !matches(p.Spec.Selector.MatchLabels, r.deployment.Spec.Template.Labels) ||
		len(p.Spec.PodMetricsEndpoints) != 1 || of(p.Spec.PodMetricsEndpoints[0].Port) != port || p.Spec.PodMetricsEndpoints[0].HonorLabels {
		t.Errorf("%s", asJSON(t, p))
	}
	if strings.Contains(r.notes, "No Prometheus scrapes") || r.operator.dashboard.Labels["grafana_dashboard"] != "1" || r.operator.rules.Labels["release"] != "prom" {
		t.Errorf("%v\n%s", r.operator.dashboard.Labels, r.notes)
	}
	r = install(t, "replicator", leastValues(t, "monitoring: { serviceMonitor: { enabled: true, interval: 15s } }"))
	if s := r.operator.services; !matches(s.Spec.Selector.MatchLabels, r.service.Labels) || len(s.Spec.Endpoints) != 1 || s.Spec.Endpoints[0].Port != r.service.Spec.Ports[0].Name ||
		s.Spec.Endpoints[0].Interval != "15s" || len(s.Spec.TargetLabels) != 0 {
		t.Errorf("%s", asJSON(t, s))
	}
}

// Rules and dashboard of the chart are copies, because a chart cannot contain links. They are
// installed unchanged: Helm does not expand the templates in them.
func TestChartHasTheRulesAndTheDashboard(t *testing.T) {
	r := install(t, "replicator", exampleValues(t, "values-eks.yaml"))
	for name, original := range map[string]string{"rules.yml": "../monitoring/prometheus/rules.yml", "replicator.json": "../monitoring/grafana/replicator.json"} {
		if read(t, filepath.Join(chartDir, "files", name)) != read(t, original) {
			t.Errorf("%s of the chart is not %s: run make chart", name, original)
		}
	}
	if got := strings.TrimSpace(r.operator.dashboard.Data["replicator.json"]); got != strings.TrimSpace(read(t, "../monitoring/grafana/replicator.json")) {
		t.Errorf("another dashboard is installed: %d bytes", len(got))
	}
	var rules monitoringv1.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(read(t, "../monitoring/prometheus/rules.yml")), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) == 0 || asJSON(t, r.operator.rules.Spec) != asJSON(t, rules) {
		t.Errorf("other rules are installed: %s", asJSON(t, r.operator.rules.Spec))
	}
}

// A wrong value is refused, with its name and a hint.
func TestChartRefusesWrongValues(t *testing.T) {
	for text, want := range map[string]string{
		"config: ''":                                  "config is empty: give your configuration, for example --set-file config=replicator.yaml",
		"config: { version: 1 }":                      "/config",
		"image: { repository: '' }":                   "image.repository is empty: name your image",
		"image: { repository: 'a/replicator:1.0.0' }": "/image/repository",
		"image: { tag: latest }":                      "/image/tag",
		"image: { digest: 'sha256:12' }":              "/image/digest",
		"replica: 3":                                  "replica",
		"replicas: three":                             "/replicas",
		"command: verify":                             "/command",
		"extraArgs: --loads":                          "/extraArgs",
		"resources: { limits: { memory: null } }":     "memory",
		"aws: { roleArn: replicator }":                "/aws/roleArn",
		"google: { externalAccount: '{}' }":           "google.externalAccount is not JSON of type external_account",
		`google: { externalAccount: '{"type": "external_account", "credential_source": {"file": "/token"}}' }`: "set credential_source.file to /var/run/secrets/google/token",
		"appliers: { enabled: true, autoscaling: { enabled: true } }":                                          "appliers.autoscaling.subscription is empty",
		"monitoring: { podMonitor: { enabled: true }, podMonitoring: { enabled: true } }":                      "monitoring.podMonitor and monitoring.podMonitoring are enabled, and each scrapes every process: enable one of them",
		"monitoring: { podMonitor: { interval: 30 } }":                                                         "/monitoring/podMonitor/interval",
		"monitoring: { prometheusrule: { enabled: true } }":                                                    "prometheusrule",
		"networkPolicy: { extraEgress: { ports: [] } }":                                                        "/networkPolicy/extraEgress",
		"serviceAccount: { annotations: { a: 1 } }":                                                            "/serviceAccount/annotations/a",
	} {
		with := leastValues(t, text)
		maps.Copy(with, values(t, text))
		if image, ok := with["image"].(map[string]any); ok && image["repository"] == nil {
			image["repository"] = "registry.example/replicator"
		}
		if _, err := render(t, "replicator", with); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), ".", "/"), strings.ReplaceAll(want, ".", "/")) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The notes name the deployment, and say if nothing applies a topic.
func TestChartNotes(t *testing.T) {
	for text, want := range map[string]bool{"command: relay": true, "command: relay\nappliers: { enabled: true }": false, "": false} {
		r := install(t, "orders", leastValues(t, text))
		if got := strings.Contains(r.notes, "appliers.enabled=true"); got != want || !strings.Contains(r.notes, "kubectl -n replicator port-forward deployment/orders-replicator 8080:8080") {
			t.Errorf("%s: notes\n%s", text, r.notes)
		}
	}
}
