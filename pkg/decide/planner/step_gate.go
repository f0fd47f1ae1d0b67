package planner

import (
	"fmt"

	"github.com/Masterminds/semver/v3"
)

// stepGate checks what must exist before anything can be planned: a cluster that is not being deleted, a version, and
// an infrastructure.
func stepGate(p *pass) verdict {
	cp, cluster := p.s.ControlPlane, p.s.Cluster
	if cp.Deleting || cluster != nil && cluster.Deleting {
		wait := waitFor(ReasonDeleting, "The cluster is being deleted", WakeControlPlane, WakeCluster)
		wait.Quiet = true
		return stopFor(wait)
	}
	if _, err := semver.NewVersion(cp.Spec.KubernetesVersion); err != nil {
		return stopFor(failure(ReasonInvalidVersion,
			fmt.Sprintf("spec.kubernetesVersion %q must be a semantic version such as v1.36.2+rke2r1",
				cp.Spec.KubernetesVersion), WakeControlPlane))
	}
	if cluster == nil {
		return stopFor(waitFor(ReasonNoCluster, "CAPI cluster does not exist", WakeCluster, WakeControlPlane))
	}
	if !cluster.InfrastructureProvisioned {
		return stopFor(waitFor(ReasonInfrastructure, "waiting for infrastructure ready", WakeCluster))
	}
	return goOn("the cluster exists and its infrastructure is ready")
}
