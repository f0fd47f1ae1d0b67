package registration_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// withServer are facts about a token with commands.
func withServer(pairs ...string) *registration.Facts {
	f := facts(pairs...)
	f.Settings.ServerURL, f.Settings.InstallScriptSHA256 = "https://drover.example.com", "5c41b7"
	return f
}

// The Secret has the complete commands of the token's purpose, and follows every change of them.
func TestDecide_SecretHasCompleteCommands(t *testing.T) {
	t.Parallel()
	f := withServer("token", old, "expiresAt", at(0), "command", "of another purpose")
	d := registration.Decide(*f)
	got := data(d)
	if got["nodeCommand"] != strings.ReplaceAll(d.Status.NodeCommand, "{token}", fresh) ||
		!strings.Contains(got["nodeCommand"], " --token "+fresh) ||
		got["insecureNodeCommand"] != strings.ReplaceAll(d.Status.InsecureNodeCommand, "{token}", fresh) {
		t.Errorf("the replaced token has the commands %v", got)
	}
	keys := []string{"expiresAt", "gracePeriodExpiresAt", "insecureNodeCommand", "nodeCommand", "previousToken",
		"token"}
	if diff := cmp.Diff(keys, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("keys of a token for hosts (-want +got):\n%s", diff)
	}
	f.Secret = d.Secret
	if again := registration.Decide(*f); again.Secret != nil {
		t.Error("a settled token is written again")
	}
	f.Settings.InstallScriptSHA256 = "600d"
	if pinned := registration.PinnedScript(data(registration.Decide(*f))["insecureNodeCommand"]); pinned != "600d" {
		t.Errorf("after a change of the script, the command pins %q", pinned)
	}
	f.Registration.Labels[mgmtv3.TokenPurposeLabel] = mgmtv3.TokenPurposeAgent
	got = data(registration.Decide(*f))
	want := "https://drover.example.com/v3/import/" + fresh + "_c-m-1.yaml"
	if got["manifestUrl"] != want || got["command"] != "kubectl apply -f "+want || got["nodeCommand"] != "" {
		t.Errorf("a token for agents has the commands %v", got)
	}
}

// The status has the token only if the administrator asks for it.
func TestDecide_CommandsInStatus(t *testing.T) {
	t.Parallel()
	for setting, inStatus := range map[string]bool{"": false, registration.CommandsInSecret: false,
		registration.CommandsInStatus: true, "unknown": false} {
		f := withServer("token", old, "expiresAt", at(1))
		delete(f.Registration.Labels, mgmtv3.TokenPurposeLabel)
		f.Settings.Commands = setting
		d := registration.Decide(*f)
		for key, command := range map[string]string{"nodeCommand": d.Status.NodeCommand,
			"insecureNodeCommand": d.Status.InsecureNodeCommand, "command": d.Status.Command,
			"insecureCommand": d.Status.InsecureCommand, "manifestUrl": d.Status.ManifestURL} {
			if strings.Contains(command, old) != inStatus || strings.Contains(command, "{token}") == inStatus {
				t.Errorf("with setting %q, the status has %s %q", setting, key, command)
			}
			if complete := data(d)[key]; !strings.Contains(complete, old) {
				t.Errorf("with setting %q, the Secret has %s %q", setting, key, complete)
			}
		}
	}
}
