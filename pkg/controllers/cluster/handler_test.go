package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

const printedKubeconfig = `apiVersion: v1
kind: Config
current-context: default
clusters: [{name: default, cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: YXV0aG9yaXR5}}]
users: [{name: default, user: {token: TOKEN}}]
contexts: [{name: default, context: {cluster: default, user: default}}]
`

func captured(t *testing.T, token string, addresses ...string) capture {
	t.Helper()
	access, err := proxy.Capture([]byte(strings.Replace(printedKubeconfig, "TOKEN", token, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return capture{access: access, addresses: addresses}
}

// TestChooseKubeconfig: the current kubeconfig stays while a server provides it.
func TestChooseKubeconfig(t *testing.T) {
	t.Parallel()
	a, b := captured(t, "a", "10.0.0.1", "10.0.0.2"), captured(t, "b", "10.0.0.3")
	of := func(c capture, address string) *corev1.Secret {
		kubeconfig, err := c.access.Kubeconfig(address)
		if err != nil {
			t.Fatal(err)
		}
		return &corev1.Secret{Data: map[string][]byte{proxy.KubeconfigKey: kubeconfig}}
	}
	cases := map[string]struct {
		current  *corev1.Secret
		captured []capture
		servers  []string
		moveOn   bool
		want     string
	}{
		"nothing printed, nothing stored": {},
		"nothing printed any more":        {current: of(a, "10.0.0.1")},
		"the first server's best address": {captured: []capture{a, b}, want: "a https://10.0.0.1:6443"},
		"the second address stays": {current: of(a, "10.0.0.2"), captured: []capture{a, b},
			want: "a https://10.0.0.2:6443"},
		"the second server stays": {current: of(b, "10.0.0.3"), captured: []capture{a, b},
			want: "b https://10.0.0.3:6443"},
		"a server that is gone is given up": {current: of(b, "10.0.0.3"), captured: []capture{a},
			want: "a https://10.0.0.1:6443"},
		"the server that printed it is gone": {current: of(a, "10.0.0.1"), servers: []string{"10.0.0.3"},
			want: "a https://10.0.0.3:6443"},
		"another server stands for it": {current: of(a, "10.0.0.3"),
			servers: []string{"10.0.0.2", "10.0.0.3"}, want: "a https://10.0.0.3:6443"},
		"no answer: the next server": {current: of(a, "10.0.0.2"), captured: []capture{a},
			servers: []string{"10.0.0.2", "10.0.0.4"}, moveOn: true, want: "a https://10.0.0.4:6443"},
		"no answer from the last: the first": {current: of(a, "10.0.0.4"), captured: []capture{a},
			servers: []string{"10.0.0.4"}, moveOn: true, want: "a https://10.0.0.1:6443"},
		"no answer, and no other server": {current: of(b, "10.0.0.3"), captured: []capture{b}, moveOn: true,
			want: "b https://10.0.0.3:6443"},
		"a server without an address is no help": {captured: []capture{captured(t, "c"), b},
			want: "b https://10.0.0.3:6443"},
		"an address that is none is left out": {captured: []capture{captured(t, "c", "not an address"), b},
			want: "b https://10.0.0.3:6443"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := &Facts{kubeconfig: c.current, captured: c.captured, servers: c.servers}
			chosen := chooseKubeconfig(facts, c.moveOn)
			got := ""
			if chosen != nil {
				config, err := clientcmd.Load(chosen)
				if err != nil {
					t.Fatal(err)
				}
				got = config.AuthInfos["user"].Token + " " + config.Clusters["cluster"].Server
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestGatherCaptured_AddressesAreThoseOfTheMachine: addresses come from the Machine, because a node could write others
// into its plan Secret.
func TestGatherCaptured_AddressesAreThoseOfTheMachine(t *testing.T) {
	t.Parallel()
	const forged = "https://attacker.example.org:9345"
	cases := map[string]struct {
		annotations map[string]string
		addresses   []clusterv1.MachineAddress
		want        []string
	}{
		"the planner noted none": {},
		"the planner noted one": {annotations: map[string]string{rkev1.JoinURLAnnotation: "https://[fd00::7]:9345"},
			want: []string{"fd00::7"}},
		"addresses come first": {
			annotations: map[string]string{rkev1.JoinURLAnnotation: "https://10.0.0.7:9345"},
			addresses: []clusterv1.MachineAddress{
				{Type: clusterv1.MachineInternalIP, Address: "10.0.0.7"},
				{Type: clusterv1.MachineExternalIP, Address: "192.0.2.7"},
			},
			want: []string{"192.0.2.7", "10.0.0.7", "10.0.0.7"},
		},
	}
	output, err := nodeplan.EncodePeriodicOutput(map[string]plan.PeriodicInstructionOutput{
		render.CaptureKubeconfig: {Name: render.CaptureKubeconfig,
			Stdout: []byte(strings.Replace(printedKubeconfig, "TOKEN", "t", 1))},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctrl := gomock.NewController(t)
			machines := fake.NewMockCacheInterface[*clusterv1.Machine](ctrl)
			machines.EXPECT().List("n", gomock.Any()).Return([]*clusterv1.Machine{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", Annotations: c.annotations},
				Spec: clusterv1.MachineSpec{
					Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{Name: "m"}}},
				Status: clusterv1.MachineStatus{Addresses: c.addresses},
			}}, nil)
			secrets := fake.NewMockCacheInterface[*corev1.Secret](ctrl)
			secrets.EXPECT().Get("n", naming.PlanSecret("m")).Return(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.JoinURLAnnotation: forged}},
				Type:       rkev1.SecretTypeMachinePlan,
				Data:       map[string][]byte{nodeplan.KeyAppliedPeriodicOutput: output},
			}, nil)
			h := &handler{machines: machines, secrets: secrets}
			seen := &Facts{cluster: &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo"}}}
			if err := h.gatherCaptured(seen); err != nil {
				t.Fatal(err)
			}
			if len(seen.captured) != 1 {
				t.Fatalf("%d servers were read, want 1", len(seen.captured))
			}
			if diff := cmp.Diff(c.want, seen.captured[0].addresses); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWakeUps(t *testing.T) {
	t.Parallel()
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "n", Name: name, Labels: labels}
	}
	demo := []wakeup.Key{{Namespace: "n", Name: "demo"}}
	cases := map[string]struct {
		got, want []wakeup.Key
	}{
		"a plan Secret with output": {(&handler{}).ofSecret(&corev1.Secret{
			ObjectMeta: meta("p", map[string]string{"rke.cattle.io/cluster-name": "demo"}),
			Type:       "rke.cattle.io/machine-plan", Data: map[string][]byte{"applied-periodic-output": {1}},
		}), demo},
		"a plan Secret without": {(&handler{}).ofSecret(&corev1.Secret{
			ObjectMeta: meta("p", map[string]string{"rke.cattle.io/cluster-name": "demo"}),
			Type:       "rke.cattle.io/machine-plan",
		}), nil},
		"a kubeconfig": {
			(&handler{}).ofSecret(
				&corev1.Secret{ObjectMeta: meta("demo-kubeconfig",
					map[string]string{"cluster.x-k8s.io/cluster-name": "demo"})}), demo},
		"another Secret of the cluster": {
			(&handler{}).ofSecret(
				&corev1.Secret{ObjectMeta: meta("demo-other",
					map[string]string{"cluster.x-k8s.io/cluster-name": "demo"})}), nil},
		"any Secret": {(&handler{}).ofSecret(&corev1.Secret{ObjectMeta: meta("x", nil)}), nil},
		"a server": {ofServer(&clusterv1.Machine{
			ObjectMeta: meta("m", map[string]string{"rke.cattle.io/control-plane-role": "true"}),
			Spec:       clusterv1.MachineSpec{ClusterName: "demo"},
		}), demo},
		"a worker": {
			ofServer(&clusterv1.Machine{ObjectMeta: meta("m", nil), Spec: clusterv1.MachineSpec{ClusterName: "demo"}}),
			nil},
	}
	for name, c := range cases {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestStatusPatch: the patch includes what becomes false, and omits what is unknown.
func TestStatusPatch(t *testing.T) {
	t.Parallel()
	before := &mgmtv3.Cluster{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"},
		Status:     mgmtv3.ClusterStatus{ReadyReconciling: true, Provider: "k3s"},
	}
	patch, err := statusPatch(before, mgmtv3.ClusterStatus{Provider: "k3s", Driver: "k3s"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"metadata":{"resourceVersion":"7"},"status":{"driver":"k3s","readyReconciling":null}}`
	if diff := cmp.Diff(want, string(patch)); diff != "" {
		t.Error(diff)
	}
}
