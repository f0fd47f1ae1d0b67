package supportbundle

import (
	"encoding/base64"
	"maps"
	"slices"
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
	data := map[string][]byte{}
	encoded, _, _ := unstructured.NestedStringMap(secret.Object, "data") // a Secret without data has no plan
	for key, value := range encoded {
		if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
			data[key] = plain
		}
	}
	state, err := nodeplan.Parse(secret.GetNamespace()+"/"+secret.GetName(), data)
	out := map[string]any{
		"secret": secret.GetNamespace() + "/" + secret.GetName(), "machine": secret.GetLabels()[rkev1.MachineNameLabel], "bytes": int64(len(state.PlanBytes)),
		"checksum": state.Checksum, "appliedChecksum": state.AppliedChecksum, "failedChecksum": state.FailedChecksum, "failureCount": int64(state.FailureCount),
		"maxFailures": int64(state.MaxFailures), "failureThreshold": int64(state.FailureThreshold), "lastApplyTime": state.LastApplyTime, "inSync": state.InSync, "failed": state.Failed,
		"delivered": secret.GetAnnotations()[rkev1.PlanUpdatedTimeAnnotation], "probesPassed": secret.GetAnnotations()[rkev1.PlanProbesPassedAnnotation],
	}
	if err != nil {
		out["problem"] = err.Error()
	}
	out["files"], out["instructions"] = h.files(state.Plan.Files), h.instructions(&state.Plan)
	out["probes"] = probes(&state)
	// Outputs are masked later, when all secrets are known.
	out["outputs"], out["failedOutputs"] = h.outputs(state.Output), h.outputs(state.FailedOutput)
	periodic := map[string]any{}
	for name, output := range state.PeriodicOutput {
		periodic[name] = map[string]any{
			"exitCode": int64(output.ExitCode), "failures": int64(output.Failures), "lastSuccess": output.LastSuccessfulRunTime, "lastFailure": output.LastFailedRunTime,
			"stdoutBytes": int64(len(output.Stdout)), "stderrBytes": int64(len(output.Stderr)),
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
		entry := map[string]any{"path": file.Path, "permissions": file.Permissions, "bytes": int64(len(content))}
		if file.Action != "" {
			entry["action"] = file.Action
		}
		var tree any
		if yaml.Unmarshal(content, &tree) == nil {
			if config, ok := tree.(map[string]any); ok && strings.Contains(file.Path, "/config.yaml.d/") {
				entry["config"] = h.config(config)
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
		out = append(out, map[string]any{"name": c.Name, "kind": kind, "image": c.Image, "command": c.Command, "args": h.scripts(h.arguments(args)), "env": env, "scriptBytes": int64(len(c.Script))})
	}
	for _, one := range p.Instructions {
		add(one.CommonInstruction, "one-time")
	}
	for _, one := range p.PeriodicInstructions {
		add(one.CommonInstruction, "periodic")
	}
	return out
}

// scripts hides arguments with several lines: scripts and whole documents.
func (h *hider) scripts(node any) any {
	list, ok := node.([]any)
	if !ok {
		return node
	}
	for i, item := range list {
		if text, isText := item.(string); isText && (strings.Contains(text, "\n") || len(text) > longest) {
			list[i] = hidden(len(text))
		}
	}
	return list
}

// variable shows the value of a variable that Drover sets itself, and hides others.
func (h *hider) variable(name, value string) string {
	name = strings.TrimPrefix(name, "WINS_")
	if name == "RESTART_STAMP" || name == "DRAIN_HASH" || strings.HasPrefix(name, "INSTALL_") && !redact.Named(name) || strings.HasSuffix(name, "_DATA_DIR") {
		return value
	}
	return h.named(name, value)
}

func probes(state *nodeplan.State) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(state.Plan.Probes)) {
		status, reported := state.ProbeStatuses[name]
		out[name] = map[string]any{"reported": reported, "healthy": status.Healthy, "failures": int64(status.FailureCount), "url": state.Plan.Probes[name].HTTPGetAction.URL}
	}
	return out
}

// output is what an instruction has printed. Files masks it last and keeps only its end.
type output []byte

func (h *hider) outputs(outputs map[string][]byte) map[string]any {
	out := map[string]any{}
	for name, text := range outputs {
		out[name] = output(text)
	}
	return out
}
