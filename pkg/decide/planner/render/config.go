package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// Reasons of warnings.
const (
	// ReasonUnknownRelease: the Kubernetes version is not in the release data. Keys are checked against its neighbors.
	ReasonUnknownRelease = "UnknownRelease"
	// ReasonUnknownConfigKey: the release is not known to understand a key. The key is passed through.
	ReasonUnknownConfigKey = "UnknownConfigKey"
	// ReasonUnexpectedValue: a value has the wrong type for its key. The value is passed through.
	ReasonUnexpectedValue = "UnexpectedValue"
	// ReasonOverriddenConfigKey: the user set a managed key, which got another value.
	ReasonOverriddenConfigKey = "OverriddenConfigKey"
	// ReasonUnknownChart: the user gives values for a chart that the release does not contain. The values are passed
	// through.
	ReasonUnknownChart = "UnknownChart"
	// ReasonMissingKey: an object lacks a key. The file from it is empty.
	ReasonMissingKey = "MissingKey"
	// ReasonSameFile: several sources write the same file.
	ReasonSameFile = "SameFile"
	// ReasonServerOnlyKey: a selector gives a key for servers to workers. The key is omitted on workers.
	ReasonServerOnlyKey = "ServerOnlyConfigKey"
	// ReasonMisplacedKey: a key is passed through, but a field of the cluster's spec should be set instead.
	ReasonMisplacedKey = "MisplacedConfigKey"
	// ReasonForeignDatastore: a server keeps its data in a datastore other than etcd. The key is passed through.
	ReasonForeignDatastore = "ForeignDatastore"
	// ReasonUnusablePullSecret: a pull secret of the system default registry was skipped.
	ReasonUnusablePullSecret = "UnusablePullSecret" //nolint:gosec // the name of a reason, not a secret
)

// Fields of the cluster's spec in messages.
const (
	fieldVersion  = "spec.kubernetesVersion"
	fieldGlobal   = "spec.rkeConfig.machineGlobalConfig"
	fieldSelector = "spec.rkeConfig.machineSelectorConfig"
)

// layerUser merges the user's configuration for this machine. A key of a later source replaces the earlier value
// completely; lists and maps are never merged.
func (m *machinePlan) layerUser() error {
	m.user, m.origin = map[string]any{}, map[string]string{}
	if m.runtime == distro.RKE2 {
		m.user["cni"] = "calico"
	}
	m.mergeUser(fieldGlobal, m.spec.MachineGlobalConfig.Data)
	for i, entry := range m.spec.MachineSelectorConfig {
		field := fmt.Sprintf("%s[%d]", fieldSelector, i)
		matches, err := m.selects(field, entry.MachineLabelSelector)
		if err != nil {
			return err
		}
		if matches {
			m.mergeUser(field+".config", entry.Config.Data)
		}
	}
	return nil
}

func (m *machinePlan) mergeUser(field string, data map[string]any) {
	for key, value := range data {
		m.user[key] = normalize(value)
		m.origin[key] = field + "." + key
	}
}

// selects reports whether a machine selector matches. An absent or empty one matches every machine.
func (m *machinePlan) selects(field string, selector *metav1.LabelSelector) (bool, error) {
	if selector == nil {
		return true, nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, fmt.Errorf("%s.machineLabelSelector: %w", field, err)
	}
	return parsed.Matches(labels.Set(m.in.Machine.Labels)), nil
}

// normalize converts equal values to equal bytes, for any decoder.
func normalize(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
		return v
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case []string:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = item
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = normalize(item)
		}
		return out
	default:
		return value
	}
}

// layerRelease checks the user's keys against the release. It omits keys for servers on a worker, where they have no
// meaning, and passes all other keys through.
func (m *machinePlan) layerRelease() error {
	m.config = make(map[string]any, len(m.user)+16)
	release := m.in.Release
	if !release.Known {
		m.warn(ReasonUnknownRelease, fieldVersion, "The release data do not describe %s: Drover checks configuration "+
			"keys against the nearest versions",
			m.spec.KubernetesVersion)
	}
	for _, key := range slices.Sorted(maps.Keys(m.user)) {
		value := m.user[key]
		kind, known := release.Arg(key, m.roles.Server())
		if !known {
			if _, serverOnly := release.ServerArgs[key]; serverOnly {
				m.warnServerOnly(key)
				continue
			}
			if !release.Empty() {
				m.warn(ReasonUnknownConfigKey, m.origin[key], "Key %s is unknown in this release, and Drover passes "+
					"it through", key)
			}
		}
		m.config[key] = m.typed(key, value, kind)
	}
	return nil
}

// warnServerOnly warns about a key that is omitted on a worker, if the user chose the worker by a selector. Keys for
// all machines are meant for servers.
func (m *machinePlan) warnServerOnly(key string) {
	for i, entry := range m.spec.MachineSelectorConfig {
		_, has := entry.Config.Data[key]
		field := fmt.Sprintf("%s[%d]", fieldSelector, i)
		if has && m.origin[key] == field+".config."+key && !selectsAll(entry.MachineLabelSelector) {
			m.warn(ReasonServerOnlyKey, m.origin[key], "Key %s is only for servers, and Drover omits it on workers",
				key)
		}
	}
}

// selectsAll reports whether a selector selects all machines.
func selectsAll(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// typed converts a value to the type of its key where that is safe, and otherwise warns.
func (m *machinePlan) typed(key string, value any, kind distro.ArgKind) any {
	text, isText := value.(string)
	switch value.(type) {
	case map[string]any:
		m.warn(ReasonUnexpectedValue, m.origin[key], "Key %s has an object as value, and Drover passes it through", key)
	case bool, []any:
		return value
	}
	if kind != distro.ArgBool {
		return value
	}
	if isText {
		switch strings.ToLower(text) {
		case "true", "t", "yes", "y":
			return true
		case "false", "f", "no", "n":
			return false
		case "":
			return value
		}
	}
	m.warn(ReasonUnexpectedValue, m.origin[key], "Key %s must be true or false; Drover passes its value through", key)
	return value
}

// set gives a key a managed value, and warns when it overrides the user's value.
func (m *machinePlan) set(key string, value any) {
	if field, ok := m.origin[key]; ok {
		if old, kept := m.config[key]; kept && !reflect.DeepEqual(old, normalize(value)) {
			m.warn(ReasonOverriddenConfigKey, field, "Drover manages key %s and ignores the value", key)
		}
	}
	m.config[key] = value
}

func (m *machinePlan) layerDataDir() error {
	if m.spec.DataDirectories.K8sDistro != "" {
		m.set(keyDataDir, m.dirs.Data)
	} else if own, set := m.config[keyDataDir]; set && own != m.dirs.Data {
		m.warn(ReasonMisplacedKey, m.origin[keyDataDir],
			"Drover passes key %s through, but uses files and health checks in "+
				"%s: set "+FieldDataDir+" instead", keyDataDir, m.dirs.Data)
	}
	return nil
}

func (m *machinePlan) layerETCD() error {
	etcd := m.spec.ETCD
	if etcd == nil || !m.roles.ETCD {
		return nil
	}
	if etcd.DisableSnapshots {
		m.set("etcd-disable-snapshots", true)
	}
	if etcd.SnapshotRetention > 0 {
		m.set("etcd-snapshot-retention", int64(etcd.SnapshotRetention))
	}
	if etcd.SnapshotScheduleCron != "" {
		m.set("etcd-snapshot-schedule-cron", etcd.SnapshotScheduleCron)
	}
	options, ca, err := m.s3Options(etcd.S3)
	if err != nil {
		return err
	}
	for _, option := range options {
		m.set(option.key, option.value)
	}
	if ca != nil {
		m.parts[partS3CA] = *ca
	}
	return nil
}

// layerStart decides whether the node starts the cluster or joins it, and overrides the user's keys. Two nodes that
// start a cluster, or one that resets it at each start of its service, would make several clusters.
func (m *machinePlan) layerStart() {
	managed := map[string]any{}
	switch {
	case !m.in.InitNode:
		managed[keyServer] = m.in.JoinURL
	case m.runtime == distro.K3s:
		managed["cluster-init"] = true
	}
	for _, key := range []string{keyServer, "cluster-init", "cluster-reset", "cluster-reset-restore-path"} {
		if value, given := m.config[key]; given && !reflect.DeepEqual(value, managed[key]) {
			m.warn(ReasonOverriddenConfigKey, m.origin[key], "Drover manages key %s and ignores the value", key)
		}
		delete(m.config, key)
	}
	maps.Copy(m.config, managed)
}

func (m *machinePlan) layerRole() error {
	m.layerStart()
	if m.roles.OnlyETCD() {
		m.set("disable-scheduler", true)
		m.set("disable-apiserver", true)
		m.set("disable-controller-manager", true)
	}
	if m.roles.OnlyControlPlane() {
		m.set("disable-etcd", true)
	}
	if registry := m.privateRegistry(); m.roles.Server() && registry.host != "" {
		m.set("system-default-registry", registry.host)
	}
	if m.in.Machine.NodeName != "" {
		m.set("node-name", m.in.Machine.NodeName)
	}
	return nil
}

// layerPrime uses the annotation when it has a value, else the setting.
func (m *machinePlan) layerPrime() error {
	if m.runtime != distro.RKE2 || !m.roles.Server() {
		return nil
	}
	if _, userSet := m.config["prime"]; userSet {
		return nil
	}
	enabled := m.in.Settings.RKE2Prime
	if value := m.in.ControlPlane.Annotations[provv1.RKE2PrimeEnabledAnnotation]; value != "" {
		enabled = strings.EqualFold(value, "true")
	}
	if _, supported := m.in.Release.ServerArgs["prime"]; enabled && supported {
		m.set("prime", true)
	}
	return nil
}

func (m *machinePlan) layerAuthnWebhook() error {
	if m.spec.LocalClusterAuthEndpoint.Enabled && m.roles.Server() {
		m.appendTo("kube-apiserver-arg", "authentication-token-webhook-config-file="+m.dirs.AuthnWebhook())
	}
	return nil
}

func (m *machinePlan) layerTokens() error {
	tokens := m.in.Tokens
	if tokens == (Tokens{}) {
		return nil
	}
	if m.roles.OnlyWorker() {
		m.set("token", tokens.Agent)
		return nil
	}
	m.set("token", tokens.Server)
	m.set("agent-token", tokens.Agent)
	return nil
}

// appendTo extends the user's list or single string under a key.
func (m *machinePlan) appendTo(key string, values ...string) {
	list := listOf(m.config[key])
	for _, value := range values {
		list = append(list, value)
	}
	m.config[key] = list
}

// listOf reads a list from a value that may be a list or a single string. The caller may append to the result.
func listOf(value any) []any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		return slices.Clone(v)
	case string:
		if v == "" {
			return nil
		}
		return []any{v}
	default:
		return []any{v}
	}
}

// stringsOf reads a list of strings from a value that may be a list or a comma-separated string.
func stringsOf(value any) []string {
	var out []string
	for _, item := range listOf(value) {
		for text := range strings.SplitSeq(fmt.Sprint(item), ",") {
			if text = strings.TrimSpace(text); text != "" {
				out = append(out, text)
			}
		}
	}
	return out
}

// layerPrune removes keys without a value: nil, empty strings and empty lists.
func (m *machinePlan) layerPrune() error {
	maps.DeleteFunc(m.config, func(_ string, value any) bool {
		switch v := value.(type) {
		case nil:
			return true
		case string:
			return v == ""
		case []any:
			return len(v) == 0
		case []string:
			return len(v) == 0
		default:
			return false
		}
	})
	return nil
}

// fileConfig writes the main configuration. JSON is valid YAML, and sorted keys make it stable.
func (m *machinePlan) fileConfig() error {
	content, err := encodeConfig(m.config)
	if err != nil {
		return err
	}
	forDrain := maps.Clone(m.config)
	delete(forDrain, keyServer)
	delete(forDrain, "cluster-init")
	if m.drainConfig, err = encodeConfig(forDrain); err != nil {
		return err
	}
	m.addFile(fileOf(m.runtime.ConfigFile(), content))
	return nil
}

func encodeConfig(config map[string]any) ([]byte, error) {
	content, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode configuration of the node: %w", err)
	}
	return content, nil
}
