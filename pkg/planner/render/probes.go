package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/distro"
)

// Names of probes. Messages about unhealthy machines list them.
const (
	ProbeETCD      = "etcd"
	ProbeAPIServer = "kube-apiserver"
	ProbeKubelet   = "kubelet"
	ProbeCalico    = "calico"
)

// probes are the health checks the agent makes; a machine counts as ready when all of them pass.
func (m *machinePlan) probes() error {
	m.out.Probes = map[string]plan.Probe{}
	if m.roles.ETCD && m.runtime == distro.RKE2 {
		m.probe(ProbeETCD, plan.HTTPGetAction{URL: fmt.Sprintf("http://%s:%d/health", m.loopback, distro.EtcdHealthPort)})
	}
	if m.roles.ControlPlane {
		m.probe(ProbeAPIServer, plan.HTTPGetAction{
			URL:        fmt.Sprintf("https://%s:%s/readyz", m.loopback, m.apiServerPort()),
			CACert:     m.dirs.ServerTLS("server-ca.crt"),
			ClientCert: m.dirs.ServerTLS("client-kube-apiserver.crt"),
			ClientKey:  m.dirs.ServerTLS("client-kube-apiserver.key"),
		})
		for _, component := range []distro.Component{distro.ControllerManager(), distro.Scheduler()} {
			port, cert := m.healthOf(component)
			m.probe(component.Name, plan.HTTPGetAction{URL: fmt.Sprintf("https://%s:%s/healthz", m.loopback, port), CACert: cert})
		}
	}
	// An only-etcd server of K3s runs no kubelet.
	if m.runtime == distro.RKE2 || !m.roles.OnlyETCD() {
		m.probe(ProbeKubelet, plan.HTTPGetAction{URL: fmt.Sprintf("http://%s:%s/healthz", m.loopback, m.kubeletPort())})
	}
	if m.runtime == distro.RKE2 && !m.roles.OnlyETCD() && !m.in.Machine.Windows && m.usesCalico() {
		m.probe(ProbeCalico, plan.HTTPGetAction{URL: fmt.Sprintf("http://%s:%d/liveness", m.loopback, distro.CalicoLivenessPort)})
	}
	return nil
}

func (m *machinePlan) probe(name string, get plan.HTTPGetAction) {
	m.out.Probes[name] = plan.Probe{
		InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 5, HTTPGetAction: get,
	}
}

// apiServerPort honours the key by which K3s moves its API server.
func (m *machinePlan) apiServerPort() string {
	if port, ok := m.config["https-listen-port"]; ok && m.runtime == distro.K3s {
		return fmt.Sprint(port)
	}
	return strconv.Itoa(distro.APIServerPort)
}

// kubeletPort honours a kubelet argument that moves its health endpoint.
func (m *machinePlan) kubeletPort() string {
	if port := argValue(listOf(m.config["kubelet-arg"]), "healthz-port"); port != "" {
		return port
	}
	return strconv.Itoa(distro.KubeletHealthPort)
}

// usesCalico reads the effective network plugins, which may be one name, a comma list or a list, alone or with multus.
func (m *machinePlan) usesCalico() bool {
	plugins := stringsOf(m.user["cni"])
	return len(plugins) == 0 || slices.ContainsFunc(plugins, func(name string) bool {
		return slices.Contains(strings.Split(name, "+"), "calico")
	})
}
