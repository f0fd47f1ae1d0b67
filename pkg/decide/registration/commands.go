package registration

import (
	"fmt"
	"strings"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// placeholder stands for the token in the commands of a status. The Secret of the token has the complete commands.
const placeholder = "{token}"

// Keys of the complete commands in the Secret with a token. (docs/wire/secrets.md#registration-tokens.)
const (
	KeyCommand             = "command"
	KeyInsecureCommand     = "insecureCommand"
	KeyNodeCommand         = "nodeCommand"
	KeyInsecureNodeCommand = "insecureNodeCommand"
	KeyManifestURL         = "manifestUrl"
)

// Values of Settings.Commands.
const (
	// CommandsInSecret means that only the Secret with the token has complete commands. It is the default.
	CommandsInSecret = "secret"
	// CommandsInStatus means that the status has complete commands, too. All users who may get a
	// ClusterRegistrationToken then know its token.
	CommandsInStatus = "status"
)

// ImportPath is the path of the manifest of a cluster's agent. (docs/wire/endpoints.md#import.)
const ImportPath = "/v3/import/"

// ManifestURL is the URL of the manifest that installs a cluster's agent.
func ManifestURL(serverURL, token, cluster string) string {
	return serverURL + ImportPath + token + "_" + cluster + ".yaml"
}

// status describes where the token is, when it expires, and the commands that use it. It contains the token only if
// the settings ask for that.
func (f Facts) status(c Content) mgmtv3.ClusterRegistrationTokenStatus {
	token := placeholder
	if f.Settings.Commands == CommandsInStatus {
		token = c.Token
	}
	commands := f.commands(token)
	return mgmtv3.ClusterRegistrationTokenStatus{
		TokenSecretName: naming.RegistrationTokenSecret(f.Registration.Name), Hosts: f.Registration.Status.Hosts,
		ExpiresAt: formatTime(c.ExpiresAt), GracePeriodExpiresAt: formatTime(c.GraceEndsAt),
		Command: commands[KeyCommand], InsecureCommand: commands[KeyInsecureCommand],
		NodeCommand: commands[KeyNodeCommand], InsecureNodeCommand: commands[KeyInsecureNodeCommand],
		ManifestURL: commands[KeyManifestURL],
	}
}

// commands returns the commands with a token, by key of the Secret. A missing command has an empty value. There are no
// commands for Windows (docs/install.md#linux-only).
func (f Facts) commands(token string) map[string]string {
	commands := map[string]string{KeyCommand: "", KeyInsecureCommand: "", KeyNodeCommand: "",
		KeyInsecureNodeCommand: "", KeyManifestURL: ""}
	if f.Settings.ServerURL == "" {
		return commands
	}
	if Serves(Purposes(f.Registration), ForAgent) {
		manifest := ManifestURL(f.Settings.ServerURL, token, f.Registration.Spec.ClusterName)
		commands[KeyManifestURL] = manifest
		commands[KeyCommand] = "kubectl apply -f " + manifest
		// The digest of the manifest cannot be part of the command: the request for the manifest already gives the
		// token to an attacker.
		commands[KeyInsecureCommand] = "curl --insecure -sfL " + manifest + " | kubectl apply -f -"
	}
	if Serves(Purposes(f.Registration), ForNode) {
		commands[KeyNodeCommand], commands[KeyInsecureNodeCommand] = f.nodeCommand(token), f.insecureNodeCommand(token)
	}
	return commands
}

// nodeCommand installs the agent on a Linux host.
func (f Facts) nodeCommand(token string) string {
	environment := f.environment()
	return fmt.Sprintf("%scurl -fL %s | sudo %ssh -s - %s", environment, f.scriptURL(), environment,
		f.nodeArguments(token))
}

// insecureNodeCommand is nodeCommand for a host that does not trust the server's certificate yet. It runs the script
// only if the script has the digest that the command names. The arguments come last, because users add some.
func (f Facts) insecureNodeCommand(token string) string {
	if f.Settings.InstallScriptSHA256 == "" {
		return ""
	}
	environment := f.environment()
	return fmt.Sprintf(`%scurl --insecure -fL %s | sudo %ssh -c 'f=$(mktemp) && trap "rm -f $f" EXIT && cat >"$f" && `+
		`{ echo "%s  $f" | sha256sum -c - || { echo "The script has changed: get a new command." >&2; exit 1; }; } && `+
		`sh "$f" "$@"' sh %s`,
		environment, f.scriptURL(), environment, f.Settings.InstallScriptSHA256, f.nodeArguments(token))
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
func (f Facts) nodeArguments(token string) string {
	arguments := []string{"--server", f.Settings.ServerURL, "--label 'cattle.io/os=linux'", "--token", token}
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
