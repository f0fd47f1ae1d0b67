package render

import (
	"path"
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// rotationKey names certificate rotation in a node's records. It is part of the wire format
// (docs/wire/planner.md#certificate-rotation).
const rotationKey = "certificate-rotation"

// Services whose certificates a node with a role keeps or depends on (docs/wire/planner.md#certificate-rotation). A
// control plane also has those of a worker.
var (
	workerServices       = []string{"rke2-server", "k3s-server", "api-server", "kubelet", "kube-proxy", "auth-proxy"}
	controlPlaneServices = []string{"controller-manager", "scheduler", "rke2-controller", "k3s-controller", "admin",
		"cloud-controller", "supervisor"}
	etcdServices = []string{"etcd", "kubelet", "k3s-server", "rke2-server", "supervisor"}
	// agentServices are the services that the distribution can rotate on a node without the server.
	agentServices = []string{"kubelet", "kube-proxy", "rke2-controller", "k3s-controller"}
)

// CertificateServices returns the sorted names of services that a certificate rotation can name, including those of
// only one distribution.
func CertificateServices() []string {
	return slices.Compact(
		slices.Sorted(slices.Values(slices.Concat(workerServices, controlPlaneServices, etcdServices))))
}

// RotatesCertificates reports whether a rotation concerns a node with these roles. No services means all.
func RotatesCertificates(roles Roles, services []string) bool {
	has := func(list []string) bool {
		return slices.ContainsFunc(services, func(service string) bool { return slices.Contains(list, service) })
	}
	switch {
	case roles == Roles{}:
		return false
	case len(services) == 0:
		return true
	}
	return (roles.Worker || roles.ControlPlane) && has(workerServices) || roles.ControlPlane &&
		has(controlPlaneServices) || roles.ETCD && has(etcdServices)
}

// UnknownServices returns the services that the distribution's `certificate rotate` does not know and rejects.
func UnknownServices(runtime distro.Runtime, services []string) []string {
	known := slices.Concat(workerServices, controlPlaneServices, etcdServices)
	return slices.DeleteFunc(slices.Clone(services), func(service string) bool {
		owner, _, _ := strings.Cut(service, "-")
		ofOther := owner != runtime.Command() && (owner == distro.RKE2.Command() || owner == distro.K3s.Command())
		return slices.Contains(known, service) && !ofOther
	})
}

// RotateCertificatesWork gives the node new certificates and restarts it (docs/wire/planner.md#certificate-rotation).
// have is the node's plan.
func (n Node) RotateCertificatesWork(have plan.NodePlan, roles Roles, services []string, attempt string) Work {
	work := Work{Operation: OperationCertificates, Attempt: attempt}
	add := func(instructions ...plan.OneTimeInstruction) {
		work.Instructions = append(work.Instructions, instructions...)
	}
	if roles.ETCD {
		add(n.etcdHealthy(rotationKey, attempt))
	}
	if named, some := n.rotated(roles, services); some {
		args := []string{n.Runtime.Command(), "certificate", "rotate"}
		for _, service := range named {
			args = append(args, "-s", service)
		}
		rotate := bounded(commandSeconds, args...)
		// Without it, the command uses the wrong directory on a node that was never a server, and succeeds.
		rotate.Env = []string{n.dataDirEnv()}
		add(n.Stop(rotationKey+"/stop", attempt), n.Idempotent(rotationKey+"/rotate", attempt, rotate))
	}
	if roles.ControlPlane {
		add(n.removeComponentCertificates(have, services, attempt)...)
	}
	if n.Server && n.Runtime == distro.RKE2 {
		add(n.Idempotent(rotationKey+"/manifest-removal", attempt, n.removeManifests()))
	}
	add(n.boundedRestart(rotationKey+"/restart", attempt)...)
	return work
}

// rotated returns the services for the command line, none for all. some is false when this node has none of them. A
// node without the server knows only its own services. It gets the other certificates with the restart.
func (n Node) rotated(roles Roles, services []string) (named []string, some bool) {
	if len(services) == 0 || roles.Server() {
		return services, true
	}
	named = slices.DeleteFunc(slices.Clone(services), func(s string) bool { return !slices.Contains(agentServices, s) })
	return named, len(named) > 0
}

// removeComponentCertificates removes the certificates that the controller manager and the scheduler generated in a
// directory, because `certificate rotate` does not know them. It keeps a certificate that the user provides.
func (n Node) removeComponentCertificates(have plan.NodePlan, services []string,
	attempt string) []plan.OneTimeInstruction {
	config := n.configOf(have)
	var out []plan.OneTimeInstruction
	for _, c := range []struct {
		service, key string
		component    distro.Component
	}{{"controller-manager", "rm-kcm", distro.ControllerManager()}, {"scheduler", "rm-ks", distro.Scheduler()}} {
		args := listOf(config[c.component.ArgKey])
		dir := argValue(args, "cert-dir")
		if len(services) > 0 && !slices.Contains(services, c.service) || dir == "" ||
			argValue(args, "tls-cert-file") != "" {
			continue
		}
		remove := func(what, file string) {
			out = append(out, n.Idempotent(rotationKey+"/"+c.key+"-"+what, attempt,
				Command{Name: "rm", Args: []string{"-f", file}}))
		}
		remove("cert", path.Join(dir, c.component.Name+".crt"))
		remove("key", path.Join(dir, c.component.Name+".key"))
		if n.Runtime == distro.RKE2 {
			remove("spm", path.Join(n.Dirs.Data, "agent/pod-manifests", c.component.Name+".yaml"))
		}
	}
	return out
}
