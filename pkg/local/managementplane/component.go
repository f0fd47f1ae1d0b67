package managementplane

import (
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/drover-io/drover/pkg/local/managementplane/pki"
)

// Component is one child process as data: how to run it, and how to check that it serves.
type Component struct {
	// Name is also the first argument of drover-kube, which selects the program.
	Name string
	// Args are the program's own flags.
	Args []string
	// Files are written before the program starts.
	Files []File
	// Ready is polled until it answers 200.
	Ready ReadyCheck
	// Grace is the time that the program has to stop.
	Grace time.Duration
}

// File is a generated file. It is written with mode 0600.
type File struct {
	Path    string
	Content []byte
}

// ReadyCheck is a URL with the certificates for it.
type ReadyCheck struct {
	URL string
	// CAFile is empty for plain HTTP. Client is empty if the server asks for no client certificate.
	CAFile string
	Client pki.Pair
}

// settings is the input of component functions: the configuration, the chosen ports and the existing certificates.
type settings struct {
	Config
	ports Ports
	certs certificates
}

// certificates holds only paths.
type certificates struct {
	clusterCA, etcdCA pki.Pair

	apiServer, etcd, controllerManagerServing, schedulerServing, kubeletServing pki.Pair

	admin, controllerManager, scheduler, kubelet, apiServerToEtcd, apiServerToKubelet pki.Pair

	serviceAccountKey, serviceAccountPublic string
}

// components returns the processes in the order in which they start.
func components(s settings) []Component {
	list := []Component{etcd(s), apiServer(s)}
	if s.runs(ControllerManager) {
		list = append(list, controllerManager(s))
	}
	if s.runs(Scheduler) {
		list = append(list, scheduler(s))
	}
	if s.runs(ProcessKubelet) {
		list = append(list, processKubelet(s))
	}
	return list
}

func (s settings) apiURL() string { return "https://" + hostPort(s.BindAddress, s.ports.APIServer) }

func (s settings) runFile(name string) string { return filepath.Join(s.Dir, "run", name) }

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
