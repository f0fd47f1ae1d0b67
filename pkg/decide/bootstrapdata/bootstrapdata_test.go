package bootstrapdata_test

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/testkit/golden"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

func example() bootstrapdata.Script {
	return bootstrapdata.Script{
		Installer: "#!/bin/sh\necho installing\n", ServerURL: "https://drover.example.org",
		CAChecksum:   strings.Repeat("0a", 32),
		AccountToken: "eyJhbGciOi.example.sa-token", ServesAgent: true, AgentDataDir: "/data/agent",
		Env: []rkev1.EnvVar{
			{Name: "HTTPS_PROXY", Value: "http://it's:3128"}, {Name: "EMPTY"}, {Name: "no-name"},
			{Name: "CATTLE_AGENT_VAR_DIR", Value: "/ignored"}, {Name: "VERBOSE", Value: "true"},
		},
	}
}

func TestLinux(t *testing.T) {
	script, err := bootstrapdata.Linux(example())
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/linux.sh", script)
	if strings.Contains(script, example().AccountToken) {
		t.Error("the script contains the account's token")
	}
	if !strings.Contains(script, "MfM2hNIlcy2Va6jmhL7EtCt6-G9o-75GEmomHbmvw3I=") {
		t.Error("the script must contain the digest of the token")
	}
}

func TestLinux_Strictness(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*bootstrapdata.Script)
		want   string
		absent string
	}{
		"strict about Drover's own authority": {func(*bootstrapdata.Script) {}, "export STRICT_VERIFY='true'", ""},
		"the user decides": {
			func(s *bootstrapdata.Script) { s.Env = []rkev1.EnvVar{{Name: "STRICT_VERIFY", Value: "false"}} },
			"export STRICT_VERIFY='false'", "export STRICT_VERIFY='true'",
		},
		"the system's authorities": {func(s *bootstrapdata.Script) { s.CAChecksum = "" }, "CATTLE_SERVER",
			"STRICT_VERIFY"},
		"the agent comes from elsewhere": {
			func(s *bootstrapdata.Script) { s.ServesAgent = false }, "CATTLE_SERVER", "CATTLE_AGENT_BINARY_BASE_URL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := example()
			test.change(&s)
			script, err := bootstrapdata.Linux(s)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(script, test.want) || test.absent != "" && strings.Contains(script, test.absent) {
				t.Errorf("the script must contain %q and not %q:\n%s", test.want, test.absent, script)
			}
		})
	}
}

// TestLinux_AnyValueSurvivesTheShell runs the script: no value may end its quotes.
func TestLinux_AnyValueSurvivesTheShell(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.StringMatching(`[ -~\n]{1,20}`).Draw(r, "value")
		s := bootstrapdata.Script{
			Installer: "printf %s \"$ANY\"\n", ServerURL: "https://x", Env: []rkev1.EnvVar{{Name: "ANY", Value: value}},
		}
		script, err := bootstrapdata.Linux(s)
		if err != nil {
			r.Fatal(err)
		}
		got, err := exec.Command("sh", "-c", script).Output()
		if err != nil || string(got) != value {
			r.Fatalf("the installer sees %q (%v), want %q", got, err, value)
		}
	})
}

func TestCloudConfig(t *testing.T) {
	for name, userdata := range map[string]string{
		"bare": "",
		"merged": "#cloud-config\nhostname: mine\nwrite_files:\n- path: /etc/mine\n  content: x\nruncmd:\n- echo mine\n" +
			"users:\n- name: me\n",
		"null lists": "runcmd:\nwrite_files: null\n",
	} {
		t.Run(name, func(t *testing.T) {
			text, err := bootstrapdata.CloudConfig("#!/bin/sh\necho hello\n", userdata)
			if err != nil {
				t.Fatal(err)
			}
			rest, ok := strings.CutPrefix(text, "## template: jinja\n#cloud-config\n")
			if !ok {
				t.Fatalf("cloud-init does not recognize:\n%s", text)
			}
			var config struct {
				WriteFiles []map[string]string `json:"write_files"`
				RunCmd     []string            `json:"runcmd"`
			}
			if err := yaml.Unmarshal([]byte(rest), &config); err != nil {
				t.Fatal(err)
			}
			if got := packed.Read(t, config.WriteFiles[0]["content"]); got != "#!/bin/sh\necho hello\n" {
				t.Errorf("the first file contains %q", got)
			}
			if config.WriteFiles[0]["permissions"] != "0600" || config.RunCmd[0] != "sh "+config.WriteFiles[0]["path"] {
				t.Errorf("the script must be private and run first: %v %v", config.WriteFiles[0], config.RunCmd)
			}
			if name == "merged" {
				if config.RunCmd[1] != "echo mine" || config.WriteFiles[1]["path"] != "/etc/mine" ||
					!strings.Contains(text, "hostname: mine") {
					t.Errorf("the user's configuration is lost:\n%s", text)
				}
			}
		})
	}
}

// TestVariables_NoneIsDroppedSilently checks that an invalid variable is an error: the user relies on it.
func TestVariables_NoneIsDroppedSilently(t *testing.T) {
	s := example()
	s.Env = append(s.Env, rkev1.EnvVar{Name: "my.proxy", Value: "secret"}, rkev1.EnvVar{Name: "1ST", Value: "secret"},
		rkev1.EnvVar{Name: "A=secret", Value: "secret"})
	script, err := bootstrapdata.Linux(s)
	if err == nil || script != "" {
		t.Fatal("the script is rendered without them")
	}
	for _, want := range []string{"spec.agentEnvVars", `["my.proxy" "1ST" "A=***"]`, "use letters, digits and _"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q must contain %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q contains a value", err)
	}
}

func TestValidVariable(t *testing.T) {
	for name, want := range map[string]bool{
		"HTTP_PROXY": true, "_a1": true, "$env:DEBUG": true, "": false, "a-b": false, "a.b": false, "1a": false,
		"$env:": false, "Ä": false,
	} {
		if got := bootstrapdata.ValidVariable(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}

func TestCloudConfig_Refuses(t *testing.T) {
	for userdata, want := range map[string]string{
		"- a list":                       "must be a cloud-config: a YAML map",
		"runcmd: echo":                   "runcmd must be a list",
		"write_files: {}":                "write_files must be a list",
		"#!/bin/sh\na: b:":               "see line 2",
		"password: hunter2\nkeys: [a: b": "see line",
		"? {password: hunter2}\n: x":     "must be a cloud-config",
	} {
		_, err := bootstrapdata.CloudConfig("", userdata)
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "spec.userdata.inlineUserdata") {
			t.Fatalf("%q: error is %v, want %q with the field", userdata, err, want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %q contains a password", userdata, err)
		}
		if again := bootstrapdata.CheckUserdata(userdata); again == nil ||
			!strings.HasSuffix(err.Error(), again.Error()) {
			t.Errorf("%q: the check returns %v, but the merge %v", userdata, again, err)
		}
	}
}
