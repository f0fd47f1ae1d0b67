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
		TokenSecretName: naming.RegistrationTokenSecret(f.Registration.Name), Hosts: f.Registration.Status.Hosts,
		ExpiresAt: formatTime(c.ExpiresAt), GracePeriodExpiresAt: formatTime(c.GraceEndsAt),
	}
	if f.Settings.ServerURL == "" {
		return status
	}
	if Serves(Purposes(f.Registration), ForAgent) {
		status.ManifestURL = ManifestURL(f.Settings.ServerURL, placeholder, f.Registration.Spec.ClusterName)
		status.Command = "kubectl apply -f " + status.ManifestURL
		// The digest of the manifest cannot be part of the command: the request for the manifest already gives the
		// token to an attacker.
		status.InsecureCommand = "curl --insecure -sfL " + status.ManifestURL + " | kubectl apply -f -"
	}
	if Serves(Purposes(f.Registration), ForNode) {
		status.NodeCommand, status.InsecureNodeCommand = f.nodeCommand(), f.insecureNodeCommand()
	}
	return status
}

// nodeCommand installs the agent on a Linux host.
func (f Facts) nodeCommand() string {
	environment := f.environment()
	return fmt.Sprintf("%scurl -fL %s | sudo %ssh -s - %s", environment, f.scriptURL(), environment, f.nodeArguments())
}

// insecureNodeCommand is nodeCommand for a host that does not trust the server's certificate yet. It runs the script
// only if the script has the digest that the command names. The arguments come last, because users add some.
func (f Facts) insecureNodeCommand() string {
	if f.Settings.InstallScriptSHA256 == "" {
		return ""
	}
	environment := f.environment()
	return fmt.Sprintf(`%scurl --insecure -fL %s | sudo %ssh -c 'f=$(mktemp) && trap "rm -f $f" EXIT && cat >"$f" && `+
		`{ echo "%s  $f" | sha256sum -c - || { echo "The script has changed: get a new command." >&2; exit 1; }; } && `+
		`sh "$f" "$@"' sh %s`,
		environment, f.scriptURL(), environment, f.Settings.InstallScriptSHA256, f.nodeArguments())
}

// PinnedScript returns the SHA-256 of the script in an insecure command for hosts, "" without one.
func PinnedScript(insecureNodeCommand string) string {
	_, rest, _ := strings.Cut(insecureNodeCommand, `{ echo "`)
	digest, _, found := strings.Cut(rest, `  $f" | sha256sum`)
	if !found {
		return ""
	}
	return digest
}

func (f Facts) scriptURL() string { return f.Settings.ServerURL + "/system-agent-install.sh" }

// nodeArguments are the arguments of the script. They contain roles only if the token limits the roles.
func (f Facts) nodeArguments() string {
	arguments := []string{"--server", f.Settings.ServerURL, "--label 'cattle.io/os=linux'", "--token", placeholder}
	if f.Settings.CAChecksum != "" {
		arguments = append(arguments, "--ca-checksum", f.Settings.CAChecksum)
	}
	for _, role := range f.Registration.Spec.Roles {
		arguments = append(arguments, roleFlags[role])
	}
	return strings.Join(arguments, " ")
}

// roleFlags are the flags of the install script for roles.
var roleFlags = map[string]string{
	mgmtv3.HostRoleEtcd: "--etcd", mgmtv3.HostRoleControlPlane: "--controlplane", mgmtv3.HostRoleWorker: "--worker",
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
