package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	jsonpatch "github.com/evanphx/json-patch"
	corev1 "k8s.io/api/core/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// reasonDisconnected is the reason of conditions Connected and Ready of a management cluster whose agent is
// disconnected. (docs/wire/capi.md#management-cluster.)
const reasonDisconnected = "Disconnected"

// chooseKubeconfig returns the wanted kubeconfig, nil if there is none. It keeps the current one while a server
// provides it, so that a second server or address changes nothing. It takes the next one if that server is gone, or if
// moveOn is set because the address does not answer. The credentials of one server work with all servers.
func chooseKubeconfig(facts *Facts, moveOn bool) []byte {
	var current []byte
	if facts.kubeconfig != nil {
		current = facts.kubeconfig.Data[proxy.KubeconfigKey]
	}
	all := kubeconfigs(facts, current)
	i := slices.IndexFunc(all, func(kubeconfig []byte) bool { return bytes.Equal(kubeconfig, current) })
	switch {
	case len(all) == 0:
		return nil
	case i >= 0 && moveOn:
		return all[(i+1)%len(all)]
	case i >= 0:
		return current
	}
	return all[0]
}

// kubeconfigs returns all usable kubeconfigs, the best first. Each combines a server's printed credentials with its own
// addresses, and after those with the addresses of the others. If the server that printed them is gone, the credentials
// come from the current kubeconfig.
func kubeconfigs(facts *Facts, current []byte) [][]byte {
	var all [][]byte
	add := func(access proxy.Access, addresses []string) {
		for _, address := range addresses {
			kubeconfig, err := access.Kubeconfig(address)
			known := func(other []byte) bool { return bytes.Equal(other, kubeconfig) }
			if err == nil && !slices.ContainsFunc(all, known) {
				all = append(all, kubeconfig)
			}
		}
	}
	for _, captured := range facts.captured {
		add(captured.access, captured.addresses)
	}
	for _, captured := range facts.captured {
		add(captured.access, facts.servers)
	}
	if access, err := proxy.Capture(current); len(facts.captured) == 0 && err == nil {
		add(access, facts.servers)
	}
	return all
}

func (f *Facts) connected() bool {
	return f.management != nil && conditions.IsTrue(f.management.Status.Conditions, mgmtv3.ClusterConditionConnected)
}

// managementStatus returns the status of the management cluster. It copies only the result of the control plane, not
// its progress texts. Those would cost one more write per step of every cluster.
func (f *Facts) managementStatus(answered bool) mgmtv3.ClusterStatus {
	status := f.management.Status.DeepCopy()
	f.connection(status, answered)
	status.Info.MachineProvider = topology.MachineProvider(f.cluster)
	status.Info.KubernetesVersion = f.cluster.Spec.KubernetesVersion
	if f.cluster.Spec.RKEConfig == nil {
		f.surveyed(status)
	}
	if status.Info.ProvisioningClusterRef == nil {
		status.Info.ProvisioningClusterRef = &corev1.ObjectReference{
			APIVersion: provv1.SchemeGroupVersion.String(), Kind: "Cluster",
			Namespace: f.cluster.Namespace, Name: f.cluster.Name,
		}
	}
	if status.Provider == "" {
		status.Provider = topology.Distribution(status.Info.KubernetesVersion)
	}
	status.ReadyReconciling = f.cluster.Spec.RKEConfig != nil
	if f.cluster.Spec.RKEConfig == nil {
		f.imported(status)
	}
	if f.controlPlane == nil {
		return *status
	}
	of := f.controlPlane.Status.Conditions
	status.ReadyReconciling = !conditions.IsTrue(of, rkev1.ConditionStable)
	f.follow(status, mgmtv3.ClusterConditionUpdated, conditions.Get(of, rkev1.ConditionReady))
	f.follow(status, mgmtv3.ClusterConditionProvisioned, conditions.Get(of, rkev1.ConditionProvisioned))
	if f.link.lost && !status.ReadyReconciling {
		conditions.Set(&status.Conditions, disconnected(mgmtv3.ClusterConditionReady), f.now)
		return *status
	}
	f.follow(status, mgmtv3.ClusterConditionReady, conditions.Get(of, rkev1.ConditionReady))
	return *status
}

// surveyed sets what was found in an imported cluster. While the cluster is disconnected, the last values stay.
func (f *Facts) surveyed(status *mgmtv3.ClusterStatus) {
	if f.survey != nil {
		status.NodeCount, status.Version, status.Info.Arch = f.survey.nodes, f.survey.version, f.survey.arch
	}
	status.Info.NodeCount = status.NodeCount
	status.Info.KubernetesVersion = cmp.Or(status.Version.GitVersion, status.Info.KubernetesVersion)
}

// imported sets the conditions of an imported cluster, where Drover knows only its agent.
func (f *Facts) imported(status *mgmtv3.ClusterStatus) {
	switch {
	case f.link.connected:
		for _, kind := range []string{mgmtv3.ClusterConditionProvisioned, mgmtv3.ClusterConditionReady} {
			conditions.Set(&status.Conditions, conditions.Condition{Type: kind, Status: rkev1.ConditionTrue}, f.now)
		}
	case f.link.lost:
		conditions.Set(&status.Conditions, disconnected(mgmtv3.ClusterConditionReady), f.now)
	}
}

// connection sets whether the cluster is reachable. A cluster with an agent is connected while its agent is. Without an
// agent, it is connected once its API server has answered.
func (f *Facts) connection(status *mgmtv3.ClusterStatus, answered bool) {
	connected := conditions.Condition{Type: mgmtv3.ClusterConditionConnected, Status: rkev1.ConditionTrue}
	switch {
	case f.link.connected:
		conditions.Set(&status.Conditions, connected, f.now)
		deployed := conditions.Condition{Type: mgmtv3.ClusterConditionAgentDeployed, Status: rkev1.ConditionTrue}
		conditions.Set(&status.Conditions, deployed, f.now)
	case f.link.lost:
		conditions.Set(&status.Conditions, disconnected(mgmtv3.ClusterConditionConnected), f.now)
	case f.link.agent: // it may be about to reconnect
	case answered:
		conditions.Set(&status.Conditions, connected, f.now)
	}
}

func disconnected(conditionType string) conditions.Condition {
	return conditions.Condition{
		Type: conditionType, Status: rkev1.ConditionFalse,
		Reason: reasonDisconnected, Message: "Cluster agent is not connected",
	}
}

func (f *Facts) follow(status *mgmtv3.ClusterStatus, conditionType string, source *rkev1.GenericCondition) {
	if source == nil {
		return
	}
	now := conditions.Get(status.Conditions, conditionType)
	if now != nil && now.Status == source.Status && now.Reason == source.Reason {
		return
	}
	conditions.Set(&status.Conditions, conditions.Condition{
		Type: conditionType, Status: source.Status, Reason: source.Reason, Message: source.Message,
	}, f.now)
}

// statusPatch returns the patch from the current status to the wanted one. It includes fields that become false or
// empty, and omits fields that this program does not know.
func statusPatch(management *mgmtv3.Cluster, status mgmtv3.ClusterStatus) ([]byte, error) {
	before, err := json.Marshal(management.Status)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	changes, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": management.ResourceVersion},
		"status":   json.RawMessage(changes),
	})
}
