package stories

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// childKinds are all kinds that a Cluster can create in these stories.
func childKinds() []kubeschema.GroupVersionKind {
	return []kubeschema.GroupVersionKind{
		{Group: "management.cattle.io", Version: "v3", Kind: "Cluster"},
		{Group: "management.cattle.io", Version: "v3", Kind: "ClusterRegistrationToken"},
		clusterv1.GroupVersion.WithKind("Cluster"),
		clusterv1.GroupVersion.WithKind("Machine"),
		clusterv1.GroupVersion.WithKind("MachineDeployment"),
		clusterv1.GroupVersion.WithKind("MachineHealthCheck"),
		rkev1.SchemeGroupVersion.WithKind("RKECluster"),
		rkev1.SchemeGroupVersion.WithKind("RKEControlPlane"),
		rkev1.SchemeGroupVersion.WithKind("RKEBootstrapTemplate"),
		{Group: clients.MachineGroup, Version: "v1", Kind: "PodMachineTemplate"},
		corev1.SchemeGroupVersion.WithKind("Secret"),
	}
}

// children lists the objects of those kinds, without the random part of names.
func (s *story) children() []string {
	var found []string
	for _, gvk := range childKinds() {
		for _, object := range s.api.Objects(gvk) {
			name := object.GetName()
			if strings.HasPrefix(name, "c-m-") {
				name = "c-m-…"
			}
			found = append(found, gvk.Kind+"."+gvk.Group+" "+name)
		}
	}
	for _, object := range s.api.Objects(corev1.SchemeGroupVersion.WithKind("Namespace")) {
		if strings.HasPrefix(object.GetName(), "c-m-") {
			found = append(found, "Namespace. c-m-…")
		}
	}
	slices.Sort(found)
	return found
}

var wantChildren = []string{
	"Cluster.cluster.x-k8s.io demo",
	"Cluster.management.cattle.io c-m-…",
	"ClusterRegistrationToken.management.cattle.io default-token",
	"ClusterRegistrationToken.management.cattle.io system",
	"Machine.cluster.x-k8s.io demo-server-0",
	"Machine.cluster.x-k8s.io demo-worker-0",
	"Machine.cluster.x-k8s.io demo-worker-1",
	"MachineDeployment.cluster.x-k8s.io demo-server",
	"MachineDeployment.cluster.x-k8s.io demo-worker",
	"Namespace. c-m-…",
	"PodMachineTemplate.rke-machine.cattle.io demo-server-751b5471",
	"PodMachineTemplate.rke-machine.cattle.io demo-worker-bcaf4a32",
	"RKEBootstrapTemplate.rke.cattle.io demo-bootstrap-template",
	"RKECluster.rke.cattle.io demo",
	"RKEControlPlane.rke.cattle.io demo",
}

func TestCluster_IsCreatedAndSettles(t *testing.T) {
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"))
		s.settle()
		s.add(demo())
		s.settle()
		if diff := cmp.Diff(wantChildren, s.children()); diff != "" {
			t.Errorf("children (-want +got):\n%s", diff)
		}
		made := s.read()
		if !conditions.IsTrue(made.Status.Conditions, "RKECluster") ||
			!conditions.IsTrue(made.Status.Conditions, "Created") {
			t.Errorf("conditions %+v", made.Status.Conditions)
		}
		infra := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}}
		if _, err := s.api.Get(infra); err != nil {
			t.Fatal(err)
		}
		if p := infra.Status.Initialization.Provisioned; p == nil || !*p ||
			infra.Spec.ControlPlaneEndpoint.Host != "localhost" {
			t.Errorf("RKECluster %+v %+v", infra.Spec, infra.Status)
		}
		const budget = 21 // writes of this layer for a cluster of two pools
		writes := slices.DeleteFunc(s.api.Writes(agent), func(e memkube.Entry) bool { return e.Code != 200 })
		if len(writes) > budget {
			t.Errorf("%d writes, the budget is %d: %v", len(writes), budget, writes)
		}
		s.api.ResetLog()
		pass(10 * time.Minute)
		if writes := s.api.Writes(agent); len(writes) > 0 {
			t.Errorf("writes to a settled cluster: %v", writes)
		}
	})
}

func TestCluster_RestartWritesNothing(t *testing.T) {
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"), demo())
		s.settle()
		s.api.ResetLog()
		s.restart()
		s.settle()
		if writes := s.api.Writes(agent); len(writes) > 0 {
			t.Errorf("writes of a restart: %v", writes)
		}
	})
}

func TestCluster_IsDeletedWithoutLeftovers(t *testing.T) {
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"), demo())
		s.settle()
		s.delete()
		s.settle()
		if left := s.children(); len(left) > 0 || s.read() != nil {
			t.Errorf("remaining objects: %v", left)
		}
		if configs := s.api.Objects(kubeschema.GroupVersionKind{Group: clients.MachineConfigGroup, Version: "v1",
			Kind: "PodConfig"}); len(configs) > 0 {
			t.Errorf("remaining objects: %v", configs)
		}
	})
}

// A refused cluster can be deleted, although nothing was made for it.
func TestCluster_RefusedAndThenDeletedWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 4, drivers, func(s *story) {
		s.t.Helper()
		s.add(demo(func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "" }))
		s.settle()
		s.wantRefused()
		s.delete()
		s.settle()
		s.wantNothing()
	})
}

func (s *story) delete() {
	s.t.Helper()
	err := s.core.client.Resource(provv1.SchemeGroupVersion.WithResource("clusters")).Namespace(namespace).Delete(
		s.t.Context(), "demo", metav1.DeleteOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// wantRefused fails unless the cluster is claimed and reported, and has no name.
func (s *story) wantRefused() {
	s.t.Helper()
	refused := s.read()
	mark, name := refused.Annotations[rkev1.InstanceAnnotation], refused.Status.ClusterName
	if mark != instance || len(refused.Finalizers) != 2 || name != "" {
		s.t.Errorf("mark %q, finalizers %v, name %q", mark, refused.Finalizers, name)
	}
	created := conditions.Get(refused.Status.Conditions, "Created")
	if created == nil || created.Status != "Unknown" || !conditions.IsTrue(refused.Status.Conditions, "Stalled") {
		s.t.Errorf("conditions %+v", refused.Status.Conditions)
	}
}

// TestCluster_BadInputWhereverTheProcessIsKilled: bad input is claimed and sets conditions within two seconds, and
// creates no child. When the missing object arrives, the cluster continues without help.
func TestCluster_BadInputWhereverTheProcessIsKilled(t *testing.T) {
	pool := func(c *provv1.Cluster) *provv1.RKEMachinePool { return &c.Spec.RKEConfig.MachinePools[1] }
	cases := map[string]struct {
		edit      func(*provv1.Cluster)
		without   string
		wantField string
		fix       func(*story)
	}{
		"unknown driver kind": {
			without: "schema", wantField: "spec.rkeConfig.machinePools[0].machineConfigRef.kind",
			fix: func(s *story) { s.add(podSchema()) },
		},
		"missing machine config": {
			without: "config", wantField: "spec.rkeConfig.machinePools[0].machineConfigRef.name",
			fix: func(s *story) { s.add(machineConfig("nc")) },
		},
		"missing credential of the cluster": {
			edit:      func(c *provv1.Cluster) { c.Spec.CloudCredentialSecretName = "cattle-global-data:cc-x" },
			wantField: "spec.cloudCredentialSecretName",
			fix: func(s *story) {
				s.add(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
					ObjectMeta: metav1.ObjectMeta{
						Namespace: "cattle-global-data", Name: "cc-x",
						Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: namespace + "/*"},
					}})
			},
		},
		"missing credential of a pool": {
			edit:      func(c *provv1.Cluster) { pool(c).CloudCredentialSecretName = "mine" },
			wantField: "spec.rkeConfig.machinePools[1].cloudCredentialSecretName",
			fix: func(s *story) {
				s.add(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}})
			},
		},
		"pool without a role": {
			edit:      func(c *provv1.Cluster) { pool(c).WorkerRole = false },
			wantField: "spec.rkeConfig.machinePools[1]",
			fix:       func(s *story) { s.edit(func(c *provv1.Cluster) { pool(c).WorkerRole = true }) },
		},
		"no kubernetesVersion": {
			edit:      func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "" },
			wantField: "spec.kubernetesVersion",
			fix:       func(s *story) { s.edit(func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.2+k3s1" }) },
		},
		"invalid kubernetesVersion": {
			edit:      func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "latest" },
			wantField: "spec.kubernetesVersion",
			fix:       func(s *story) { s.edit(func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.2+k3s1" }) },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, func(s *story) {
				if c.without != "schema" {
					s.add(podSchema())
				}
				if c.without != "config" {
					s.add(machineConfig("nc"))
				}
				s.settle()
			}, func(s *story) {
				s.t.Helper()
				edits := []func(*provv1.Cluster){}
				if c.edit != nil {
					edits = append(edits, c.edit)
				}
				before := s.children()
				s.add(demo(edits...))
				pass(2 * time.Second)
				condition := conditions.Get(s.read().Status.Conditions, "RKECluster")
				if condition == nil || condition.Status != "False" || !strings.HasPrefix(condition.Message, c.wantField+
					": ") {
					s.t.Fatalf("condition %+v", condition)
				}
				if diff := cmp.Diff(before, s.children()); diff != "" {
					s.t.Errorf("children were created: %s", diff)
				}
				s.wantRefused()
				c.fix(s)
				s.settle()
				got := slices.DeleteFunc(s.children(), func(child string) bool {
					return strings.HasPrefix(child, "Secret.")
				})
				if diff := cmp.Diff(wantChildren, got); diff != "" {
					s.t.Errorf("children after the fix (-want +got):\n%s", diff)
				}
				if fixed := s.read(); !conditions.IsTrue(fixed.Status.Conditions, "RKECluster") {
					s.t.Errorf("conditions %+v", fixed.Status.Conditions)
				}
			})
		})
	}
}

// edit changes the cluster as its user would.
func (s *story) edit(change func(*provv1.Cluster)) {
	s.t.Helper()
	edited := s.read()
	change(edited)
	edited.SetGroupVersionKind(provv1.SchemeGroupVersion.WithKind("Cluster"))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(edited)
	if err != nil {
		s.t.Fatal(err)
	}
	s.core.update(provv1.SchemeGroupVersion.WithResource("clusters"), toUnstructured(content))
}

// TestCluster_KilledAfterEveryWrite creates and deletes a cluster once for each of Drover's writes, and kills the
// process after that write.
func TestCluster_KilledAfterEveryWrite(t *testing.T) {
	for _, n := range crashpoints.Of(t, 24, 24) {
		t.Run(fmt.Sprintf("write %d while it is made", n), func(t *testing.T) {
			tell(t, func(s *story) {
				s.api.CutAfter(agent, n, nil)
				s.add(podSchema(), machineConfig("nc"), demo())
				s.settle()
				s.restart()
				s.settle()
				if diff := cmp.Diff(wantChildren, s.children()); diff != "" {
					t.Errorf("children (-want +got):\n%s", diff)
				}
				if made := s.read(); !conditions.IsTrue(made.Status.Conditions, "RKECluster") {
					t.Errorf("conditions %+v", made.Status.Conditions)
				}
			})
		})
	}
	for _, n := range crashpoints.Of(t, 16, 16) {
		t.Run(fmt.Sprintf("write %d while it is deleted", n), func(t *testing.T) {
			tell(t, func(s *story) {
				s.add(podSchema(), machineConfig("nc"), demo())
				s.settle()
				s.api.CutAfter(agent, n, nil)
				s.delete()
				s.settle()
				s.restart()
				s.settle()
				if left := s.children(); len(left) > 0 || s.read() != nil {
					t.Errorf("remaining objects: %v", left)
				}
			})
		})
	}
}

func TestCluster_OfAnotherManagerIsIgnored(t *testing.T) {
	cases := map[string]func(*story, *provv1.Cluster){
		"another instance": func(_ *story, c *provv1.Cluster) {
			c.Annotations = map[string]string{"drover.io/instance": "instance-2"}
		},
		"another manager's children": func(s *story, _ *provv1.Cluster) {
			s.add(&clusterv1.Cluster{
				TypeMeta:   metav1.TypeMeta{APIVersion: capiGroup.String(), Kind: "Cluster"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
			}, &rkev1.RKEControlPlane{
				TypeMeta:   metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "RKEControlPlane"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
				Spec:       rkev1.RKEControlPlaneSpec{ClusterName: "demo", ManagementClusterName: "c-m-aaaaaaaa"},
			}, &rkev1.RKECluster{
				TypeMeta:   metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "RKECluster"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
			})
		},
	}
	for name, arrange := range cases {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				theirs := demo()
				arrange(s, theirs)
				s.add(podSchema(), machineConfig("nc"), theirs)
				s.settle()
				if writes := s.api.Writes(agent); len(writes) > 0 {
					t.Errorf("writes: %v", writes)
				}
			})
		})
	}
}

func TestCluster_DriftIsRepaired(t *testing.T) {
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"), demo())
		s.settle()
		first := s.read().Status.ClusterName
		for gvr, name := range map[kubeschema.GroupVersionResource]string{
			mgmtv3.SchemeGroupVersion.WithResource("clusters"): first,
			rkeGVR: "demo",
		} {
			resource := s.core.client.Resource(gvr)
			var err error
			if gvr == rkeGVR {
				err = resource.Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{})
			} else {
				err = resource.Delete(t.Context(), name, metav1.DeleteOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s.edit(func(c *provv1.Cluster) { c.Labels = map[string]string{"touched": "yes"} })
		s.settle()
		if diff := cmp.Diff(wantChildren, s.children()); diff != "" {
			t.Errorf("children (-want +got):\n%s", diff)
		}
		if s.read().Status.ClusterName != first {
			t.Error("the cluster got another identifier")
		}
	})
}

// Drover restores every applied object of every kind that another client overwrites.
func TestCluster_OverwrittenObjectsAreRepaired(t *testing.T) {
	const applied = "objectset.rio.cattle.io/id"
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"), demo(func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools[1].UnhealthyNodeTimeout = &metav1.Duration{Duration: time.Hour}
		}))
		s.settle()
		sets := map[string]string{}
		overwritten := 0
		for _, gvk := range childKinds() {
			resource, _ := meta.UnsafeGuessKindToResource(gvk)
			for _, object := range s.api.Objects(gvk) {
				set := object.GetAnnotations()[applied]
				if set == "" {
					continue
				}
				overwritten++
				sets[gvk.String()+object.GetName()] = set
				_, err := s.core.client.Resource(resource).Namespace(object.GetNamespace()).Patch(t.Context(),
					object.GetName(), types.MergePatchType,
					[]byte(`{"metadata":{"annotations":{"`+applied+`":"overwritten"}}}`), metav1.PatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if overwritten < 11 {
			t.Fatalf("%d objects were overwritten: %v", overwritten, sets)
		}
		s.settle()
		for _, gvk := range childKinds() {
			for _, object := range s.api.Objects(gvk) {
				if set := object.GetAnnotations()[applied]; set != sets[gvk.String()+object.GetName()] {
					t.Errorf("%s %s is still of set %q", gvk.Kind, object.GetName(), set)
				}
			}
		}
	})
}

func TestCluster_PoolsAreAddedAndRemoved(t *testing.T) {
	tell(t, func(s *story) {
		s.add(podSchema(), machineConfig("nc"), demo())
		s.settle()
		s.edit(func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = c.Spec.RKEConfig.MachinePools[:1] })
		s.settle()
		if got := s.api.Objects(capiGroup.WithKind("MachineDeployment")); len(got) != 1 ||
			got[0].GetName() != "demo-server" {
			t.Errorf("machine deployments %v", got)
		}
		templates := s.api.Objects(kubeschema.GroupVersionKind{Group: clients.MachineGroup, Version: "v1",
			Kind: "PodMachineTemplate"})
		if len(templates) != 2 {
			t.Errorf("a template of existing machines was deleted: %v", templates)
		}
	})
}
