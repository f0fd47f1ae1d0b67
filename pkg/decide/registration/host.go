package registration

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// HostHeaderPrefix begins the headers with which a host describes itself and the node that it wants to become.
// (docs/wire/endpoints.md#register-a-host.)
const HostHeaderPrefix = "X-Cattle-"

// Names of the headers without the prefix, in lower case, as a machine request stores them.
// (docs/wire/secrets.md#machine-requests.)
const (
	hostID              = "id"
	hostEtcd            = "role-etcd"
	hostControlPlane    = "role-control-plane"
	hostWorker          = "role-worker"
	hostNodeName        = "node-name"
	hostHostname        = "hostname"
	hostAddress         = "address"
	hostInternalAddress = "internal-address"
	hostLabels          = "labels"
	hostTaints          = "taints"
)

// Host is a host's description of itself in its request to become a node of a cluster.
type Host struct {
	// ID is the identity that the host generated and keeps. It is a label value.
	ID string
	// Etcd, ControlPlane and Worker are the roles from the install command. At least one of them is true.
	Etcd, ControlPlane, Worker bool
	// NodeName is the name of the node; empty means the host's name.
	NodeName string
	// Hostname is the host's name; empty if an earlier install script does not send it.
	Hostname string
	// Address and InternalAddress are comma-separated lists of IP addresses. Empty means that the node detects them.
	Address, InternalAddress string
	// Labels and Taints are those with which the node registers.
	Labels map[string]string
	Taints []corev1.Taint
}

// HostHeaders returns the headers with which a host describes itself, as a machine request stores them: by the name
// without the prefix, in lower case. It drops other headers, including the token.
func HostHeaders(headers map[string][]string) map[string][]string {
	said := map[string][]string{}
	for name, values := range headers {
		if suffix, ok := strings.CutPrefix(strings.ToLower(name), strings.ToLower(HostHeaderPrefix)); ok {
			said[suffix] = slices.Clone(values)
		}
	}
	return said
}

// ParseRequest reads the content of a machine request Secret. See ParseHost.
func ParseRequest(request *corev1.Secret) (Host, error) {
	var said map[string][]string
	if err := json.Unmarshal(request.Data[rkev1.MachineRequestDataKey], &said); err != nil {
		return Host{}, fmt.Errorf("the machine request %s/%s must have headers in %s",
			request.Namespace, request.Name, rkev1.MachineRequestDataKey)
	}
	return ParseHost(said)
}

// ParseHost reads the result of HostHeaders. The error lists all problems. Each names the flag of the install script
// and what would be right.
func ParseHost(said map[string][]string) (Host, error) {
	first := func(name string) string {
		if values := said[name]; len(values) > 0 {
			return strings.TrimSpace(values[0])
		}
		return ""
	}
	host := Host{
		ID: first(hostID), NodeName: strings.ToLower(first(hostNodeName)),
		Hostname: strings.ToLower(first(hostHostname)),
		Etcd:     first(hostEtcd) == "true", ControlPlane: first(hostControlPlane) == "true",
		Worker:  first(hostWorker) == "true",
		Address: first(hostAddress), InternalAddress: first(hostInternalAddress),
	}
	errs := []error{
		host.check(), checkAddresses("--address", host.Address),
		checkAddresses("--internal-address", host.InternalAddress),
	}
	var err error
	if host.Labels, err = parseLabels(said[hostLabels]); err != nil {
		errs = append(errs, err)
	}
	if host.Taints, err = parseTaints(said[hostTaints]); err != nil {
		errs = append(errs, err)
	}
	return host, errors.Join(errs...)
}

// Node is the name of the node that the host becomes, "" if it is unknown.
func (h *Host) Node() string { return cmp.Or(h.NodeName, h.Hostname) }

func (h *Host) check() error {
	var errs []error
	if h.ID == "" || len(validation.IsValidLabelValue(h.ID)) > 0 {
		errs = append(errs,
			errors.New("the identity of the host must be at most 63 letters, digits, dots, dashes and underscores"))
	}
	if !h.Etcd && !h.ControlPlane && !h.Worker {
		errs = append(errs, errors.New("a role is missing: --etcd, --controlplane, --worker or --all-roles"))
	}
	if err := checkNodeName(h.NodeName); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkAddresses rejects what is not an address. The install script has already replaced names of interfaces and the
// words for clouds with addresses.
func checkAddresses(flag, list string) error {
	for _, address := range pieces([]string{list}) {
		if parsed, err := netip.ParseAddr(address); err != nil || parsed.Zone() != "" {
			return fmt.Errorf("%s %q must be an IP address, or the name of an interface that has one", flag,
				short(address))
		}
	}
	return nil
}

// longestShown is the longest part of a host's flag that a message repeats, in bytes. Messages are kept in annotations.
const longestShown = 100

// short returns the beginning of a text for a message.
func short(text string) string {
	if len(text) <= longestShown {
		return text
	}
	return strings.ToValidUTF8(text[:longestShown], "") + "…"
}

// pieces returns the parts of comma-separated lists, without empty ones.
func pieces(lists []string) []string {
	var all []string
	for _, list := range lists {
		for piece := range strings.SplitSeq(list, ",") {
			if piece = strings.TrimSpace(piece); piece != "" {
				all = append(all, piece)
			}
		}
	}
	return all
}

func parseLabels(lists []string) (map[string]string, error) {
	var labels map[string]string
	for _, piece := range pieces(lists) {
		key, value, ok := strings.Cut(piece, "=")
		switch {
		case !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0:
			return nil, fmt.Errorf("--label %q must be KEY=VALUE, a key and a value of labels", short(piece))
		case key == rkev1.CattleOSLabel && value != "linux":
			return nil, fmt.Errorf("--label %q: only linux is supported", short(piece))
		case key != rkev1.CattleOSLabel && reserved(key):
			return nil, fmt.Errorf("--label %q: Drover sets the labels of cluster.x-k8s.io, rke.cattle.io and "+
				"drover.io; choose another key", short(piece))
		case forbidden(key):
			return nil, fmt.Errorf("--label %q: a kubelet may not set this label of kubernetes.io; choose a key of "+
				"node.kubernetes.io or of your own domain", short(piece))
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels, nil
}

// reserved reports whether Drover and Cluster API use the key to identify machines and nodes.
func reserved(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	for _, own := range []string{"cluster.x-k8s.io", "rke.cattle.io", "plan.cattle.io", "resources.cattle.io",
		"drover.io"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return true
		}
	}
	return false
}

// forbidden reports whether a kubelet refuses to start with the key. It rejects the keys that the API server would
// reject.
func forbidden(key string) bool {
	domain, name, _ := strings.Cut(key, "/")
	if domain != "kubernetes.io" && domain != "k8s.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasSuffix(domain, ".k8s.io") {
		return false
	}
	for _, allowed := range []string{"node.kubernetes.io", "kubelet.kubernetes.io"} {
		if domain == allowed || strings.HasSuffix(domain, "."+allowed) {
			return false
		}
	}
	return !slices.Contains(map[string][]string{"kubernetes.io": {"hostname", "os", "arch"},
		"topology.kubernetes.io": {"zone", "region"}}[domain], name)
}

// parseTaints reads KEY=VALUE:EFFECT, and KEY:EFFECT like kubectl.
func parseTaints(lists []string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	seen := map[corev1.Taint]bool{}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
		corev1.TaintEffectNoExecute}
	for _, piece := range pieces(lists) {
		rest, effect, _ := strings.Cut(piece, ":")
		key, value, _ := strings.Cut(rest, "=")
		taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 ||
			!slices.Contains(effects, taint.Effect) {
			return nil, fmt.Errorf(
				"--taint %q must be KEY=VALUE:EFFECT or KEY:EFFECT, with the effect NoSchedule, PreferNoSchedule or "+
					"NoExecute", short(piece))
		}
		if strings.HasPrefix(key, "node-role.kubernetes.io/") {
			return nil, fmt.Errorf("--taint %q: Drover sets the taints of node-role.kubernetes.io from the roles; "+
				"choose another key", short(piece))
		}
		same := corev1.Taint{Key: taint.Key, Effect: taint.Effect}
		if seen[same] {
			return nil, fmt.Errorf("--taint %q: another taint has the same key and effect; remove one of them",
				short(piece))
		}
		seen[same] = true
		taints = append(taints, taint)
	}
	return taints, nil
}
