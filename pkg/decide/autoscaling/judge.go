package autoscaling

import (
	"fmt"
	"strings"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/topology"
)

const (
	// ReasonNotAvailable means that the autoscaler in the cluster is not available yet.
	ReasonNotAvailable = "AutoscalerNotAvailable"
	// ReasonNameTaken means that other objects have the names of the account or of its kubeconfig.
	ReasonNameTaken = "AutoscalerNameTaken"
	// ReasonRefused means that the cluster does not accept the autoscaler.
	ReasonRefused = "AutoscalerRefused"
)

// State is what Drover found of the autoscaler in a cluster.
type State struct {
	// Current means that Available counts pods of the present Deployment.
	Current   bool
	Available int32
	// CopyIsBehind means that the cluster has a former kubeconfig.
	CopyIsBehind bool
	// Foreign means that the Deployment belongs to others.
	Foreign bool
	// Refusal is the answer of a cluster that refuses the objects.
	Refusal string
}

// For returns the autoscaler of a Cluster. kubeconfig is the digest of its kubeconfig.
func For(cluster *provv1.Cluster, image, registry, kubeconfig string) *Program {
	return &Program{Namespace: cluster.Namespace, Cluster: cluster.Name,
		Image:  Image(image, cluster.Spec.KubernetesVersion, registry),
		Paused: topology.AutoscalerPaused(cluster), Kubeconfig: kubeconfig}
}

// Judge returns what the condition of the autoscaler shows, or nil. visited means that the state is that of the present
// program.
func Judge(program *Program, state State, visited bool) error {
	name := "Deployment " + Namespace + "/" + ProgramName
	switch {
	case visited && state.Foreign:
		return outcome.Stall(ReasonRefused, name+" exists in the cluster, and Drover did not make it: delete or "+
			"rename it")
	case visited && state.Refusal != "":
		return outcome.Stall(ReasonRefused, "the cluster refuses the autoscaler: "+state.Refusal)
	case visited && state.CopyIsBehind:
		return outcome.Wait(ReasonNotAvailable, fmt.Sprintf("Waiting for Secret %s/%s in the cluster, which gets a "+
			"new kubeconfig", CopyNamespace, CopyName), "visit")
	case visited && state.Current && (program.Paused || state.Available > 0):
		return nil
	}
	return outcome.Wait(ReasonNotAvailable, fmt.Sprintf("Waiting for %s in the cluster, with image %s", name,
		program.Image), "visit")
}

// Advice names a pool that the autoscaler cannot grow from zero machines, "" for none. annotations returns those of a
// MachineDeployment.
func Advice(cluster *provv1.Cluster, annotations func(deployment string) map[string]string) string {
	for i := range cluster.Spec.RKEConfig.MachinePools {
		pool := &cluster.Spec.RKEConfig.MachinePools[i]
		if !topology.Autoscaled(pool) || *pool.AutoscalingMinSize > 0 {
			continue
		}
		has := annotations(naming.MachineDeployment(cluster.Name, pool.Name))
		if has[topology.CPUAnnotation] == "" || has[topology.MemoryAnnotation] == "" {
			return fmt.Sprintf("spec.rkeConfig.machinePools[%d].machineDeploymentAnnotations: an autoscaler cannot "+
				"grow pool %s from zero machines: set %s and %s", i, pool.Name, topology.CPUAnnotation,
				topology.MemoryAnnotation)
		}
	}
	return ""
}

// Shorten limits the text of an answer of a cluster.
func Shorten(text string, limit int) string {
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
