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

// Names of the variables with special rules.
const (
	strictVerify = "STRICT_VERIFY"
	agentVarDir  = "CATTLE_AGENT_VAR_DIR"
)

// ReasonBadInput is the reason of condition Ready on an RKEBootstrap while the user's input permits no bootstrap data.
const ReasonBadInput = "BadInput"

// Script is the input for a machine's script.
type Script struct {
	// Installer is the text that installs the agent: a POSIX shell script.
	Installer string
	// ServerURL is the URL at which the machine reaches the server, without a trailing slash.
	ServerURL string
	// CAChecksum is the SHA-256 of the server's certificate authority, in hexadecimal. Empty when the system trusts the
	// authority.
	CAChecksum string
	// AccountToken is the token of the machine's bootstrap account. Only its digest is rendered.
	AccountToken string
	// Env are the user's variables for the agent.
	Env []rkev1.EnvVar
	// AgentDataDir is the agent's data directory. Empty means the agent's default.
	AgentDataDir string
	// ServesAgent is true when the server offers the agent's program at /assets. Otherwise the installer knows its
	// source.
	ServesAgent bool
}

// variable is one assignment. Assignments keep their order.
type variable struct{ name, value string }

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// powershellPrefix may precede a variable's name. It is not part of the name. Clusters of Rancher that had Windows
// machines have such variables.
const powershellPrefix = "$env:"

// ValidVariable reports whether a shell accepts a variable of this name. PowerShell's prefix may precede it.
func ValidVariable(name string) bool {
	return identifier.MatchString(strings.TrimPrefix(name, powershellPrefix))
}

// userVariables returns the user's variables for the agent, without those that have no value. A name that no shell
// accepts is an error, because the user relies on the variable.
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
		return nil, fmt.Errorf("spec.agentEnvVars: the names %q are invalid in a shell: use letters, digits and _, "+
			"and do not start with a digit", invalid)
	}
	if s.AgentDataDir != "" {
		variables = append(variables, variable{agentVarDir, s.AgentDataDir})
	}
	// Without a checksum the installer relies on the system's authorities, and there is nothing to verify more
	// strictly.
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
	return append(variables, variable{"CATTLE_ROLE_NONE", "true"},
		variable{"CATTLE_TOKEN", naming.TokenHash(s.AccountToken)})
}

const shebang = "#!/usr/bin/env sh"

// Linux renders the script for Linux. The error lists the user's variables that no shell accepts.
func Linux(s Script) (string, error) {
	user, err := s.userVariables()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(shebang + "\n")
	for _, v := range slices.Concat(user, s.serverVariables()) {
		out.WriteString("export " + v.name + "=" + ShellQuote(v.value) + "\n")
	}
	out.WriteString("\n" + withoutShebang(s.Installer))
	return out.String(), nil
}

// ShellQuote returns a value in single quotes for a POSIX shell.
func ShellQuote(value string) string { return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'" }

func withoutShebang(script string) string {
	if !strings.HasPrefix(script, "#!") {
		return script
	}
	_, rest, _ := strings.Cut(script, "\n")
	return rest
}
