package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// composed has the fields of a compose file that are checked here. docker itself is not run.
type composed struct {
	Name     string `json:"name"`
	Services map[string]struct {
		Build       map[string]string `json:"build"`
		Image       string            `json:"image"`
		Command     []string          `json:"command"`
		Ports       []string          `json:"ports"`
		Volumes     []string          `json:"volumes"`
		Environment map[string]string `json:"environment"`
		ReadOnly    bool              `json:"read_only"`
		Tmpfs       []string          `json:"tmpfs"`
		Healthcheck map[string]any    `json:"healthcheck"`
	} `json:"services"`
}

// TestCompose: mounted files and build contexts exist, ports are on loopback, images have a
// version, and the program accepts the command lines.
func TestCompose(t *testing.T) {
	const dir = "../compose"
	text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c composed
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		t.Fatal(err)
	}
	for name, s := range c.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to the network", name, port)
			}
		}
		for _, volume := range s.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(filepath.Join(dir, from)); err != nil || !strings.HasSuffix(volume, ":ro") {
				t.Errorf("%s: volume %s: %v", name, volume, err)
			}
		}
		if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" {
			t.Errorf("%s: image %s has no version", name, s.Image)
		}
	}
	ours := c.Services["replicator"]
	if _, err := os.Stat(filepath.Join(dir, ours.Build["context"], ours.Build["dockerfile"])); err != nil {
		t.Error(err)
	}
	program, err := binary()
	if err != nil {
		t.Fatal(program, err)
	}
	if out, err := exec.Command(program, append(append([]string{}, ours.Command...), "--help")...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", ours.Command, err, out)
	}
	check := ours.Healthcheck["test"].([]any)
	if out, err := exec.Command(program, check[2].(string), check[3].(string), "--help").CombinedOutput(); check[1] != "/replicator" || err != nil {
		t.Errorf("%v: %v\n%s", check, err, out)
	}
	prometheus, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	if err != nil || !strings.Contains(string(prometheus), `"replicator:8080"`) {
		t.Errorf("nobody scrapes the worker (%v)", err)
	}
}
