package server

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// TestStory_RegisteredHostGetsItsPlan: a cluster without pools waits for hosts. A host that registers gets a plan
// before it has a node, because only the plan creates the node. The host disappears completely with the cluster.
func TestStory_RegisteredHostGetsItsPlan(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, func() []provv1.RKEMachinePool { return nil })
		id := ""
		w.until("the cluster's identity", time.Minute, func() string {
			cluster, err := w.user.Provisioning.Cluster().Get(fleet, demo, metav1.GetOptions{})
			check(t, err)
			if id = cluster.Status.ClusterName; id == "" {
				return "none"
			}
			_, err = w.user.CAPI.Cluster().Get(fleet, demo, metav1.GetOptions{})
			return text(err)
		})
		host := naming.MachineRequest(naming.MachineRequestCustom, "host-1")
		_, err := w.user.Core.Secret().Create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: id, Name: host}, Type: rkev1.SecretTypeMachineRequest,
			Data: map[string][]byte{rkev1.MachineRequestDataKey: []byte(
				`{"id":["host-1"],"role-etcd":["true"],"role-control-plane":["true"],"role-worker":["true"],"node-name":["edge-1"],"labels":["site=north"]}`,
			)},
		})
		check(t, err)
		w.until("the answer", 10*time.Second, func() string {
			request, err := w.user.Core.Secret().Get(id, host, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if answer := registration.ReadAnswer(request); answer == nil || answer.Name != host ||
				answer.Namespace != fleet {
				return fmt.Sprintf("%v", answer)
			}
			return ""
		})
		w.until("the plan", time.Minute, func() string {
			plan, err := w.user.Core.Secret().Get(fleet, naming.PlanSecret(host), metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if len(plan.Data[nodeplan.KeyPlan]) == 0 {
				return "no plan is delivered"
			}
			return ""
		})
		machine, err := w.user.CAPI.Machine().Get(fleet, host, metav1.GetOptions{})
		check(t, err)
		if machine.Spec.ProviderID != "" || machine.Status.NodeRef.Name != "" ||
			!conditions.IsTrueMeta(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition) {
			t.Errorf("machine %+v", machine)
		}
		time.Sleep(2 * time.Minute)
		w.quiet(time.Hour)
		w.withRancherFinalizers("") // as after an adoption
		w.quiet(time.Hour)
		w.removed()
		w.namespaceGone()
		if left := w.api.Objects(rkev1.SchemeGroupVersion.WithKind("CustomMachine")); len(left) > 0 {
			t.Errorf("remaining requests: %v", left)
		}
	})
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
