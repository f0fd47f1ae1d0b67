package supportbundle

import (
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// maxOutput is the limit for an output, in bytes.
const maxOutput = 2000

// plan summarizes a plan Secret.
func (h *hider) plan(secret *unstructured.Unstructured) any {
	state, err := nodeplan.Parse(secret.GetNamespace()+"/"+secret.GetName(),
		contents(secret.DeepCopy().Object, "data", true))
	out := map[string]any{
		"secret": secret.GetNamespace() + "/" + secret.GetName(), "machine": secret.GetLabels()[rkev1.MachineNameLabel],
		"bytes":    len(state.PlanBytes),
		"checksum": state.Checksum, "appliedChecksum": state.AppliedChecksum, "failedChecksum": state.FailedChecksum,
		"failureCount": state.FailureCount,
		"maxFailures":  state.MaxFailures, "failureThreshold": state.FailureThreshold,
		"lastApplyTime": state.LastApplyTime, "inSync": state.InSync, "failed": state.Failed,
		"delivered":    secret.GetAnnotations()[rkev1.PlanUpdatedTimeAnnotation],
		"probesPassed": secret.GetAnnotations()[rkev1.PlanProbesPassedAnnotation],
	}
	if err != nil {
		out["problem"] = err.Error()
	}
	out["files"], out["instructions"], out["probes"] = h.files(state.Plan.Files), h.instructions(&state.Plan),
		probes(&state)
	// Outputs are masked later, when all secrets are known.
	out["outputs"], out["failedOutputs"] = outputs(state.Output), outputs(state.FailedOutput)
	periodic := map[string]any{}
	for name, output := range state.PeriodicOutput {
		periodic[name] = map[string]any{
			"exitCode": output.ExitCode, "failures": output.Failures, "lastSuccess": output.LastSuccessfulRunTime,
			"lastFailure": output.LastFailedRunTime,
			"stdoutBytes": len(output.Stdout), "stderrBytes": len(output.Stderr),
		}
	}
	out["periodic"] = periodic
	return out
}

// files lists the files that a plan writes on the host. It hides their content, except harmless keys in the
// distribution's configuration.
func (h *hider) files(files []plan.File) []any {
	out := make([]any, 0, len(files))
	for _, file := range files {
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			content = []byte(file.Content)
		}
		entry := map[string]any{"path": file.Path, "permissions": file.Permissions, "bytes": len(content)}
		if file.Action != "" {
			entry["action"] = file.Action
		}
		var tree any
		if yaml.Unmarshal(content, &tree) == nil {
			if config, ok := tree.(map[string]any); ok && strings.Contains(file.Path, "/config.yaml.d/") {
				entry["config"] = h.walk("config", config)
			} else {
				h.walk("", tree) // remembers the values with secret names
			}
		}
		out = append(out, entry)
	}
	return out
}

func (h *hider) instructions(p *plan.NodePlan) []any {
	var out []any
	add := func(c plan.CommonInstruction, kind string) {
		env := make([]any, 0, len(c.Env))
		for _, pair := range c.Env {
			name, value, _ := strings.Cut(pair, "=")
			env = append(env, name+"="+h.variable(name, value))
		}
		args := make([]any, 0, len(c.Args))
		for _, arg := range c.Args {
			args = append(args, arg)
		}
		out = append(out, map[string]any{"name": c.Name, "kind": kind, "image": c.Image, "command": c.Command,
			"args": h.arguments(args), "env": env, "scriptBytes": len(c.Script)})
	}
	for _, one := range p.Instructions {
		add(one.CommonInstruction, "one-time")
	}
	for _, one := range p.PeriodicInstructions {
		add(one.CommonInstruction, "periodic")
	}
	return out
}

// variable shows the value of a variable that Drover sets itself, and hides others.
func (h *hider) variable(name, value string) string {
	if name == "RESTART_STAMP" || name == "DRAIN_HASH" || strings.HasPrefix(name, "INSTALL_") && !redact.Named(name) ||
		strings.HasSuffix(name, "_DATA_DIR") {
		return value
	}
	return h.named(name, value)
}

func probes(state *nodeplan.State) map[string]any {
	out := map[string]any{}
	for name, probe := range state.Plan.Probes {
		status, reported := state.ProbeStatuses[name]
		out[name] = map[string]any{
			"reported": reported, "healthy": status.Healthy, "failures": status.FailureCount,
			"url": probe.HTTPGetAction.URL,
		}
	}
	return out
}

// output is what an instruction has printed. Files masks it last and keeps only its end.
type output []byte

func outputs(outputs map[string][]byte) map[string]any {
	out := map[string]any{}
	for name, text := range outputs {
		out[name] = output(text)
	}
	return out
}
