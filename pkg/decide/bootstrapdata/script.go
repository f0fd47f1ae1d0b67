package bootstrapdata

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// Names of the variables that have rules of their own.
const (
	strictVerify = "STRICT_VERIFY"
	agentVarDir  = "CATTLE_AGENT_VAR_DIR"
)

// ReasonBadInput goes with condition Ready of an RKEBootstrap while no bootstrap data can be made of what a person wrote.
const ReasonBadInput = "BadInput"

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

// powershellPrefix is how users write a variable's name for Windows; it is no part of the name.
const powershellPrefix = "$env:"

// ValidVariable tells whether a shell can have a variable of this name. PowerShell's prefix may stand before it.
func ValidVariable(name string) bool {
	return identifier.MatchString(strings.TrimPrefix(name, powershellPrefix))
}

// userVariables are the variables that the agent gets from the user, without those that have no value. A name that no
// shell can have is an error: whoever set it counts on it.
func (s Script) userVariables() ([]variable, error) {
	var variables []variable
	var invalid []string
	for _, env := range s.Env {
		name := strings.TrimPrefix(env.Name, powershellPrefix)
		switch {
		case env.Value == "" || name == agentVarDir:
		case !ValidVariable(env.Name):
			invalid = append(invalid, redact.Variable(env.Name))
		default:
			variables = append(variables, variable{name, env.Value})
		}
	}
	if len(invalid) > 0 {
		return nil, fmt.Errorf("spec.agentEnvVars: no shell can have variables with the names %q: use letters, digits and _, not a digit first", invalid)
	}
	if s.AgentDataDir != "" {
		variables = append(variables, variable{agentVarDir, s.AgentDataDir})
	}
	// Without a checksum there is nothing to be stricter about than the system's authorities.
	if s.CAChecksum != "" && !slices.ContainsFunc(variables, func(v variable) bool { return v.name == strictVerify }) {
		variables = append(variables, variable{strictVerify, "true"})
	}
	return variables, nil
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

// Linux renders the script for Linux. An error says which of the user's variables no shell can have.
func Linux(s Script) (string, error) {
	user, err := s.userVariables()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(shebang + "\n")
	for _, v := range slices.Concat(user, s.serverVariables()) {
		out.WriteString("export " + v.name + "=" + shellQuote(v.value) + "\n")
	}
	out.WriteString("\n" + withoutShebang(s.Installer))
	return out.String(), nil
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

// Windows renders the script for Windows; see Linux for the error. The installer comes first, because a PowerShell script
// has to begin with its parameters.
func Windows(s Script) (string, error) {
	user, err := s.userVariables()
	if err != nil {
		return "", err
	}
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
	return out.String(), nil
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
