package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodKubeconfig = `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"agent","cluster":{"server":"https://127.0.0.1:1"}}],` +
	`"users":[{"name":"agent","user":{"token":"hunter2"}}],"contexts":[{"name":"agent","context":{"cluster":"agent","user":"agent"}}],"current-context":"agent"}`

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

func TestCommand_ValidateConnection(t *testing.T) {
	tests := map[string]struct {
		content string
		name    string
		mode    os.FileMode
		wantErr string // empty if accepted
	}{
		"proper": {content: `{"kubeConfig":` + quoted(goodKubeconfig) +
			`,"namespace":"ns","secretName":"s"}`},
		"valid YAML": {name: "connection.yaml", content: "namespace: ns\nsecretName: s\nkubeConfig: '" +
			goodKubeconfig + "'\n"},
		"readable by others": {content: `{}`, mode: 0o644, wantErr: "must be 0600"},
		"no kubeconfig":      {content: `{"namespace":"ns","secretName":"s"}`, wantErr: "kubeConfig must not be empty"},
		"no secret":          {content: `{"kubeConfig":"x","namespace":"ns"}`, wantErr: "secretName must not be empty"},
		"not JSON":           {content: `<html>hunter2`, wantErr: "must have the documented format"},
		"not a kubeconfig": {content: `{"kubeConfig":"hunter2","namespace":"ns","secretName":"s"}`,
			wantErr: "not a kubeconfig"},
		"plain http": {
			content: `{"kubeConfig":` + quoted(strings.Replace(goodKubeconfig, "https://", "http://", 1)) +
				`,"namespace":"ns","secretName":"s"}`, wantErr: "must be an https URL",
		},
		"verification off": {
			content: `{"kubeConfig":` +
				quoted(strings.Replace(goodKubeconfig, `"server"`, `"insecure-skip-tls-verify":true,"server"`, 1)) +
				`,"namespace":"ns","secretName":"s"}`, wantErr: "must not be set",
		},
		"another file name": {name: "connection.txt", content: `{}`, wantErr: ".json or .yaml"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.name == "" {
				tc.name = "connection.json.tmp"
			}
			if tc.mode == 0 {
				tc.mode = 0o600
			}
			path := filepath.Join(t.TempDir(), tc.name)
			if err := os.WriteFile(path, []byte(tc.content), tc.mode); err != nil {
				t.Fatal(err)
			}
			err := execute(t, "validate-connection", path)
			switch {
			case tc.wantErr == "" && err != nil:
				t.Errorf("err = %v", err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("err = %v, want %q", err, tc.wantErr)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the error contains file content: %v", err)
			}
		})
	}
}

func execute(t *testing.T, args ...string) error {
	t.Helper()
	cmd := NewCommand(CommandOptions{Version: "v1", LogOutput: &bytes.Buffer{}})
	cmd.SetArgs(args)
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetErr(&bytes.Buffer{})
	return cmd.ExecuteContext(t.Context())
}

func TestCommand_ValidateConfig(t *testing.T) {
	tests := map[string]struct {
		content string
		wantErr string
	}{
		"as an install script writes it": {
			content: "workDirectory: /w\nlocalEnabled: false\nlocalPlanDirectory: /p\nappliedPlanDirectory: " +
				"/a\nremoteEnabled: true\nconnectionInfoFile: /c.json\npreserveWorkDirectory: " +
				"false\ninterlockDirectory: /i\n"},
		"neither local nor remote": {content: "workDirectory: /w\n", wantErr: "remoteEnabled or localEnabled"},
		"remote without connection": {content: "workDirectory: /w\nremoteEnabled: true\n",
			wantErr: "connectionInfoFile"},
		"local without plans": {content: "workDirectory: /w\nlocalEnabled: true\n", wantErr: "localPlanDirectory"},
		"no work directory": {content: "remoteEnabled: true\nconnectionInfoFile: /c.json\n",
			wantErr: "workDirectory"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			err := execute(t, "validate-config", path)
			if (err == nil) != (tc.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("err = %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestCommand_Version(t *testing.T) {
	var out bytes.Buffer
	cmd := NewCommand(CommandOptions{Version: "v1.2.3"})
	cmd.SetArgs([]string{"--version"})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil || out.String() != "rancher-system-agent version v1.2.3\n" {
		t.Errorf("version = %q, %v", out.String(), err)
	}
}

func TestCommand_UnknownIsAnError(t *testing.T) {
	if err := execute(t, "sentinal"); err == nil || !strings.Contains(err.Error(), `unknown command "sentinal"`) ||
		!strings.Contains(err.Error(), "--help") {
		t.Errorf("err = %v", err)
	}
	if err := execute(t); err != nil {
		t.Errorf("without a command: got %v, want help", err)
	}
}

func TestIsAgent(t *testing.T) {
	for argv0, want := range map[string]bool{
		"/usr/local/bin/rancher-system-agent": true, "./rancher-system-agent-amd64": true, "rancher-system-agent": true,
		"/usr/bin/drover": false, "": false,
	} {
		if got := IsAgent(argv0); got != want {
			t.Errorf("IsAgent(%q) = %v", argv0, got)
		}
	}
}

func TestRun_RefusesAnUntrustedServer(t *testing.T) {
	connection := filepath.Join(t.TempDir(), "connection.json")
	if err := os.WriteFile(connection,
		[]byte(`{"kubeConfig":`+quoted(goodKubeconfig)+`,"namespace":"ns","secretName":"s"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	config := Config{RemoteEnabled: true, ConnectionInfoFile: connection,
		WorkDirectory: filepath.Join(t.TempDir(), "work")}
	if err := Run(t.Context(), Options{Config: config, RequireCA: true, Log: quiet()}); err == nil ||
		!strings.Contains(err.Error(), "certificate-authority-data") {
		t.Errorf("err = %v, want a required authority", err)
	}
	if err := Run(t.Context(), Options{Config: config, Log: quiet()}); err == nil ||
		!strings.Contains(err.Error(), "reach server") {
		t.Errorf("err = %v, want that the server cannot be reached", err)
	}
}
