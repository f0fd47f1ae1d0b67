package managementplane

import (
	"strconv"
	"strings"
	"time"
)

// controllerManager describes kube-controller-manager. Leader election is off, because there is one instance. Waiting
// for the lease of a killed run would cost 15 s at every start.
func controllerManager(s settings) Component {
	c := s.certs
	kubeconfig := kubeconfigFile(s, "controller-manager.kubeconfig", c.controllerManager)
	controllers := s.Controllers
	if len(controllers) == 0 {
		controllers = []string{"*"}
	}
	args := []string{
		"--kubeconfig=" + kubeconfig.Path,
		"--authentication-kubeconfig=" + kubeconfig.Path,
		"--authorization-kubeconfig=" + kubeconfig.Path,
		"--bind-address=" + loopback,
		"--secure-port=" + portString(s.ports.ControllerManager),
		"--tls-cert-file=" + c.controllerManagerServing.CertFile,
		"--tls-private-key-file=" + c.controllerManagerServing.KeyFile,
		"--root-ca-file=" + c.clusterCA.CertFile,
		"--cluster-signing-cert-file=" + c.clusterCA.CertFile,
		"--cluster-signing-key-file=" + c.clusterCA.KeyFile,
		"--service-account-private-key-file=" + c.serviceAccountKey,
		"--use-service-account-credentials=true",
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--profiling=false",
	}
	return Component{
		Name:  ControllerManager,
		Args:  withFeatureGates(args, s),
		Files: []File{kubeconfig},
		Ready: ReadyCheck{URL: "https://" + hostPort(loopback, s.ports.ControllerManager) + "/healthz",
			CAFile: c.clusterCA.CertFile},
		Grace: 5 * time.Second,
	}
}

// scheduler describes kube-scheduler, without leader election for the same reason.
func scheduler(s settings) Component {
	c := s.certs
	kubeconfig := kubeconfigFile(s, "scheduler.kubeconfig", c.scheduler)
	args := []string{
		"--kubeconfig=" + kubeconfig.Path,
		"--authentication-kubeconfig=" + kubeconfig.Path,
		"--authorization-kubeconfig=" + kubeconfig.Path,
		"--bind-address=" + loopback,
		"--secure-port=" + portString(s.ports.Scheduler),
		"--tls-cert-file=" + c.schedulerServing.CertFile,
		"--tls-private-key-file=" + c.schedulerServing.KeyFile,
		"--leader-elect=false",
		"--profiling=false",
	}
	return Component{
		Name:  Scheduler,
		Args:  withFeatureGates(args, s),
		Files: []File{kubeconfig},
		Ready: ReadyCheck{URL: "https://" + hostPort(loopback, s.ports.Scheduler) + "/healthz",
			CAFile: c.clusterCA.CertFile},
		Grace: 5 * time.Second,
	}
}

func portString(port int) string { return strconv.Itoa(port) }
