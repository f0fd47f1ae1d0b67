package registration

import (
	"fmt"
	"strings"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// placeholder stands for the token in commands. The caller that shows a command inserts the token, for users with read
// access to its Secret.
const placeholder = "{token}"

// ImportPath is the path of the manifest of a cluster's agent. (docs/wire/endpoints.md#import.)
const ImportPath = "/v3/import/"

// ManifestURL is the URL of the manifest that installs a cluster's agent.
func ManifestURL(serverURL, token, cluster string) string {
	return serverURL + ImportPath + token + "_" + cluster + ".yaml"
}

// status describes where the token is, when it expires, and the commands that use it. It never contains the token.
// There are no commands for Windows, because the server has no installer for it.
func (f Facts) status(c Content) mgmtv3.ClusterRegistrationTokenStatus {
	status := mgmtv3.ClusterRegistrationTokenStatus{
		TokenSecretName: naming.RegistrationTokenSecret(f.Registration.Name),
		ExpiresAt:       formatTime(c.ExpiresAt), GracePeriodExpiresAt: formatTime(c.GraceEndsAt),
	}
	if f.Settings.ServerURL == "" {
		return status
	}
	if Serves(f.Registration.Labels, ForAgent) {
		status.ManifestURL = ManifestURL(f.Settings.ServerURL, placeholder, f.Registration.Spec.ClusterName)
		status.Command = "kubectl apply -f " + status.ManifestURL
		status.InsecureCommand = "curl --insecure -sfL " + status.ManifestURL + " | kubectl apply -f -"
	}
	if Serves(f.Registration.Labels, ForNode) {
		status.NodeCommand = f.nodeCommand("")
		status.InsecureNodeCommand = f.nodeCommand("--insecure ")
	}
	return status
}

// nodeCommand installs the agent on a Linux host.
func (f Facts) nodeCommand(flag string) string {
	environment, checksum := f.environment(), ""
	if f.Settings.CAChecksum != "" {
		checksum = " --ca-checksum " + f.Settings.CAChecksum
	}
	return fmt.Sprintf(
		"%scurl %s-fL %s/system-agent-install.sh | sudo %ssh -s - --server %s "+
			"--label 'cattle.io/os=linux' --token %s%s",
		environment, flag, f.Settings.ServerURL, environment, f.Settings.ServerURL, placeholder, checksum)
}

// inQuotes escapes a value for a shell's double quotes.
var inQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`)

// environment sets the variables before a command. It skips variables whose values come from an object inside a
// cluster.
func (f Facts) environment() string {
	var out strings.Builder
	for _, variable := range f.Environment {
		if variable.ValueFrom == nil && isName(variable.Name) {
			fmt.Fprintf(&out, `%s="%s" `, variable.Name, inQuotes.Replace(variable.Value))
		}
	}
	return out.String()
}

// isName reports whether a shell accepts a text as the name of a variable.
func isName(text string) bool {
	for i, r := range text {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return text != ""
}
