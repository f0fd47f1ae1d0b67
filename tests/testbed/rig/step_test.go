package rig

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// testPlan has secrets in a file and in an environment, and two instructions.
func testPlan() plan.NodePlan {
	config := `{"token": "join-token-of-the-cluster", "node-label": ["harmless=visible-label"], "etcd-s3-secret-key": "s3-secret-value"}`
	return plan.NodePlan{
		Files: []plan.File{{Path: "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml",
			Content: base64.StdEncoding.EncodeToString([]byte(config))}},
		Instructions: []plan.OneTimeInstruction{
			{CommonInstruction: plan.CommonInstruction{Name: "idempotence", Command: "/bin/sh"}, SaveOutput: true},
			{CommonInstruction: plan.CommonInstruction{Name: "install",
				Env: []string{"INSTALL_K3S_EXEC=server", "CATTLE_AGENT_TOKEN=environment-token"}}},
		},
	}
}

// planSecret returns a plan Secret with what an agent reported.
func planSecret(t *testing.T, reported map[string]string, outputs map[string]map[string][]byte) *corev1.Secret {
	t.Helper()
	encoded, err := nodeplan.Encode(testPlan())
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "one-machine-plan"},
		Data: map[string][]byte{nodeplan.KeyPlan: encoded}}
	for key, value := range reported {
		secret.Data[key] = []byte(strings.ReplaceAll(value, "<current>", nodeplan.Checksum(encoded)))
	}
	for key, output := range outputs {
		if secret.Data[key], err = nodeplan.EncodeOutput(output); err != nil {
			t.Fatal(err)
		}
	}
	return secret
}

func testMachine(phase, message string) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "one"},
		"status": map[string]any{"phase": phase, "conditions": []any{
			map[string]any{"type": "Ready", "status": "False", "message": message},
			map[string]any{"type": "Paused", "status": "True", "message": "not worth a line"},
		}},
	}}
}

func TestExplainMachine(t *testing.T) {
	var long []string
	for i := range 50 {
		long = append(long, fmt.Sprintf("line %d", i))
	}
	failed := map[string]string{nodeplan.KeyFailedChecksum: "<current>", nodeplan.KeyFailureCount: "3",
		nodeplan.KeyFailureThreshold: "3"}
	tests := map[string]struct {
		machine   unstructured.Unstructured
		plan      *corev1.Secret
		console   string
		want      string
		forbidden []string
	}{
		"a new machine has neither a plan nor a console": {
			machine: testMachine("Pending", "waiting for infrastructure"),
			want: "machine one: has no plan yet, its phase is pending\nmachine one: Ready is False: waiting for " +
				"infrastructure\n",
		},
		"a machine that has not reported has only its console": {
			machine: testMachine("Provisioning", "waiting for the agent"),
			plan:    planSecret(t, nil, nil),
			console: "\x1b[0;32m  OK  \x1b[0m Started ssh.\r\ncurl: (7) could not connect\r\n",
			want: "machine one: its agent has not reported on its plan yet\nmachine one: Ready is False: waiting " +
				"for the agent\n" +
				"machine one, its console ends with:\n[0;32m  OK  [0m Started ssh.\ncurl: (7) could not connect\n",
		},
		"a failed plan shows its failed instruction, without secrets": {
			machine: testMachine("Provisioning", "plan failed"),
			plan: planSecret(t, failed, map[string]map[string][]byte{nodeplan.KeyFailedOutput: {
				"idempotence": []byte("done before"), "long-gone": []byte("of a former plan"),
				"install": []byte(
					"using join-token-of-the-cluster and s3-secret-value for visible-label\npassword: " +
						"typed-by-hand\nk3s: exit 1"),
			}}),
			console: "console of long ago",
			want: "machine one: its plan failed 3 times\nmachine one: Ready is False: plan failed\n" +
				"machine one, the output of instruction install ends with:\n" +
				"using (hidden) and (hidden) for visible-label\npassword: (hidden)\nk3s: exit 1\n",
		},
		"a plan that did not start shows the agent's report": {
			machine: testMachine("Provisioning", "plan failed"),
			plan: planSecret(t, failed, map[string]map[string][]byte{nodeplan.KeyFailedOutput: {
				nodeplan.OutputAgentError: []byte("image environment-token/installer: not found"),
			}}),
			want: "machine one: its plan failed 3 times\nmachine one: Ready is False: plan failed\n" +
				"machine one, the report of its agent ends with:\nimage (hidden)/installer: not found\n",
		},
		"an applied plan shows its last output and failing probes": {
			machine: testMachine("Running", "waiting for probes"),
			plan: planSecret(t, map[string]string{
				nodeplan.KeyAppliedChecksum: "<current>",
				nodeplan.KeyProbeStatuses:   `{"kubelet":{"healthy":true},"etcd":{"healthy":false}}`,
			}, map[string]map[string][]byte{nodeplan.KeyAppliedOutput: {"idempotence": []byte("ran")}}),
			want: "machine one: its plan is applied, but these probes do not pass: etcd\nmachine one: Ready is " +
				"False: waiting for probes\n" +
				"machine one, the output of instruction idempotence ends with:\nran\n",
		},
		"a machine with an applied plan needs no output": {
			machine: testMachine("Running", ""),
			plan: planSecret(t, map[string]string{nodeplan.KeyAppliedChecksum: "<current>",
				nodeplan.KeyProbeStatuses: `{"etcd":{"healthy":true}}`}, nil),
			console: "console",
			want:    "machine one: its plan is applied and no probe fails\n",
		},
		"only the end of a long output is printed": {
			machine: testMachine("Provisioning", ""),
			plan: planSecret(t, failed, map[string]map[string][]byte{
				nodeplan.KeyFailedOutput: {"install": []byte(strings.Join(long, "\n"))},
			}),
			want: "machine one: its plan failed 3 times\nmachine one, the output of instruction install ends with:\n" +
				strings.Join(long[30:], "\n") + "\n",
		},
		"an unreadable output is reported": {
			machine: testMachine("Provisioning", ""),
			plan: planSecret(t, map[string]string{
				nodeplan.KeyFailedChecksum: "<current>", nodeplan.KeyFailureCount: "1",
				nodeplan.KeyFailedOutput: "not gzip",
			}, nil),
			want: "machine one: its plan failed 1 times (malformed key \"failed-output\" of plan secret " +
				"fleet-default/one-machine-plan: " +
				"must be gzip-compressed JSON of the documented form)\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := explainMachine(machineFacts{Machine: tt.machine, Plan: tt.plan, Console: tt.console})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedact_RemovesWhatLooksLikeASecret(t *testing.T) {
	key := "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"
	certified := plan.NodePlan{
		Files: []plan.File{
			{Content: base64.StdEncoding.EncodeToString([]byte("tls-bundle: |\n  " + key + "\n"))}},
		Instructions: []plan.OneTimeInstruction{
			{CommonInstruction: plan.CommonInstruction{Args: []string{"--token=argument-token",
				"--level=argument-level"}}}},
	}
	for text, want := range map[string]string{
		"before " + key + " after":                       "before (hidden) after",
		"cut off: -----BEGIN RSA PRIVATE KEY-----\nMIIE": "cut off: (hidden)",
		`client-key-data: LS0tLS1CRUdJTg==`:              `client-key-data: (hidden)`,
		`{"registry-password":"abc","user":"me"}`:        `{"registry-password":"(hidden)","user":"me"}`,
		"Authorization: Bearer abc.def":                  "Authorization: Bearer (hidden)",
		"argument-token argument-level MHcCAQEE":         "(hidden) argument-level (hidden)",
		"the token of a node is in a file":               "the token of a node is in a file",
	} {
		if got := redact(text, certified); got != want {
			t.Errorf("redact(%q): got %q, want %q", text, got, want)
		}
	}
}
