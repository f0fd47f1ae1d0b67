package registration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// The account of an autoscaler can only mark Machines, also directly at the API server.
func TestPolicies_LimitAutoscalerAccounts(t *testing.T) {
	t.Parallel()
	const mark = "cluster.x-k8s.io/delete-machine"
	j, plain := newJudge(t), set(nil, "metadata", "annotations")
	machine := func(edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := annotated(labelled(object("cluster.x-k8s.io/v1beta2", "Machine", "home", "demo-x",
			map[string]any{"clusterName": "demo"}), "cluster.x-k8s.io/cluster-name", "demo"), "a", "b")
		o.SetFinalizers([]string{"example.org/keep"})
		for _, edit := range edits {
			edit(o)
		}
		return o
	}
	for name, tc := range map[string]struct {
		before, after *unstructured.Unstructured
		refused       string
	}{
		"no change":       {machine(), machine(), ""},
		"a mark":          {machine(), annotated(machine(), mark, "now"), ""},
		"a first mark":    {machine(plain), annotated(machine(plain), mark, "now"), ""},
		"no mark":         {annotated(machine(), mark, "now"), machine(), ""},
		"a managed field": {machine(), machine(set("x", "metadata", "managedFields")), ""},
		"the cluster":     {machine(), machine(set("other", "spec", "clusterName")), "changes its spec"},
		"the label of the cluster": {machine(), labelled(machine(), "cluster.x-k8s.io/cluster-name", "other"),
			"changes metadata: labels"},
		"a role":      {machine(), labelled(machine(), "rke.cattle.io/control-plane-role", "true"), "metadata: labels"},
		"finalizers":  {machine(), machine(set(nil, "metadata", "finalizers")), "changes metadata: finalizers"},
		"annotations": {machine(), machine(set(nil, "metadata", "annotations")), "changes metadata: a"},
		"protection":  {machine(), annotated(machine(), protect, "true"), "changes metadata: drover.io/protect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, cluster := range []string{"demo", "home", strings.Repeat("long-", 11)} {
				account := program("home", naming.Autoscaler("home", cluster))
				refusal, _ := j.ask(account, tc.before, tc.after)
				if (refusal == "") != (tc.refused == "") || !strings.Contains(refusal, tc.refused) {
					t.Errorf("%s: refusal %q, want %q", account.GetName(), refusal, tc.refused)
				}
			}
			for _, who := range []user.Info{alice, tenant, drover, clusterAPI, program("home", "default"),
				program("other", naming.Autoscaler("other", "demo"))} {
				if refusal, _ := j.ask(who, tc.before, tc.after); refusal != "" {
					t.Errorf("%s: refusal %q", who.GetName(), refusal)
				}
			}
		})
	}
}

// The names of accounts in long namespaces are recognized, too.
func TestPolicies_KnowAllNamesOfAutoscalerAccounts(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	for _, length := range []int{1, 40, 55, 56, 57, 62, 63} {
		namespace := strings.Repeat("n", length)
		for _, cluster := range []string{"a", strings.Repeat("c", 63)} {
			machine := func(cluster string) *unstructured.Unstructured {
				return object("cluster.x-k8s.io/v1beta2", "Machine", namespace, "x",
					map[string]any{"clusterName": cluster})
			}
			account := program(namespace, naming.Autoscaler(namespace, cluster))
			if refusal, _ := j.ask(account, machine("demo"), machine("other")); refusal == "" {
				t.Errorf("the account of cluster %s in a namespace of %d bytes may change Machines", cluster, length)
			}
		}
	}
}
