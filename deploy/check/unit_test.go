package check

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// directives lists the allowed directives of the unit, by section. systemd itself only logs a
// warning for a misspelt one. Source:
// https://www.freedesktop.org/software/systemd/man/latest/systemd.directives.html
var directives = map[string][]string{
	"Unit": {"Description", "Documentation", "After", "Wants"},
	"Service": {"Type", "ExecStart", "ExecReload", "EnvironmentFile", "DynamicUser", "StateDirectory", "StateDirectoryMode", "Restart", "RestartSec", "RestartPreventExitStatus", "TimeoutStopSec",
		"CapabilityBoundingSet", "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectClock",
		"ProtectControlGroups", "ProtectHome", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectSystem",
		"RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "SystemCallArchitectures", "SystemCallFilter"},
	"Install": {"WantedBy"},
}

func unit(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../systemd/replicator.service")
	if err != nil {
		t.Fatal(err)
	}
	section, out := "", map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		default:
			name, value, ok := strings.Cut(line, "=")
			if _, twice := out[name]; !ok || twice || !slices.Contains(directives[section], name) {
				t.Errorf("section %s: %s", section, line)
			}
			out[name] = value
		}
	}
	return out
}

func TestUnit(t *testing.T) {
	u := unit(t)
	for name, want := range map[string]string{"Type": "exec", "Restart": "always", "DynamicUser": "yes", "EnvironmentFile": "-/etc/replicator/env",
		"RestartPreventExitStatus": "2", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "WantedBy": "multi-user.target"} {
		if got, ok := u[name]; !ok || got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	if seconds, err := strconv.Atoi(u["TimeoutStopSec"]); err != nil || seconds < 30 {
		t.Errorf("a clean stop has only %s s", u["TimeoutStopSec"])
	}
	// With ProtectSystem=strict, hooks of a cutover have no other place for their token file.
	if u["StateDirectory"] != "replicator" || u["StateDirectoryMode"] != "0700" {
		t.Errorf("hooks cannot keep their token: StateDirectory=%s, mode %s", u["StateDirectory"], u["StateDirectoryMode"])
	}
	// The program accepts the command line: it fails because of the missing file, not the flags.
	words := strings.Fields(u["ExecStart"])
	program, err := binary()
	if err != nil {
		t.Fatal(program, err)
	}
	if len(words) < 4 || words[0] != "replicator" || words[1] != "run" || words[2] != "--config" {
		t.Fatalf("ExecStart=%s", u["ExecStart"])
	}
	c := exec.Command(program, append(words[1:3:3], "/nowhere/replicator.yaml")...)
	c.Env = nil
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "R1001") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCredentialsOfTheUnit: systemd accepts the lines in the comment, and both clients find the
// files.
func TestCredentialsOfTheUnit(t *testing.T) {
	text, err := os.ReadFile("../systemd/replicator.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"# LoadCredential=aws:/etc/replicator/aws-credentials", "# LoadCredential=google:/etc/replicator/google.json",
		"# Environment=AWS_SHARED_CREDENTIALS_FILE=%d/aws GOOGLE_APPLICATION_CREDENTIALS=%d/google"} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("the unit does not show %s", line)
		}
	}
}

// The example of an environment file has only assignments, no secrets, and no variable that the
// program would refuse.
func TestEnvironmentFile(t *testing.T) {
	text, err := os.ReadFile("../systemd/replicator.env.example")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "# "))
		name, _, assigned := strings.Cut(line, "=")
		if !assigned {
			continue // a comment
		}
		if strings.ToUpper(name) != name || strings.Contains(name, "SECRET") || strings.Contains(name, "EMULATOR") {
			t.Errorf("%s", line)
		}
	}
}
