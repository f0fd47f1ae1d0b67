package bootstrapdata

import (
	"regexp"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/naming"
)

// Names of the variables that have rules of their own.
const (
	strictVerify = "STRICT_VERIFY"
	agentVarDir  = "CATTLE_AGENT_VAR_DIR"
)

// Script is what a machine's script is made of.
type Script struct {
	// Installer is the text that installs the agent: a POSIX shell script, or PowerShell for Windows.
	Installer string
	// ServerURL is where the machine reaches the server, without a slash at its end.
	ServerURL string
	// CAChecksum is the SHA-256, in hexadecimal, of the server's authority. Empty when the system's authorities know it.
	CAChecksum string
	// AccountToken is the token of the machine's bootstrap account. Only its digest is rendered.
	AccountToken string
	// Env are the user's variables for the agent.
	Env []rkev1.EnvVar
	// AgentDataDir is where the agent keeps its data. Empty means its own default.
	AgentDataDir string
	// ServesAgent is true when the server has the agent's program at /assets; otherwise the installer knows where it is.
	ServesAgent bool
	// CSIProxy is for Windows.
	CSIProxy CSIProxy
}

// CSIProxy tells a Windows machine where it gets the program that lets pods mount volumes.
type CSIProxy struct {
	URL, Version, KubeletPath string
}

// variable is one assignment, in the order in which it appears.
type variable struct{ name, value string }

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// UserVariables are the variables that the agent gets from the user, and the names of those that no shell can have, which
// are left out. Variables without a value are left out too.
func (s Script) userVariables() (variables []variable, invalid []string) {
	for _, env := range s.Env {
		name := strings.TrimPrefix(env.Name, "$env:")
		switch {
		case env.Value == "" || name == agentVarDir:
		case !identifier.MatchString(name):
			invalid = append(invalid, env.Name)
		default:
			variables = append(variables, variable{name, env.Value})
		}
	}
	if s.AgentDataDir != "" {
		variables = append(variables, variable{agentVarDir, s.AgentDataDir})
	}
	// Without a checksum there is nothing to be stricter about than the system's authorities.
	if s.CAChecksum != "" && !slices.ContainsFunc(variables, func(v variable) bool { return v.name == strictVerify }) {
		variables = append(variables, variable{strictVerify, "true"})
	}
	return variables, invalid
}

func (s Script) serverVariables() []variable {
	var variables []variable
	if s.ServesAgent {
		variables = append(variables, variable{"CATTLE_AGENT_BINARY_BASE_URL", s.ServerURL + "/assets"})
	}
	variables = append(variables, variable{"CATTLE_SERVER", s.ServerURL})
	if s.CAChecksum != "" {
		variables = append(variables, variable{"CATTLE_CA_CHECKSUM", s.CAChecksum})
	}
	return append(variables, variable{"CATTLE_ROLE_NONE", "true"}, variable{"CATTLE_TOKEN", naming.TokenHash(s.AccountToken)})
}

const shebang = "#!/usr/bin/env sh"

// Linux renders the script for Linux. It also returns the names of the user's variables that were left out because no shell
// can have them.
func Linux(s Script) (script string, invalid []string) {
	user, invalid := s.userVariables()
	var out strings.Builder
	out.WriteString(shebang + "\n")
	for _, v := range slices.Concat(user, s.serverVariables()) {
		out.WriteString("export " + v.name + "=" + shellQuote(v.value) + "\n")
	}
	out.WriteString("\n" + withoutShebang(s.Installer))
	return out.String(), invalid
}

func shellQuote(value string) string { return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'" }

func withoutShebang(script string) string {
	if !strings.HasPrefix(script, "#!") {
		return script
	}
	_, rest, _ := strings.Cut(script, "\n")
	return rest
}

// windowsInstaller is the function that the installer for Windows defines.
const windowsInstaller = "Invoke-WinsInstaller"

// Windows renders the script for Windows; see Linux for the second result. The installer comes first, because a
// PowerShell script has to begin with its parameters.
func Windows(s Script) (script string, invalid []string) {
	user, invalid := s.userVariables()
	variables := slices.Concat(user, s.serverVariables())
	if s.CSIProxy.URL != "" {
		variables = append(variables, variable{"CSI_PROXY_URL", s.CSIProxy.URL}, variable{"CSI_PROXY_VERSION", s.CSIProxy.Version},
			variable{"CSI_PROXY_KUBELET_PATH", s.CSIProxy.KubeletPath})
	}
	var out strings.Builder
	out.WriteString(strings.TrimRight(s.Installer, "\r\n") + "\n\n")
	for _, v := range variables {
		out.WriteString("$env:" + v.name + "=" + powershellQuote(v) + "\n")
	}
	out.WriteString("\n" + windowsInstaller + " @PSBoundParameters\nexit 0\n")
	return out.String(), invalid
}

// powershellQuote renders booleans as such, except where the installer compares text.
func powershellQuote(v variable) string {
	if v.name != "CATTLE_ROLE_NONE" {
		switch strings.ToLower(v.value) {
		case "true":
			return "$true"
		case "false":
			return "$false"
		}
	}
	return "'" + strings.ReplaceAll(v.value, "'", "''") + "'"
}
