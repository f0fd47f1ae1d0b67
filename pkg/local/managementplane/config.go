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
	// ControllerManager runs the garbage collector, namespaces, service accounts, Jobs and the other controllers.
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

// AllComponents is a complete single-node cluster.
func AllComponents() []string { return []string{ControllerManager, Scheduler, ProcessKubelet} }

// Config says what management plane is wanted. Only Dir and KubeBinary have no default.
type Config struct {
	// Dir is the data directory; it is created with mode 0700.
	Dir string
	// KubeBinary is the path of the program drover-kube.
	KubeBinary string
	// BindAddress is the IP address on which the Kubernetes API is served; default 127.0.0.1. Everything else listens on
	// loopback, except the kubelet, which listens here too.
	BindAddress string
	// ServingNames are further names and addresses for the API server's certificate, for callers who reach it another way.
	ServingNames []string
	// Ports are fixed ports. A port of 0 means any free one: the one used last time when it is still free.
	Ports Ports
	// Components lists the optional components to run.
	Components []string
	// Controllers limits the controller manager, in the syntax of its flag --controllers; default all ("*").
	Controllers []string
	// APIServerArgs are further flags of kube-apiserver.
	APIServerArgs []string
	// FeatureGates is given to kube-apiserver, controller manager and scheduler as it is, for example
	// "SomeFeature=true".
	FeatureGates string
	// AuditLog records every write at DIR/logs/audit.log; see ReadWrites.
	AuditLog bool
	// AuditUsers are the names of users of whom that log records everything that they ask for; see ReadRefusals.
	AuditUsers []string
	// NodeName is the process kubelet's node; default "local".
	NodeName string
	// Images tells the process kubelet what stands for an image; the first match wins.
	Images []Image
	// Networks are network namespaces for pods of the process kubelet, each of which has one as long as it lives. Without any, all pods share the
	// network, and the ports, of this machine.
	Networks []Network
	// EndPods makes Stop end the pods of the process kubelet as well. Without it they run on, as containers do when a
	// kubelet stops, and the next Start finds them.
	EndPods bool
	// Log receives the life of the child processes; default the standard logger.
	Log logrus.FieldLogger
}

// Ports of the components.
type Ports struct {
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcdPeer"`
	APIServer         int `json:"apiServer"`
	ControllerManager int `json:"controllerManager"`
	Scheduler         int `json:"scheduler"`
	Kubelet           int `json:"kubelet"`
	KubeletHealth     int `json:"kubeletHealth"`
}

// Image says what stands for a container image: a local program, or an image in a directory of this machine.
type Image struct {
	// Match is a glob over the whole image reference, as path.Match has it, except that * also matches slashes.
	Match string `json:"match"`
	// Program is the program's absolute path, which stands for the image's entrypoint; Args come before the pod's own
	// arguments.
	Program string   `json:"program,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Env is the environment that the image itself would set, as NAME=value.
	Env []string `json:"env,omitempty"`
	// WorkingDir is the image's working directory, used when the pod names none; it is created if missing.
	WorkingDir string `json:"workingDir,omitempty"`
	// User is the numeric user id of the image, used when the pod names none; 0 is root.
	User int64 `json:"user,omitempty"`
	// Files maps absolute paths inside the pod to files of this machine, which appear there read-only.
	Files map[string]string `json:"files,omitempty"`
	// Layout, in place of Program, Args, Env, WorkingDir and User, is the absolute path of a layout of the OCI image format, as
	// scripts/image writes it. Pods run its image for this machine, with its files as their root.
	Layout string `json:"layout,omitempty"`
}

// Network is a network namespace of this machine, which the caller makes and removes. What is in it has to reach BindAddress, and be reached
// from where the plane runs.
type Network struct {
	// Path is where the namespace is, such as /run/netns/NAME.
	Path string `json:"path"`
	// Address is the IP address of the pod that has it.
	Address string `json:"address"`
}

// withDefaults fills in and checks the configuration. It makes the paths absolute, because children and later runs
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

// problems names every field that cannot be used and says what would be right.
func (c Config) problems() []error {
	var problems []error
	if c.Dir == "" {
		problems = append(problems, errors.New("field Dir: is required, an empty or existing data directory"))
	}
	if ip := net.ParseIP(c.BindAddress); ip == nil || ip.IsUnspecified() {
		problems = append(problems, fmt.Errorf("field BindAddress: %q is not the address of one interface; clients are told to use it", c.BindAddress))
	}
	for _, name := range c.Components {
		if !slices.Contains(AllComponents(), name) {
			problems = append(problems, fmt.Errorf("field Components: %q is unknown; choose from %v", name, AllComponents()))
		}
	}
	for i, image := range c.Images {
		if image.Match == "" || (image.Program == "") == (image.Layout == "") || !filepath.IsAbs(image.Program+image.Layout) {
			problems = append(problems, fmt.Errorf("field Images[%d]: needs a Match and the absolute path of a Program or a Layout", i))
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
			problems = append(problems, fmt.Errorf("field Networks[%d]: needs the absolute Path of a network namespace and the IP Address in it", i))
		}
	}
	return problems
}

func checkProgram(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("field KubeBinary: %q is not a program; scripts/build-kube makes bin/drover-kube", path)
	}
	return nil
}

func (c Config) runs(component string) bool { return slices.Contains(c.Components, component) }
