package managementplane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/sirupsen/logrus"
)

// Optional components, for Config.Components. etcd and kube-apiserver always run.
const (
	// ControllerManager runs the garbage collector and the controllers of namespaces, service accounts, Jobs and other
	// kinds.
	ControllerManager = "kube-controller-manager"
	// Scheduler binds pods to nodes.
	Scheduler = "kube-scheduler"
	// ProcessKubelet is a node whose pods are local processes. It needs root.
	ProcessKubelet = "process-kubelet"
)

const (
	etcdName      = "etcd"
	apiServerName = "kube-apiserver"
	loopback      = "127.0.0.1"
)

// AllComponents returns the components of a complete single-node cluster.
func AllComponents() []string { return []string{ControllerManager, Scheduler, ProcessKubelet} }

// Config configures a management plane. Only Dir and KubeBinary have no default.
type Config struct {
	// Dir is the data directory. It is created with mode 0700.
	Dir string
	// KubeBinary is the path of the program drover-kube.
	KubeBinary string
	// BindAddress is the IP address of the Kubernetes API and of the kubelet. The default is 127.0.0.1. All other
	// components listen on loopback.
	BindAddress string
	// ServingNames are additional names and addresses for the API server's certificate.
	ServingNames []string
	// Ports are fixed ports. A port of 0 means any free port. The plane reuses the previous one if it is still free.
	Ports Ports
	// Components lists the optional components to run.
	Components []string
	// Controllers limits the controller manager, in the syntax of its flag --controllers. The default is all ("*").
	Controllers []string
	// APIServerArgs are additional flags of kube-apiserver.
	APIServerArgs []string
	// FeatureGates is passed unchanged to kube-apiserver, controller manager and scheduler, for example
	// "SomeFeature=true".
	FeatureGates string
	// AuditLog records every write in DIR/logs/audit.log.
	AuditLog bool
	// AuditUsers are users whose requests are all recorded in that log.
	AuditUsers []string
	// NodeName is the name of the process kubelet's node. The default is "local".
	NodeName string
	// Images maps images to programs for the process kubelet. The first match wins.
	Images []Image
	// Networks are network namespaces for pods of the process kubelet. Each pod has one for its lifetime. Without
	// Networks, all pods share this machine's network and ports.
	Networks []Network
	// EndPods makes Stop also end the pods of the process kubelet. Without it they continue, as containers do when a
	// kubelet stops, and the next Start resumes them.
	EndPods bool
	// Log receives the events of the child processes. The default is the standard logger.
	Log logrus.FieldLogger
}

// Ports are the ports of the components.
type Ports struct {
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcdPeer"`
	APIServer         int `json:"apiServer"`
	ControllerManager int `json:"controllerManager"`
	Scheduler         int `json:"scheduler"`
	Kubelet           int `json:"kubelet"`
	KubeletHealth     int `json:"kubeletHealth"`
}

// Image maps a container image to a local program or to an image in a directory of this machine.
type Image struct {
	// Match is a glob over the whole image reference, as in path.Match, except that "*" also matches slashes.
	Match string `json:"match"`
	// Program is the absolute path of the program that replaces the image's entrypoint. Args precede the pod's own
	// arguments.
	Program string   `json:"program,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Env is the environment that the image itself would set, as NAME=value.
	Env []string `json:"env,omitempty"`
	// WorkingDir is the image's working directory, created if missing. A pod can override it.
	WorkingDir string `json:"workingDir,omitempty"`
	// User is the numeric user ID of the image. 0 is root. A pod can override it.
	User int64 `json:"user,omitempty"`
	// Files maps absolute paths inside the pod to files of this machine. They are read-only in the pod.
	Files map[string]string `json:"files,omitempty"`
	// Layout is the absolute path of an OCI image layout, as scripts/image writes it. It replaces Program, Args, Env,
	// WorkingDir and User. Pods run its image for this machine, with its files as their root.
	Layout string `json:"layout,omitempty"`
}

// Network is a network namespace of this machine. The caller creates and removes it. Its processes must be able to
// reach BindAddress, and the plane must be able to reach them.
type Network struct {
	// Path is the path of the namespace, such as /run/netns/NAME.
	Path string `json:"path"`
	// Address is the IP address of the pod that uses it.
	Address string `json:"address"`
}

// withDefaults sets defaults and checks the configuration. It makes the paths absolute, because children and later runs
// compare them.
func (c Config) withDefaults() (Config, error) {
	if c.BindAddress == "" {
		c.BindAddress = loopback
	}
	if c.NodeName == "" {
		c.NodeName = "local"
	}
	if c.Log == nil {
		c.Log = logrus.StandardLogger()
	}
	if problems := c.problems(); len(problems) > 0 {
		return c, fmt.Errorf("configure management plane: %w", errors.Join(problems...))
	}
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, fmt.Errorf("find data directory: %w", err)
	}
	if c.KubeBinary, err = filepath.Abs(c.KubeBinary); err != nil {
		return c, fmt.Errorf("find drover-kube: %w", err)
	}
	return c, nil
}

// problems returns an error for every invalid field, with the values that are valid.
func (c Config) problems() []error {
	var problems []error
	if c.Dir == "" {
		problems = append(problems, errors.New("field Dir: is required, an empty or existing data directory"))
	}
	if ip := net.ParseIP(c.BindAddress); ip == nil || ip.IsUnspecified() {
		problems = append(problems, fmt.Errorf("field BindAddress: %q must be the address of one interface, because "+
			"clients use it", c.BindAddress))
	}
	for _, name := range c.Components {
		if !slices.Contains(AllComponents(), name) {
			problems = append(problems, fmt.Errorf("field Components: %q is unknown; choose from %v", name,
				AllComponents()))
		}
	}
	for i, image := range c.Images {
		if image.Match == "" || (image.Program == "") == (image.Layout == "") ||
			!filepath.IsAbs(image.Program+image.Layout) {
			problems = append(problems,
				fmt.Errorf("field Images[%d]: needs a Match and the absolute path of a Program or a Layout", i))
		}
	}
	problems = append(problems, networkProblems(c.Networks)...)
	if err := checkProgram(c.KubeBinary); err != nil {
		problems = append(problems, err)
	}
	return problems
}

func networkProblems(networks []Network) []error {
	var problems []error
	for i, network := range networks {
		if !filepath.IsAbs(network.Path) || net.ParseIP(network.Address) == nil {
			problems = append(problems,
				fmt.Errorf("field Networks[%d]: needs the absolute Path of a network namespace and the IP "+
					"Address in it", i))
		}
	}
	return problems
}

func checkProgram(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("field KubeBinary: %q must be a program; scripts/build-kube builds bin/drover-kube", path)
	}
	return nil
}

func (c Config) runs(component string) bool { return slices.Contains(c.Components, component) }
