package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// manifest is a file that servers apply to the cluster. It never restarts anything. A minor one is also delivered at
// any time.
func (m *machinePlan) manifest(name string, content []byte, minor bool) plan.File {
	file := fileOf(m.dirs.Manifest(name), content)
	file.Dynamic, file.Minor = true, minor
	return file
}

// fileClusterAgent is always delivered to control planes, so that it can be emptied. Before the cluster is up, every
// server gets its reduced form.
func (m *machinePlan) fileClusterAgent() error {
	agent := m.in.ClusterAgent
	if m.roles.ControlPlane || (agent.PreBootstrap && m.roles.Server()) {
		m.addFile(m.manifest("cluster-agent.yaml", []byte(agent.Manifest), true))
	}
	return nil
}

// snapshotMetadata ends the name of the manifest with the cluster's spec.
const snapshotMetadata = "-etcd-snapshot-extra-metadata"

// IsSnapshotMetadata reports whether a plan's file only contains a copy of the cluster's spec for snapshots. Every edit
// of the spec changes it, without any effect on the node.
func IsSnapshotMetadata(file plan.File) bool {
	return strings.HasSuffix(file.Path, snapshotMetadata+".yaml")
}

// fileSnapshotMetadata stores the cluster's spec in the cluster, so that snapshots contain it.
func (m *machinePlan) fileSnapshotMetadata() error {
	clusterSpec := m.in.ControlPlane.Annotations[rkev1.ClusterSpecAnnotation]
	if !m.roles.ControlPlane || m.in.ClusterAgent.PreBootstrap || clusterSpec == "" {
		return nil
	}
	name := string(m.runtime) + snapshotMetadata
	content, err := toYAML(map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": name, "namespace": "kube-system"},
		"data":       map[string]any{rkev1.SnapshotClusterSpecKey: clusterSpec},
	})
	if err != nil {
		return err
	}
	m.addFile(m.manifest(name+".yaml", content, true))
	return nil
}

// fileAddons is the user's additional manifest, unchanged.
func (m *machinePlan) fileAddons() error {
	if m.roles.ControlPlane && !m.in.ClusterAgent.PreBootstrap {
		m.addFile(m.manifest("addons.yaml", []byte(m.spec.AdditionalManifest), false))
	}
	return nil
}

// vsphereCSI is a chart that needs the cluster's identity even without values from the user.
const (
	vsphereProvider = "rancher-vsphere"
	vsphereCSI      = "rancher-vsphere-csi"
)

// fileChartConfig contains the user's values for the distribution's charts. It always exists, so that values disappear
// from the cluster when the user removes them.
func (m *machinePlan) fileChartConfig() error {
	if m.roles.OnlyWorker() {
		return nil
	}
	charts := maps.Clone(m.spec.ChartValues.Data)
	if _, given := charts[vsphereCSI]; !given && m.user["cloud-provider-name"] == vsphereProvider {
		if charts == nil {
			charts = map[string]any{}
		}
		charts[vsphereCSI] = nil
	}
	var documents [][]byte
	for _, chart := range slices.Sorted(maps.Keys(charts)) {
		document, err := m.chartConfig(chart, charts[chart])
		if err != nil {
			return err
		}
		documents = append(documents, bytes.TrimSuffix(document, []byte("\n")))
	}
	m.addFile(m.manifest("managed-chart-config.yaml", bytes.Join(documents, []byte("\n---\n")), false))
	return nil
}

func (m *machinePlan) chartConfig(chart string, values any) ([]byte, error) {
	field := fmt.Sprintf("spec.rkeConfig.chartValues[%s]", chart)
	given, ok := values.(map[string]any)
	if !ok && values != nil {
		return nil, fmt.Errorf("%s must be an object", field)
	}
	// The user's additional manifest may contain a chart of this name.
	if !m.in.Release.HasChart(chart) && !strings.Contains(m.spec.AdditionalManifest, chart) {
		m.warn(ReasonUnknownChart, field, "This release has no chart %s; Drover passes its values through", chart)
	}
	content, err := json.Marshal(withClusterID(given, m.spec.ManagementClusterName))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return toYAML(map[string]any{
		"apiVersion": "helm.cattle.io/v1",
		"kind":       "HelmChartConfig",
		"metadata":   map[string]any{"name": chart, "namespace": "kube-system"},
		"spec":       map[string]any{"valuesContent": string(content)},
	})
}

// withClusterID sets global.cattle.clusterId in a copy of chart values.
func withClusterID(values map[string]any, id string) map[string]any {
	out := copyOf(values)
	global := copyOf(asMap(out["global"]))
	cattle := copyOf(asMap(global["cattle"]))
	cattle["clusterId"] = id
	global["cattle"] = cattle
	out["global"] = global
	return out
}

func asMap(value any) map[string]any {
	out, _ := value.(map[string]any)
	return out
}

func copyOf(values map[string]any) map[string]any {
	out := make(map[string]any, len(values)+1)
	maps.Copy(out, values)
	return out
}

func toYAML(object map[string]any) ([]byte, error) {
	content, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return content, nil
}

// authnWebhook is the kubeconfig with which the API server verifies tokens at Drover's program on the same node
// (package clustermanifest, RenderAuth).
const authnWebhook = `apiVersion: v1
kind: Config
clusters:
- name: Default
  cluster:
    insecure-skip-tls-verify: true
    server: http://%s:%d/v1/authenticate
users:
- name: Default
  user:
    insecure-skip-tls-verify: true
current-context: webhook
contexts:
- name: webhook
  context:
    user: Default
    cluster: Default
`

func (m *machinePlan) fileAuthnWebhook() error {
	if m.spec.LocalClusterAuthEndpoint.Enabled && m.roles.Server() {
		m.addFile(fileOf(m.dirs.AuthnWebhook(), fmt.Appendf(nil, authnWebhook, m.loopback, distro.AuthnEndpointPort)))
	}
	return nil
}
