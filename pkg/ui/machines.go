package ui

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// maxOutput limits the output of a failed instruction, in bytes.
const maxOutput = 16 << 10

// planBody summarizes the plan of a machine. It has no contents of files, no arguments and no variables.
type planBody struct {
	// Delivered is when Drover wrote the plan, Applied when the agent last applied one.
	Delivered    *time.Time        `json:"delivered"`
	Applied      *time.Time        `json:"applied"`
	Failed       *failedBody       `json:"failed"`
	Instructions []instructionBody `json:"instructions"`
	// Files are paths on the host.
	Files        []string    `json:"files"`
	Probes       []probeBody `json:"probes"`
	AgentVersion string      `json:"agentVersion"`
}

// failedBody is the failure of a plan.
type failedBody struct {
	Instruction string `json:"instruction"`
	Attempts    int    `json:"attempts"`
	// Output is the end of what the instruction printed, without what looks like a secret.
	Output string `json:"output"`
}

// instructionBody is an instruction of a plan.
type instructionBody struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
}

// probeBody is a probe of a plan.
type probeBody struct {
	Name    string `json:"name"`
	Healthy bool   `json:"healthy"`
	// Since is when all probes last began to pass.
	Since *time.Time `json:"since,omitempty"`
}

func (u *ui) getPlan(w http.ResponseWriter, r *http.Request, c *caller) error {
	client, err := u.kinds.Client(c.config, clusterv1.GroupVersion)
	if err != nil {
		return err
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	machine := &clusterv1.Machine{}
	err = client.Get().Namespace(namespace).Resource("machines").Name(name).Timeout(callTime).Do(r.Context()).Into(
		machine)
	if err != nil {
		return err
	}
	secrets, err := c.kubernetes()
	if err != nil {
		return err
	}
	bootstrap := machine.Spec.Bootstrap.ConfigRef.Name
	if bootstrap == "" {
		return notFound(fmt.Sprintf("the Machine %s/%s has no plan yet", namespace, name))
	}
	secret, err := secrets.CoreV1().Secrets(namespace).Get(r.Context(), naming.PlanSecret(bootstrap),
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return notFound(fmt.Sprintf("the Machine %s/%s has no plan yet", namespace, name))
	}
	if err != nil {
		return err
	}
	// A malformed key leaves its part empty. Errors name keys only, and diagnose shows them.
	state, _ := nodeplan.Parse(namespace+"/"+secret.Name, secret.Data)
	writeJSON(w, http.StatusOK, planOf(state, secret.Annotations))
	return nil
}

// planOf summarizes a plan Secret.
func planOf(state nodeplan.State, annotations map[string]string) planBody {
	out := planBody{Instructions: []instructionBody{}, Files: []string{}, Probes: []probeBody{},
		AgentVersion: state.AgentVersion}
	out.Delivered = parseTime(time.RFC3339, annotations[rkev1.PlanUpdatedTimeAnnotation])
	if state.InSync {
		out.Applied = parseTime(time.UnixDate, state.LastApplyTime)
	}
	for _, each := range state.Plan.Instructions {
		out.Instructions = append(out.Instructions, instructionBody{each.Name, redact.Address(each.Image)})
	}
	for _, each := range state.Plan.Files {
		out.Files = append(out.Files, each.Path)
	}
	since := parseTime(time.RFC3339, annotations[rkev1.PlanProbesPassedAnnotation])
	for name := range state.Plan.Probes {
		probe := probeBody{Name: name, Healthy: state.ProbeStatuses[name].Healthy}
		if probe.Healthy {
			probe.Since = since
		}
		out.Probes = append(out.Probes, probe)
	}
	slices.SortFunc(out.Probes, func(a, b probeBody) int { return cmp.Compare(a.Name, b.Name) })
	if state.PlanExists && state.FailedChecksum == state.Checksum && !state.InSync {
		out.Failed = failedOf(state)
	}
	return out
}

// failedOf describes why a plan failed: the output of its command, or why the agent could not start it. Both can repeat
// the contents of the plan's files, which are masked. Agents of other vendors name no instruction.
func failedOf(state nodeplan.State) *failedBody {
	found, _ := nodeplan.FailureOf(state.FailedOutput)
	return &failedBody{Instruction: found.Instruction, Attempts: state.FailureCount,
		Output: lastOutput(found.Cause(state.FailedOutput), secretsOf(state.Plan))}
}

// secretsOf returns the values in a plan that have the names of secrets. Instructions can print them.
func secretsOf(p plan.NodePlan) *redact.Secrets {
	known := &redact.Secrets{}
	for _, each := range p.Files {
		content, err := base64.StdEncoding.DecodeString(each.Content)
		var tree any
		if err == nil && yaml.Unmarshal(content, &tree) == nil {
			addNamed(known, "", tree)
		}
	}
	for _, each := range p.Instructions {
		for _, pair := range each.Env {
			if name, value, _ := strings.Cut(pair, "="); redact.Named(name) {
				known.Add(value)
			}
		}
	}
	return known
}

func addNamed(known *redact.Secrets, name string, tree any) {
	switch value := tree.(type) {
	case map[string]any:
		for key, each := range value {
			addNamed(known, key, each)
		}
	case []any:
		for _, each := range value {
			addNamed(known, name, each)
		}
	case string:
		if redact.Named(name) {
			known.Add(value)
		}
	}
}

// lastOutput returns the last lines of an output, without what looks like a secret. It masks more than it returns, so
// that it does not split a secret.
func lastOutput(output []byte, known *redact.Secrets) string {
	text := known.Mask(string(output[max(0, len(output)-4*maxOutput):]))
	text = redact.Text(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= maxOutput {
		return text
	}
	text = text[len(text)-maxOutput:]
	return text[strings.IndexByte(text, '\n')+1:]
}

func parseTime(layout, text string) *time.Time {
	at, err := time.Parse(layout, text)
	if err != nil {
		return nil
	}
	at = at.UTC()
	return &at
}
