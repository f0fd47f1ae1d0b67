package fakeagent

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWorld_HostOfAnotherProvider boots a host without a Job. Its Node has the provider's ID only if the plan leaves
// that to the provider.
func TestWorld_HostOfAnotherProvider(t *testing.T) {
	const id = "cloud://one"
	for name, tc := range map[string]struct{ config, want string }{
		"the distribution has its own cloud controller": {`{}`, "rke2://m1"},
		"external cloud provider of RKE2":               {`{"cloud-provider-name":"external"}`, id},
		"external cloud provider of K3s":                {`{"kubelet-arg":["v=2","cloud-provider=external"]}`, id},
	} {
		t.Run(name, func(t *testing.T) {
			th := play(t, nil)
			p := serverPlan()
			p.Files[0].Content = base64.StdEncoding.EncodeToString([]byte(tc.config))
			owner := types.NamespacedName{Namespace: namespace, Name: "m1"}
			th.plan("m1", serverRoles, p)
			for range 2 { // the second does nothing
				if err := th.world.Boot(owner, id); err != nil {
					t.Fatal(err)
				}
			}
			th.state("m1", "settled", settled)
			if got := th.world.Machines(namespace)["m1"].Applied; got != 1 {
				t.Errorf("the agent has applied its plan %d times, want once", got)
			}
			node, err := th.world.Downstream(namespace, "demo").CoreV1().Nodes().Get(t.Context(), "m1",
				metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, node.Spec.ProviderID); diff != "" {
				t.Errorf("provider ID (-want +got):\n%s", diff)
			}
			th.world.Remove(owner.Namespace, owner.Name)
			if hosts := th.world.Machines(namespace); len(hosts) > 0 {
				t.Errorf("hosts exist: %v", hosts)
			}
		})
	}
}
