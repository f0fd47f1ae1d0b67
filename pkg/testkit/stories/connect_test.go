package stories

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// printed is what K3s writes to /etc/rancher/k3s/k3s.yaml.
const printed = `apiVersion: v1
kind: Config
current-context: default
clusters:
- name: default
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: YXV0aG9yaXR5}
users:
- name: default
  user: {client-certificate-data: Y2VydA==, client-key-data: c2VjcmV0LWtleQ==}
contexts:
- name: default
  context: {cluster: default, user: default}
`

// printsKubeconfig stores the plan Secret of a machine whose node printed the text.
func (s *story) printsKubeconfig(machine, text, joinURL string) {
	s.t.Helper()
	output, err := nodeplan.EncodePeriodicOutput(map[string]plan.PeriodicInstructionOutput{
		"capture-kubeconfig": {Name: "capture-kubeconfig", Stdout: []byte(text),
			LastSuccessfulRunTime: "Fri Jan  2 03:04:05 UTC 2026"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	// The planner writes the join URL on the Machine. The plan Secret only repeats it.
	found := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: machine}}
	if exists, err := s.api.Get(found); err == nil && exists {
		found.SetGroupVersionKind(capiGroup.WithKind("Machine"))
		metav1.SetMetaDataAnnotation(&found.ObjectMeta, rkev1.JoinURLAnnotation, joinURL)
		s.add(found)
	}
	s.add(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: machine + "-machine-plan",
			Labels: map[string]string{rkev1.ClusterNameLabel: "demo", rkev1.InitNodeLabel: "true",
				rkev1.ControlPlaneRoleLabel: "true"},
			Annotations: map[string]string{rkev1.JoinURLAnnotation: joinURL},
		},
		Type: rkev1.SecretTypeMachinePlan,
		Data: map[string][]byte{nodeplan.KeyAppliedPeriodicOutput: output},
	})
}

func (s *story) kubeconfig() *corev1.Secret {
	s.t.Helper()
	found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-kubeconfig"}}
	exists, err := s.api.Get(found)
	if err != nil {
		s.t.Fatal(err)
	}
	if !exists {
		return nil
	}
	return found
}

func (s *story) management() *mgmtv3.Cluster {
	s.t.Helper()
	found := &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: s.read().Status.ClusterName}}
	if exists, err := s.api.Get(found); err != nil || !exists {
		s.t.Fatalf("no management cluster: %v", err)
	}
	return found
}

func server(t *testing.T, secret *corev1.Secret) string {
	t.Helper()
	config, err := clientcmd.Load(secret.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	return config.Clusters["cluster"].Server
}

func TestCluster_BecomesReadyWhenItsAPIAnswers(t *testing.T) {
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"), demo())
		s.settle()
		if reached := s.read().Status; reached.Ready || reached.ClientSecretName != "" {
			t.Fatalf("status %+v", reached)
		}
		s.printsKubeconfig("demo-server-0", printed, "https://198.18.0.7:6443")
		s.settle()
		secret := s.kubeconfig()
		if secret == nil {
			t.Fatal("no kubeconfig")
		}
		if got := server(t, secret); got != "https://198.18.0.7:6443" {
			t.Errorf("server %s", got)
		}
		if secret.Type != "cluster.x-k8s.io/secret" || secret.Labels[clusterv1.ClusterNameLabel] != "demo" ||
			len(secret.OwnerReferences) != 1 {
			t.Errorf("secret %+v %s", secret.ObjectMeta, secret.Type)
		}
		if got := conditions.Get(s.read().Status.Conditions,
			"Reconciling"); got.Message != "Waiting for the API server of the cluster to answer the management plane" {
			t.Errorf("condition %+v", got)
		}
		if s.read().Status.Ready || conditions.IsTrue(s.management().Status.Conditions, "Connected") {
			t.Error("connected before it answered")
		}
		s.prober.answer()
		s.settle()
		reached := s.read()
		if !reached.Status.Ready || reached.Status.ClientSecretName != "demo-kubeconfig" ||
			reached.Status.ObservedGeneration != reached.Generation {
			t.Errorf("status %+v", reached.Status)
		}
		if !conditions.IsTrue(s.management().Status.Conditions, "Connected") {
			t.Errorf("conditions %+v", s.management().Status.Conditions)
		}
		if !conditions.IsFalse(reached.Status.Conditions, "Reconciling") ||
			!conditions.IsFalse(reached.Status.Conditions, "Stalled") {
			t.Errorf("conditions %+v", reached.Status.Conditions)
		}
		s.api.ResetLog()
		s.restart()
		s.settle()
		if writes := s.api.Writes(agent); len(writes) > 0 {
			t.Errorf("writes of a settled cluster: %v", writes)
		}
		s.delete()
		s.settle()
		if left := s.children(); len(left) != 1 || left[0] != "Secret. demo-server-0-machine-plan" {
			t.Errorf("remaining objects: %v", left)
		}
	})
}

// TestCluster_KubeconfigComesOnlyFromServers: a node can write the labels of its plan Secret, but not the role of its
// Machine.
func TestCluster_KubeconfigComesOnlyFromServers(t *testing.T) {
	cases := map[string]struct{ machine, text string }{
		"a worker that claims to be a server": {"demo-worker-0", printed},
		"a plan Secret without a machine":     {"demo-stranger-0", printed},
		"a server whose kubeconfig runs a shell": {"demo-server-0",
			strings.Replace(printed, "client-key-data: c2VjcmV0LWtleQ==",
				"exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}", 1)},
		"a server that prints something else": {"demo-server-0", "Permission denied"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				s.add(podSchema(), machineConfig("nc"), demo())
				s.settle()
				s.printsKubeconfig(c.machine, c.text, "https://198.18.0.66:6443")
				s.settle()
				if secret := s.kubeconfig(); secret != nil {
					t.Errorf("kubeconfig for %s", server(t, secret))
				}
			})
		})
	}
}

func TestCluster_KubeconfigFollowsTheAddress(t *testing.T) {
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"), demo())
		s.settle()
		s.printsKubeconfig("demo-server-0", printed, "https://198.18.0.7:6443")
		s.settle()
		first := s.kubeconfig()

		s.addresses("demo-server-0", "198.18.0.7", "203.0.113.7")
		s.settle()
		if second := s.kubeconfig(); second.ResourceVersion != first.ResourceVersion {
			t.Errorf("a second address changed the server to %s", server(t, second))
		}
		s.printsKubeconfig("demo-server-0", printed, "")
		s.addresses("demo-server-0", "198.18.0.9", "203.0.113.9")
		s.settle()
		if got := server(t, s.kubeconfig()); got != "https://203.0.113.9:6443" {
			t.Errorf("server %s, want the external address", got)
		}
	})
}

func (s *story) addresses(machine, internal, external string) {
	s.t.Helper()
	found := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: machine}}
	if exists, err := s.api.Get(found); err != nil || !exists {
		s.t.Fatalf("no machine %s: %v", machine, err)
	}
	found.SetGroupVersionKind(capiGroup.WithKind("Machine"))
	found.Status.Addresses = clusterv1.MachineAddresses{
		{Type: clusterv1.MachineInternalIP, Address: internal}, {Type: clusterv1.MachineExternalIP, Address: external},
	}
	s.add(found)
}

func TestCluster_AsksForANameWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 4, drivers, func(s *story) {
		s.t.Helper()
		s.add(demo(func(c *provv1.Cluster) {
			c.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: "c-m-wanted22",
				provv1.DescriptionAnnotation: "ours"}
		}))
		s.settle()
		if got := s.management(); got.Name != "c-m-wanted22" || got.Spec.DisplayName != "demo" ||
			got.Spec.Description != "ours" {
			s.t.Errorf("%s %+v", got.Name, got.Spec)
		}
		second := demo(func(c *provv1.Cluster) {
			c.Name = "second"
			c.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: "c-m-wanted22"}
			c.Spec.RKEConfig.MachinePools = nil
		})
		s.add(second)
		s.settle()
		found := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "second"}}
		if _, err := s.api.Get(found); err != nil {
			s.t.Fatal(err)
		}
		created := conditions.Get(found.Status.Conditions, "Created")
		if found.Status.ClusterName != "" || created == nil || created.Status != "False" ||
			created.Reason != "ManagementNameTaken" {
			s.t.Errorf("name %q, condition %+v", found.Status.ClusterName, created)
		}
		if !conditions.IsTrue(found.Status.Conditions, "Stalled") {
			s.t.Errorf("conditions %+v", found.Status.Conditions)
		}
	})
}

// TestCluster_ManagementFollowsTheControlPlane: the management Cluster repeats outcomes but no progress texts, wherever
// the process is killed.
func TestCluster_ManagementFollowsTheControlPlaneWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 4, settled, func(s *story) {
		s.t.Helper()
		if !s.management().Status.ReadyReconciling {
			s.t.Error("is not reconciling")
		}
		say := func(status, message string) {
			found := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}}
			if _, err := s.api.Get(found); err != nil {
				s.t.Fatal(err)
			}
			found.SetGroupVersionKind(rkev1.SchemeGroupVersion.WithKind("RKEControlPlane"))
			for _, conditionType := range []string{"Ready", "Provisioned", "Stable"} {
				conditions.Set(&found.Status.Conditions, conditions.Condition{Type: conditionType, Status: status,
					Message: message}, found.CreationTimestamp.Time)
			}
			s.add(found)
			s.settle()
		}
		say("Unknown", "waiting for a")
		before := s.management().ResourceVersion
		say("Unknown", "waiting for b")
		if got := s.management(); got.ResourceVersion != before {
			s.t.Errorf("a progress message caused another write: %+v", got.Status)
		}
		if ready := conditions.Get(s.read().Status.Conditions, "Ready"); ready == nil ||
			ready.Message != "waiting for b" {
			s.t.Errorf("condition %+v", ready)
		}
		say("True", "")
		got := s.management().Status
		if got.ReadyReconciling || !conditions.IsTrue(got.Conditions, "Ready") ||
			!conditions.IsTrue(got.Conditions, "Updated") || !conditions.IsTrue(got.Conditions, "Provisioned") {
			s.t.Errorf("status %+v", got)
		}
		want := mgmtv3.ClusterInfo{MachineProvider: "pod", KubernetesVersion: "v1.36.2+k3s1",
			ProvisioningClusterRef: &corev1.ObjectReference{
				APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster", Namespace: namespace, Name: "demo",
			}}
		if diff := cmp.Diff(want, got.Info); diff != "" || got.Provider != "k3s" {
			s.t.Errorf("provider %s, info %s", got.Provider, diff)
		}
	})
}

// TestCluster_SetsAreFoundByTools pins how backup and support tools find the objects of a cluster.
func TestCluster_SetsAreFoundByTools(t *testing.T) {
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"), demo())
		s.settle()
		for _, gvk := range childKinds() {
			if gvk.Kind == "Machine" || gvk.Kind == "Secret" {
				continue
			}
			set, hash := "rke-cluster", "8cad0aff80f89143607f2b002787b1b5008b3d93"
			if gvk.Group == "management.cattle.io" {
				set, hash = "cluster-create", "aa46c9c75699cdcebe7974ea00306a58f1ee68fa"
			}
			for _, object := range s.api.Objects(gvk) {
				annotations := object.GetAnnotations()
				if object.GetLabels()["objectset.rio.cattle.io/hash"] != hash ||
					annotations["objectset.rio.cattle.io/id"] != set ||
					annotations["objectset.rio.cattle.io/owner-gvk"] != "provisioning.cattle.io/v1, Kind=Cluster" ||
					annotations["objectset.rio.cattle.io/owner-name"] != "demo" ||
					annotations["objectset.rio.cattle.io/owner-namespace"] != namespace ||
					annotations["objectset.rio.cattle.io/applied"] == "" {
					t.Errorf("%s %s: labels %v, annotations %v", gvk.Kind, object.GetName(), object.GetLabels(),
						annotations)
				}
			}
		}
	})
}
