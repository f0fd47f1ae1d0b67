package supportbundle

import (
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/decide/redact"
)

// free are fields with arbitrary content from users. Their values are hidden at every depth.
var free = []string{"chartValues", "additionalManifest", "inlineUserdata", "userdata", "userData", "customData",
	"cloudConfig", "cloud-config", "caBundle", "endpointCA"}

// configs are fields with the configuration of nodes. Only the values of open keys are shown.
var configs = []string{"machineGlobalConfig", "config"}

// commands are fields with command lines that contain tokens.
var commands = []string{"command", "insecureCommand", "nodeCommand", "insecureNodeCommand", "windowsNodeCommand",
	"insecureWindowsNodeCommand", "manifestUrl"}

// open are the keys of the nodes' configuration whose values are shown.
var open = []string{
	"cni", "cluster-cidr", "service-cidr", "cluster-dns", "cluster-domain", "service-node-port-range", "disable",
	"disable-kube-proxy", "disable-cloud-controller", "disable-network-policy",
	"disable-scheduler", "disable-apiserver", "disable-controller-manager", "disable-etcd", "tls-san", "profile",
	"protect-kernel-defaults", "selinux", "debug", "node-label", "node-taint",
	"node-name", "node-ip", "node-external-ip", "server", "data-dir", "etcd-expose-metrics", "etcd-disable-snapshots",
	"etcd-snapshot-retention", "etcd-snapshot-schedule-cron",
	"etcd-s3", "etcd-s3-bucket", "etcd-s3-region", "etcd-s3-folder", "etcd-s3-skip-ssl-verify", "flannel-backend",
	"flannel-iface", "egress-selector-mode", "write-kubeconfig-mode", "cluster-init",
	"secrets-encryption", "system-default-registry", "ingress-controller", "enable-servicelb", "embedded-registry",
	"supervisor-metrics", "private-registry", "advertise-address",
	"kube-apiserver-arg", "kube-controller-manager-arg", "kube-scheduler-arg", "kubelet-arg", "kube-proxy-arg",
	"etcd-arg", "kube-cloud-controller-manager-arg", "cloud-provider-name",
	"kube-apiserver-extra-mount", "kube-controller-manager-extra-mount", "kube-scheduler-extra-mount",
	"agent-token-file", "token-file",
}

// each returns a tree with f applied to its leaves. name is the nearest field.
func each(name string, node any, f func(name string, leaf any) any) any {
	switch value := node.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, child := range value {
			out[key] = each(key, child, f)
		}
		return out
	case []any:
		out := make([]any, 0, len(value))
		for _, child := range value {
			out = append(out, each(name, child, f))
		}
		return out
	}
	return f(name, node)
}

// text hides a text.
func (h *hider) text(name string, leaf any) any {
	if text, ok := leaf.(string); ok {
		return h.named(name, text)
	}
	return leaf
}

// value hides a text or a number, because numbers can be secrets too.
func (h *hider) value(name string, leaf any) any {
	switch leaf.(type) {
	case string:
		return h.text(name, leaf)
	case nil, bool:
		return leaf
	}
	return "(hidden)"
}

// walk hides the secrets below a field with that name.
func (h *hider) walk(name string, node any) any {
	if slices.Contains(free, name) {
		return each(name, node, h.value)
	}
	switch value := node.(type) {
	case map[string]any:
		return h.fields(slices.Contains(configs, name), value)
	case []any:
		if name == "args" || name == "command" {
			return h.arguments(value)
		}
		out := make([]any, 0, len(value))
		for _, child := range value {
			out = append(out, h.walk(name, child))
		}
		return out
	case string:
		if redact.Named(name) || slices.Contains(commands, name) {
			return h.hide(value)
		}
	}
	return node
}

// fields hides secrets in a map. In the configuration of nodes, it hides the values of keys that can hold secrets. It
// hides the value of a variable, a map with name and value.
func (h *hider) fields(isConfig bool, value map[string]any) map[string]any {
	variable, isVariable := value["name"].(string)
	out := make(map[string]any, len(value))
	for key, child := range value {
		text, isText := child.(string)
		switch {
		case isConfig && slices.Contains(open, key):
			out[key] = h.arguments(child)
		case isConfig:
			out[key] = each(key, child, h.value)
		case isVariable && isText && key == "value":
			out[key] = h.named(variable, text)
		default:
			out[key] = h.walk(key, child)
		}
	}
	return out
}

// named hides the value of a field with that name.
func (h *hider) named(name, value string) string {
	if redact.Named(name) {
		return h.hide(value)
	}
	return h.hideFree(value)
}

// arguments hides scripts, and the values of flags whose names suggest a secret.
func (h *hider) arguments(node any) any {
	list, ok := node.([]any)
	if !ok {
		return node
	}
	out, secret := make([]any, 0, len(list)), false
	for _, item := range list {
		text, isText := item.(string)
		name, value, assigned := strings.Cut(text, "=")
		switch {
		case secret && isText:
			item = h.hide(text)
		case isDocument(text):
			item = hidden(len(text))
		case assigned && h.secretFlag(name):
			item = name + "=" + h.hide(value)
		}
		out = append(out, item)
		secret = isText && !assigned && !secret && strings.HasPrefix(text, "-") && h.secretFlag(text)
	}
	return out
}

// longest is the maximum length of a visible value. Longer values are files.
const longest = 200

func isDocument(text string) bool { return len(text) > longest || strings.Contains(text, "\n") }

// secretFlag reports whether the value of a flag, or of a similar argument, must be hidden.
func (h *hider) secretFlag(name string) bool {
	return redact.Named(name) || slices.ContainsFunc(h.undescribed, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}
