package fakeagent

import (
	"encoding/base64"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

type roles struct{ etcd, controlPlane, worker bool }

func rolesOf(secret *corev1.Secret) roles {
	has := func(label string) bool { return secret.Labels[label] == rkev1.RoleLabelValue }
	return roles{etcd: has(rkev1.EtcdRoleLabel), controlPlane: has(rkev1.ControlPlaneRoleLabel),
		worker: has(rkev1.WorkerRoleLabel)}
}

// nodeConfig is what the distribution on the host reads from the files of the plan.
type nodeConfig struct {
	// runtime is rke2 or k3s. version is the version of the installer's image.
	runtime, version string
	values           map[string]any
}

const configFile = "50-rancher.yaml"

// configOf reads the configuration file of a plan. It ignores values that it cannot read, because no known plan has
// such values.
func configOf(p plan.NodePlan) nodeConfig {
	config := nodeConfig{runtime: "k3s", values: map[string]any{}}
	for _, file := range p.Files {
		directory, name := path.Split(file.Path)
		if name != configFile {
			continue
		}
		config.runtime = path.Base(path.Dir(path.Clean(directory)))
		if content, err := base64.StdEncoding.DecodeString(file.Content); err == nil {
			_ = json.Unmarshal(content, &config.values)
		}
	}
	for _, instruction := range p.Instructions {
		if instruction.Name != installInstruction {
			continue
		}
		tag := instruction.Image[strings.LastIndex(instruction.Image, ":")+1:]
		if i := strings.LastIndex(tag, "-"); i >= 0 {
			config.version = tag[:i] + "+" + tag[i+1:]
		}
	}
	return config
}

func (c nodeConfig) withoutAPI() bool { return c.values["disable-apiserver"] == true }

// leavesCloud reports whether another program gives the Node its provider ID: the provider's cloud controller manager.
func (c nodeConfig) leavesCloud() bool {
	return slices.Contains(c.list("cloud-provider-name"), "external") ||
		slices.Contains(c.list("kubelet-arg"), "cloud-provider=external")
}

func (c nodeConfig) list(key string) []string {
	switch value := c.values[key].(type) {
	case string:
		return []string{value}
	case []any:
		var out []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				out = append(out, text)
			}
		}
		return out
	default:
		return nil
	}
}

// nodeOf returns the Node that the kubelet and a cloud controller would create for a machine. The cloud controller is
// the provider's if the plan leaves that to it, and otherwise the distribution's.
func nodeOf(m *machine, r roles, config nodeConfig, now time.Time) *corev1.Node {
	name := m.hostname
	if names := config.list("node-name"); len(names) > 0 {
		name = names[0]
	}
	labels := map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
	for role, has := range map[string]bool{"etcd": r.etcd, "control-plane": r.controlPlane, "worker": r.worker} {
		if has {
			labels["node-role.kubernetes.io/"+role] = "true"
		}
	}
	for _, text := range config.list("node-label") {
		key, value, _ := strings.Cut(text, "=")
		labels[key] = value
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: config.runtime + "://" + name},
	}
	if config.leavesCloud() {
		node.Spec.ProviderID = m.providerID
	}
	for _, text := range config.list("node-taint") {
		node.Spec.Taints = append(node.Spec.Taints, taintOf(text))
	}
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: "Simulated",
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
	}
	node.Status = corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue),
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse),
		},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: m.address},
			{Type: corev1.NodeHostName, Address: name}},
		NodeInfo: corev1.NodeSystemInfo{KubeletVersion: config.version, OperatingSystem: "linux", Architecture: "amd64",
			OSImage: "simulated"},
	}
	return node
}

// taintOf parses KEY=VALUE:EFFECT. The value is optional.
func taintOf(text string) corev1.Taint {
	rest, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
}
