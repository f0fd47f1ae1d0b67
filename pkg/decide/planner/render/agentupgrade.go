package render

import (
	_ "embed" // the script that nodes run
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/naming"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

//go:embed scripts/agent-upgrade.sh
var agentUpgradeShell string

// agentUpgradeIdentifier names the instruction that upgrades the agent.
const agentUpgradeIdentifier = "agent-upgrade"

// AgentPin says which agent a machine should run. It is stored on the Machine, and holds everything that the step of
// the plan needs. Therefore an upgrade of Drover changes no step.
type AgentPin struct {
	// Command, Redeploy and Auto are the requests that the pin answers: the text of the command, the generation for
	// redeployments, and the agent of the server that followed automatically.
	Command  string `json:"command,omitempty"`
	Redeploy int64  `json:"redeploy,omitempty"`
	Auto     string `json:"auto,omitempty"`
	// Agent is the program, nil to keep the present one.
	Agent *Agent `json:"agent,omitempty"`
	// Environment is true when the agent gets the environment of the cluster without another program.
	Environment bool `json:"environment,omitempty"`
	// Names are variables that earlier plans had. They are removed unless the cluster still has them.
	Names []string `json:"names,omitempty"`
}

// Agent is a program that a server offers to its machines, and the address of the server.
type Agent struct {
	Version string `json:"version"`
	// Sums are the SHA-256 of the program by architecture.
	Sums map[string]string `json:"sums"`
	// Server is the server's URL. CAChecksum is the SHA-256 of its authority, empty for the system's authorities.
	Server     string `json:"server"`
	CAChecksum string `json:"caChecksum,omitempty"`
}

// Identity distinguishes what servers offer.
func (a Agent) Identity() string {
	data, err := json.Marshal(a)
	if err != nil {
		return "" // texts only
	}
	return naming.SHA256(data)[:16]
}

// ParseAgentPin reads a stored pin. A text that no Drover wrote is no pin.
func ParseAgentPin(text string) AgentPin {
	var pin AgentPin
	if json.Unmarshal([]byte(text), &pin) != nil {
		return AgentPin{}
	}
	return pin
}

// String is the stored form, empty for the zero pin.
func (p AgentPin) String() string {
	data, err := json.Marshal(p)
	if err != nil || string(data) == "{}" {
		return ""
	}
	return string(data)
}

// HasStep reports that the plan of a machine with this pin contains a step.
func (p AgentPin) HasStep() bool { return p.Agent != nil || p.Environment }

// agentVariables are the variables of an installation that the agent itself reads under another name.
var agentVariables = map[string]string{
	"CATTLE_AGENT_LOGLEVEL": "CATTLE_LOGLEVEL", "CATTLE_LOGLEVEL": "CATTLE_LOGLEVEL",
	"STRICT_VERIFY": "CATTLE_AGENT_STRICT_VERIFY", "CATTLE_AGENT_STRICT_VERIFY": "CATTLE_AGENT_STRICT_VERIFY",
}

// agentVariable is the name under which the agent gets a variable of the cluster. It is empty for variables that only
// an installation reads, such as the agent's directories.
func agentVariable(name string) string {
	if known := agentVariables[name]; known != "" {
		return known
	}
	if strings.HasPrefix(name, "CATTLE_") {
		return ""
	}
	return name
}

// AgentStep is the step of a plan that upgrades the agent: two files and an instruction.
type AgentStep struct {
	files       []plan.File
	instruction plan.OneTimeInstruction
	// ID identifies the request. The node's result begins with it.
	ID string
}

// AgentStep returns the step of a pin, or false when the pin has none.
func (n Node) AgentStep(pin AgentPin, env []rkev1.EnvVar) (AgentStep, bool) {
	if !pin.HasStep() {
		return AgentStep{}, false
	}
	script, settings := n.agentFile("agent-upgrade.sh"), n.agentFile("settings")
	text := agentSettings(pin, env)
	id := naming.SHA256(text + pin.String())[:16]
	text = "ID=" + id + "\n" + text
	return AgentStep{
		ID:    id,
		files: []plan.File{dynamic(script, agentUpgradeShell), dynamic(settings, text)},
		instruction: n.Idempotent(agentUpgradeIdentifier, id,
			Command{Name: "/bin/sh", Args: []string{script, "start", settings}}),
	}, true
}

func (n Node) agentFile(name string) string {
	return path.Join(n.Dirs.Provisioning, "agent-upgrade", name)
}

// dynamic is a file whose change restarts nothing.
func dynamic(path, content string) plan.File {
	return plan.File{
		Path: path, Content: base64.StdEncoding.EncodeToString([]byte(content)), Dynamic: true, Minor: true,
	}
}

// agentSettings are the inputs of the script, as assignments.
func agentSettings(pin AgentPin, env []rkev1.EnvVar) string {
	var b strings.Builder
	agent := Agent{}
	if pin.Agent != nil {
		agent = *pin.Agent
	}
	fmt.Fprintf(&b, "AGENT_VERSION=%s\nSERVER=%s\nCA_CHECKSUM=%s\n", bootstrapdata.ShellQuote(agent.Version),
		bootstrapdata.ShellQuote(strings.TrimSuffix(agent.Server, "/")), bootstrapdata.ShellQuote(agent.CAChecksum))
	for _, arch := range slices.Sorted(maps.Keys(agent.Sums)) {
		fmt.Fprintf(&b, "SUM_%s=%s\n", arch, bootstrapdata.ShellQuote(agent.Sums[arch]))
	}
	names := map[string]bool{}
	for _, name := range pin.Names {
		names[agentVariable(name)] = true
	}
	var lines []string
	for _, e := range env {
		if name := agentVariable(e.Name); name != "" && e.Value != "" {
			names[name] = true
			lines = append(lines, name+`="`+unitEscaper.Replace(e.Value)+`"`)
		}
	}
	delete(names, "")
	known := strings.Join(slices.Sorted(maps.Keys(names)), " ")
	fmt.Fprintf(&b, "NAMES=%s\nENVIRONMENT=%s\n", bootstrapdata.ShellQuote(known),
		bootstrapdata.ShellQuote(strings.Join(lines, "\n")))
	return b.String()
}

// unitEscaper escapes a value in an environment file of systemd.
var unitEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`)

// agentUpgrade is the last step of a plan, after the installation.
func agentUpgrade(m *machinePlan) error {
	if m.spec.UnmanagedConfig {
		return nil
	}
	m.out = NodeOf(m.in).WithAgentStep(m.out, ParseAgentPin(m.in.Machine.AgentPin), m.spec.AgentEnvVars)
	return nil
}

// removedVariables are variables that earlier plans had and the cluster no longer has. The installation gets them
// empty, because it inherits the environment of the agent, which still has them while this plan runs and does not have
// them later. Installers restart Kubernetes when a proxy changes, so both must look the same.
func removedVariables(m *machinePlan) []string {
	has := map[string]bool{}
	for _, env := range m.spec.AgentEnvVars {
		has[env.Name] = env.Value != ""
	}
	return slices.DeleteFunc(ParseAgentPin(m.in.Machine.AgentPin).Names, func(name string) bool { return has[name] })
}

// WithAgentStep returns a plan with the step of a pin in place of its present one.
func (n Node) WithAgentStep(p plan.NodePlan, pin AgentPin, env []rkev1.EnvVar) plan.NodePlan {
	step, ok := n.AgentStep(pin, env)
	if !ok {
		return p
	}
	p.Files = slices.DeleteFunc(slices.Clone(p.Files), func(f plan.File) bool {
		return f.Path == step.files[0].Path || f.Path == step.files[1].Path
	})
	p.Instructions = WithoutAgentStep(p.Instructions)
	if !slices.ContainsFunc(p.Files, func(f plan.File) bool { return f.Path == n.idempotentScript().Path }) {
		p.Files = append(p.Files, n.idempotentScript())
	}
	p.Files = append(p.Files, step.files...)
	p.Instructions = append(p.Instructions, step.instruction)
	return p
}

// WithoutAgentStep returns instructions without the upgrade of the agent, which restarts nothing else. The result
// shares nothing with the input.
func WithoutAgentStep(instructions []plan.OneTimeInstruction) []plan.OneTimeInstruction {
	return slices.DeleteFunc(slices.Clone(instructions), func(i plan.OneTimeInstruction) bool {
		return strings.HasPrefix(i.Name, "idempotent-"+agentUpgradeIdentifier+"-")
	})
}

// RequestsAgent reports that a plan contains the upgrade with that identifier.
func RequestsAgent(p plan.NodePlan, id string) bool {
	return slices.ContainsFunc(p.Instructions, func(i plan.OneTimeInstruction) bool {
		return strings.HasPrefix(i.Name, "idempotent-"+agentUpgradeIdentifier+"-"+naming.SHA256(id)+"-")
	})
}

// HasAgentStep reports that a plan upgrades the agent.
func HasAgentStep(p plan.NodePlan) bool {
	return len(WithoutAgentStep(p.Instructions)) != len(p.Instructions)
}

// InstalledVariables are the names of the cluster's variables in a delivered plan.
func InstalledVariables(p plan.NodePlan) []string {
	var names []string
	for _, pair := range installEnv(p) {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case name == envRestartStamp, name == envDrainHash, strings.HasSuffix(name, "_DATA_DIR"),
			strings.HasPrefix(name, "INSTALL_"):
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
