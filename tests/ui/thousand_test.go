package ui

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/tests/contract/stage"
)

const (
	manyClusters = 1000
	// machinesEach is the number of machines of each cluster.
	machinesEach = 10
	fleet        = "fleet-default"
)

// TestUIThousand opens 1,000 clusters with 10,000 machines, of an API server in memory. The first rows appear soon, and
// the table scrolls from its first to its last cluster without a pause that a user notices.
func TestUIThousand(t *testing.T) {
	_, kubeconfig := manyInMemory(t)
	browse(t, "thousand", map[string]string{"URL": startLocal(t, kubeconfig)}, nil)
}

// manyInMemory serves the clusters and returns their API server with a kubeconfig for it.
func manyInMemory(t *testing.T) (api *memkube.Server, kubeconfig string) {
	t.Helper()
	scheme, err := clients.NewScheme()
	check(t, err)
	api = memkube.New(memkube.Options{Scheme: scheme, Namespaces: []string{fleet}})
	check(t, api.Add(many()...))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&authenticationv1.SelfSubjectReview{ // the browser has left if this fails
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectReview", APIVersion: "authentication.k8s.io/v1"},
			Status: authenticationv1.SelfSubjectReviewStatus{
				UserInfo: authenticationv1.UserInfo{Username: "ann"}},
		})
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	check(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "many", Contexts: map[string]*clientcmdapi.Context{"many": {Cluster: "many"}},
		Clusters: map[string]*clientcmdapi.Cluster{"many": {Server: server.URL, CertificateAuthorityData: authority}},
	}, kubeconfig))
	return api, kubeconfig
}

// many returns clusters whose states differ, and their machines.
func many() []runtime.Object {
	now := time.Now().UTC()
	var objects []runtime.Object
	for i := range manyClusters {
		name := fmt.Sprintf("cluster-%04d", i)
		ready := rkev1.GenericCondition{Type: provv1.ConditionReady, Status: rkev1.ConditionTrue,
			LastUpdateTime: now.Add(-time.Duration(i) * time.Minute).Format(time.RFC3339)}
		if i%10 == 0 {
			ready.Status, ready.Reason = rkev1.ConditionUnknown, rkev1.ReasonWaiting
			ready.Message = "configuring worker nodes: waiting for the agent to apply the plan"
		}
		pool := stage.Pool("all", "ecw", machinesEach)
		objects = append(objects, &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: name},
			Spec: provv1.ClusterSpec{KubernetesVersion: stage.RKE2,
				RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{pool}}},
			Status: provv1.ClusterStatus{ClusterName: fmt.Sprintf("c-m-%08d", i), Ready: i%10 != 0,
				Conditions: []rkev1.GenericCondition{ready}},
		})
		for j := range machinesEach {
			machine := fmt.Sprintf("%s-all-%02d", name, j)
			objects = append(objects, &clusterv1.Machine{
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: machine, Labels: map[string]string{
					clusterv1.ClusterNameLabel: name, clusterv1.MachineDeploymentNameLabel: name + "-all",
					rkev1.MachinePoolNameLabel: "all"}},
				Spec: clusterv1.MachineSpec{ClusterName: name},
				Status: clusterv1.MachineStatus{
					NodeRef: clusterv1.MachineNodeReference{Name: machine},
					Conditions: []metav1.Condition{
						{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionTrue},
						{Type: clusterv1.MachineNodeHealthyCondition, Status: metav1.ConditionTrue},
					},
				},
			})
		}
	}
	return objects
}
