package render

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// Names of probes. Messages about unhealthy machines contain them.
const (
	ProbeETCD      = "etcd"
	ProbeAPIServer = "kube-apiserver"
	ProbeKubelet   = "kubelet"
	ProbeCalico    = "calico"
)

// probes are the agent's health checks. A machine is ready when all of them pass. They follow the user's ports and
// addresses. A component that the user switched off has no probe, because the probe would never pass.
func (m *machinePlan) probes() error {
	m.out.Probes = map[string]plan.Probe{}
	if m.roles.ETCD && m.runtime == distro.RKE2 {
		m.probe(ProbeETCD, m.etcdHealth())
	}
	if m.roles.ControlPlane {
		m.probeAPIServer()
		m.probeComponent(distro.ControllerManager(), "disable-controller-manager")
		m.probeComponent(distro.Scheduler(), "disable-scheduler")
	}
	if !m.switchedOn("disable-agent") {
		m.probeKubelet()
	}
	if m.runtime == distro.RKE2 && !m.roles.OnlyETCD() && m.usesCalico() {
		m.probe(ProbeCalico, plan.HTTPGetAction{URL: fmt.Sprintf("http://%s:%s/liveness", m.loopback, m.calicoPort())})
	}
	return nil
}

func (m *machinePlan) probeAPIServer() {
	if m.switchedOn("disable-apiserver") {
		return
	}
	m.probe(ProbeAPIServer, plan.HTTPGetAction{
		URL:        fmt.Sprintf("https://%s:%s/readyz", m.loopback, m.apiServerPort()),
		CACert:     m.dirs.ServerTLS("server-ca.crt"),
		ClientCert: m.dirs.ServerTLS("client-kube-apiserver.crt"),
		ClientKey:  m.dirs.ServerTLS("client-kube-apiserver.key"),
	})
}

func (m *machinePlan) probeKubelet() {
	args := listOf(m.config["kubelet-arg"])
	port := cmp.Or(argValue(args, "healthz-port"), strconv.Itoa(distro.KubeletHealthPort))
	if port != "0" {
		host := m.reachedAt(argValue(args, "healthz-bind-address"))
		m.probe(ProbeKubelet, plan.HTTPGetAction{URL: fmt.Sprintf("http://%s:%s/healthz", host, port)})
	}
}

// probeComponent probes a control plane component, unless it is switched off or serves no health.
func (m *machinePlan) probeComponent(component distro.Component, off string) {
	port, cert := m.healthOf(component)
	if port == "0" || m.switchedOn(off) {
		return
	}
	host := m.reachedAt(argValue(listOf(m.config[component.ArgKey]), "bind-address"))
	m.probe(component.Name, plan.HTTPGetAction{URL: fmt.Sprintf("https://%s:%s/healthz", host, port), CACert: cert})
}

func (m *machinePlan) switchedOn(key string) bool {
	on, _ := m.config[key].(bool)
	return on
}

func (m *machinePlan) reachedAt(address string) string { return reachedAt(address, m.loopback) }

// reachedAt is the host at which the node reaches a listener: the loopback host, unless the listener uses only another
// address.
func reachedAt(address, loopback string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.IsUnspecified() || ip.IsLoopback() {
		return loopback
	}
	if ip.Is6() {
		return "[" + address + "]"
	}
	return address
}

// etcdHealth is the health endpoint of etcd, which is at the address of its metrics.
func (m *machinePlan) etcdHealth() plan.HTTPGetAction {
	get := plan.HTTPGetAction{URL: fmt.Sprintf("http://%s:%d/health", m.loopback, distro.EtcdHealthPort)}
	first, _, _ := strings.Cut(argValue(listOf(m.config["etcd-arg"]), "listen-metrics-urls"), ",")
	at, err := url.Parse(strings.TrimSpace(first))
	if err != nil || at.Host == "" || at.Port() == "" {
		return get
	}
	get.URL = fmt.Sprintf("%s://%s:%s/health", at.Scheme, m.reachedAt(at.Hostname()), at.Port())
	if at.Scheme == "https" {
		get.CACert, get.ClientCert, get.ClientKey = m.dirs.ServerTLS("etcd/server-ca.crt"),
			m.dirs.ServerTLS("etcd/client.crt"), m.dirs.ServerTLS("etcd/client.key")
	}
	return get
}

func (m *machinePlan) probe(name string, get plan.HTTPGetAction) {
	m.out.Probes[name] = plan.Probe{
		InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 5, HTTPGetAction: get,
	}
}

// apiServerPort is the port of the API server. A key moves it on K3s.
func (m *machinePlan) apiServerPort() string {
	if port, ok := m.config["https-listen-port"]; ok && m.runtime == distro.K3s {
		return fmt.Sprint(port)
	}
	return strconv.Itoa(distro.APIServerPort)
}

// calicoPort is the port of Calico's health endpoint. A value of the chart moves it.
func (m *machinePlan) calicoPort() string {
	felix := asMap(asMap(m.spec.ChartValues.Data["rke2-calico"])["felixConfiguration"])
	if port, ok := felix["healthPort"]; ok {
		return fmt.Sprint(normalize(port))
	}
	return strconv.Itoa(distro.CalicoLivenessPort)
}

// usesCalico reads the effective network plugins: one name, a comma-separated list or a list, alone or with multus.
func (m *machinePlan) usesCalico() bool {
	plugins := stringsOf(m.user["cni"])
	return len(plugins) == 0 || slices.ContainsFunc(plugins, func(name string) bool {
		return slices.Contains(strings.Split(name, "+"), "calico")
	})
}

// SupervisorPort is the port at which the machine accepts joining nodes. On K3s it is by default the port of the API,
// which the user may move. The machine's plan reports an unreadable selector.
func SupervisorPort(in Input) int {
	m := newMachinePlan(in)
	if err := m.layerUser(); err != nil {
		return m.runtime.SupervisorPort()
	}
	return m.supervisorPort()
}

func (m *machinePlan) supervisorPort() int {
	if m.runtime == distro.K3s {
		for _, key := range []string{"supervisor-port", "https-listen-port"} {
			if port, err := strconv.ParseUint(fmt.Sprint(m.user[key]), 10, 16); err == nil && port > 0 {
				return int(port)
			}
		}
	}
	return m.runtime.SupervisorPort()
}
