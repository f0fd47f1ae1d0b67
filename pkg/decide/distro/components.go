package distro

import (
	"net"
	"strconv"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Ports that Drover probes on a node.
const (
	APIServerPort       = 6443
	EtcdHealthPort      = 2381
	EtcdClientPort      = 2379
	KubeletHealthPort   = 10248
	CalicoLivenessPort  = 9099
	AuthnEndpointPort   = 6440
	controllerPort      = 10257
	schedulerPort       = 10259
	controllerComponent = "kube-controller-manager"
	schedulerComponent  = "kube-scheduler"
)

// LoopbackHost is the host by which a node reaches itself: 127.0.0.1 for ipv4, [::1] for ipv6, localhost for dual. An
// empty preference means dual. Any other value counts as ipv4.
func LoopbackHost(networking *rkev1.Networking) string {
	if networking == nil {
		return "localhost"
	}
	switch networking.StackPreference {
	case "", rkev1.StackPreferenceDual:
		return "localhost"
	case rkev1.StackPreferenceIPv6:
		return "[::1]"
	default:
		return "127.0.0.1"
	}
}

// JoinURL is the address at which a server accepts nodes. IPv6 addresses get brackets.
func (r Runtime) JoinURL(host string) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(r.SupervisorPort()))
}

// Component is a control plane process that serves its health over https with its own certificate.
type Component struct {
	// Name is the process, for example kube-scheduler.
	Name string
	// ArgKey is the configuration key with its arguments.
	ArgKey string
	// ExtraMountKey is the RKE2 configuration key with directories mounted into its static pod.
	ExtraMountKey string
	// Port is its default secure port.
	Port int
}

// ControllerManager is kube-controller-manager.
func ControllerManager() Component { return component(controllerComponent, controllerPort) }

// Scheduler is kube-scheduler.
func Scheduler() Component { return component(schedulerComponent, schedulerPort) }

func component(name string, port int) Component {
	return Component{Name: name, ArgKey: name + "-arg", ExtraMountKey: name + "-extra-mount", Port: port}
}

// CertDir is the directory in which Drover makes the component keep its certificate.
func (c Component) CertDir(dirs Dirs) string { return dirs.ServerTLS(c.Name) }
