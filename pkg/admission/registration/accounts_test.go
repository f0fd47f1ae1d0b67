package registration

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// planSecret is the plan Secret of a machine with a report, as the API server shows it to policies.
func planSecret(edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	secret := object("v1", "Secret", "home", "demo-x-machine-plan", nil)
	delete(secret.Object, "spec")
	secret.Object["type"] = "rke.cattle.io/machine-plan"
	secret.Object["data"] = map[string]any{"plan": encoded("{}"), "max-failures": encoded("5"),
		"applied-checksum": encoded("1")}
	secret.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "demo"})
	secret.SetAnnotations(map[string]string{"a": "b"})
	secret.SetFinalizers([]string{"example.org/keep"})
	_ = unstructured.SetNestedSlice(secret.Object, []any{map[string]any{"apiVersion": "rke.cattle.io/v1",
		"kind": "RKEBootstrap", "name": "demo-x", "uid": "u"}}, "metadata", "ownerReferences")
	for _, edit := range edits {
		edit(secret)
	}
	return secret
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// set sets a field. Nil removes it.
func set(value any, fields ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		if value == nil {
			unstructured.RemoveNestedField(o.Object, fields...)
			return
		}
		_ = unstructured.SetNestedField(o.Object, value, fields...)
	}
}

// none sets a key to null, which is an empty value of a client with protobuf.
func none(key string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.Object["data"].(map[string]any)[key] = nil }
}

// report changes all keys of a report, and sets each to size bytes.
func report(size int) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		for _, key := range reportKeys() {
			set(encoded(strings.Repeat("x", size)), "data", key)(o)
		}
	}
}

// reportKeys returns the keys that an agent may change, from all keys of plan Secrets.
func reportKeys() []string {
	var keys []string
	for _, key := range []string{
		nodeplan.KeyPlan, nodeplan.KeyPlanState, nodeplan.KeyPlanRevision, nodeplan.KeyMaxFailures,
		nodeplan.KeyFailureThreshold, nodeplan.KeyProbePeriodSeconds, nodeplan.KeyAppliedPlan,
		nodeplan.KeyAppliedChecksum, nodeplan.KeyAppliedOutput, nodeplan.KeyAppliedPeriodicOutput,
		nodeplan.KeyFailedChecksum, nodeplan.KeyFailedOutput, nodeplan.KeyFailureCount, nodeplan.KeySuccessCount,
		nodeplan.KeyLastApplyTime, nodeplan.KeyProbeStatuses, nodeplan.KeyAgentVersion, nodeplan.KeyAgentUpgrade,
	} {
		if nodeplan.AgentKey(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// The account of a machine can change only the report in its own plan Secret.
func TestPolicies_LimitPlanAccounts(t *testing.T) {
	t.Parallel()
	j, account := newJudge(t), program("home", "demo-x-machine-plan")
	const most = 512 << 10
	for name, tc := range map[string]struct {
		before, after *unstructured.Unstructured
		refused       string
	}{
		"no change":      {planSecret(), planSecret(), ""},
		"a report":       {planSecret(), planSecret(report(100)), ""},
		"a first report": {planSecret(set(nil, "data")), planSecret(set(nil, "data"), report(1)), ""},
		"a smaller report": {planSecret(report(1)),
			planSecret(report(1), set(nil, "data", "failed-output")), ""},
		"the largest report": {planSecret(), planSecret(report(most)), ""},
		"a report beyond it": {planSecret(), planSecret(report(most + 3)), "larger than 512 KiB in data: "},
		"a large value stays": {planSecret(report(most + 3)),
			planSecret(report(most+3), set(encoded("2"), "data", "applied-checksum")), ""},
		"managed fields": {planSecret(),
			planSecret(set("x", "metadata", "managedFields")), ""},
		"an empty report":      {planSecret(), planSecret(none("applied-checksum")), ""},
		"an empty other value": {planSecret(set("", "data", "other")), planSecret(none("other")), ""},
		"the same as protobuf": {planSecret(none("other")), planSecret(set("", "data", "other")), ""},
		"an empty plan":        {planSecret(), planSecret(none("plan")), "changes data: plan"},
		"a new plan":           {planSecret(none("plan")), planSecret(), "changes data: plan"},
		"the plan":             {planSecret(), planSecret(set("", "data", "plan")), "changes data: plan"},
		"no plan":              {planSecret(), planSecret(set(nil, "data", "plan")), "changes data: plan"},
		"no data":              {planSecret(), planSecret(set(nil, "data")), "changes data: "},
		"the limit of tries":   {planSecret(), planSecret(set("", "data", "max-failures")), "data: max-failures"},
		"another key":          {planSecret(), planSecret(set("e30=", "data", "other")), "changes data: other"},
		"an empty key":         {planSecret(), planSecret(set("", "data", "other")), "changes data: other"},
		"a label": {planSecret(), labelled(planSecret(), "rke.cattle.io/etcd-role", "true"),
			"changes metadata: labels"},
		"no labels":     {planSecret(), planSecret(set(nil, "metadata", "labels")), "changes metadata: labels"},
		"an annotation": {planSecret(), annotated(planSecret(), "a", "c"), "changes metadata: annotations"},
		"protection":    {planSecret(), annotated(planSecret(), protect, "true"), "changes metadata: annotations"},
		"finalizers":    {planSecret(), planSecret(set(nil, "metadata", "finalizers")), "metadata: finalizers"},
		"owners":        {planSecret(), planSecret(set(nil, "metadata", "ownerReferences")), "ownerReferences"},
		"immutability":  {planSecret(), planSecret(set(true, "immutable")), "changes immutable"},
		"a new Secret":  {nil, planSecret(), "can only update its plan Secret demo-x-machine-plan"},
		"the deletion":  {planSecret(), nil, "can only update its plan Secret demo-x-machine-plan"},
		"with a finalizer": {planSecret(set(nil, "metadata", "finalizers")), planSecret(),
			"metadata: finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusal, _ := j.ask(account, tc.before, tc.after)
			if (refusal == "") != (tc.refused == "") || !strings.Contains(refusal, tc.refused) {
				t.Errorf("refusal %q, want %q", refusal, tc.refused)
			}
			// Others may do what their roles permit.
			for _, who := range []user.Info{alice, tenant, drover, program("home", "default"),
				program("other", "demo-x-machine-plan")} {
				if refusal, _ := j.ask(who, tc.before, tc.after); refusal != "" {
					t.Errorf("%s: refusal %q", who.GetName(), refusal)
				}
			}
		})
	}
}

// An account of a tenant may have the name of an ordinary Secret.
func TestPolicies_LeaveOtherAccountsAlone(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	before := planSecret(set("Opaque", "type"))
	for name, after := range map[string]*unstructured.Unstructured{
		"data": planSecret(set("Opaque", "type"), set("", "data", "plan")), "the deletion": nil,
	} {
		if refusal, _ := j.ask(program("home", before.GetName()), before, after); refusal != "" {
			t.Errorf("%s: refusal %q", name, refusal)
		}
	}
}
