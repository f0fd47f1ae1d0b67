package charts

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestDrover_Refuses: unknown, impossible or incompatible values are rejected with an explanation.
func TestDrover_Refuses(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"an unknown value":        {values: `{replicas: 3}`, want: "replicas"},
		"an unknown nested value": {values: `{server: {log: {colour: red}}}`, want: "colour"},
		"one port for two listeners": {values: `{admission: {port: 8443}}`,
			want: "admission.port and server.port are both port 8443"},
		"a word instead of a number":   {values: `{server: {port: https}}`, want: "/server/port"},
		"a port that needs privileges": {values: `{server: {port: 443}}`, want: "/server/port"},
		"an unknown mode":              {values: `{server: {capi: both}}`, want: "/server/capi"},
		"an unknown way to write":      {values: `{server: {coreWrites: few}}`, want: "/server/coreWrites"},
		"an address without TLS": {values: `{server: {url: "http://drover.example.com"}}`,
			want: "/server/url"},
		"an address with a path": {values: `{server: {url: "https://example.com/drover"}}`,
			want: "/server/url"},
		"a time without a unit": {values: `{clusters: {deletionDeadline: "30"}}`,
			want: "/clusters/deletionDeadline"},
		"an invalid digest":       {values: `{image: {digest: latest}}`, want: "/image/digest"},
		"no address for machines": {values: `{server: {url: ""}}`, want: "server.url is required"},
		"several leaders": {values: `{server: {leaderElect: false}}`,
			want: "server.leaderElect must be true"},
		"metrics without a Service": {
			values: `{metrics: {service: {enabled: false}, serviceMonitor: {enabled: true}}}`,
			want:   "metrics.serviceMonitor.enabled needs"},
		"metrics that are unreachable": {values: `{metrics: {serviceMonitor: {enabled: true}}}`,
			want: "networkPolicy.metricsFrom must select Prometheus"},
		"alerts without metrics": {values: `{metrics: {rules: {enabled: true}}}`,
			want: "networkPolicy.metricsFrom must select Prometheus"},
		"a namespace that is a pattern": {values: `{admission: {clusterAPINamespaces: ["*"]}}`,
			want: "/admission/clusterAPINamespaces/0"},
		"a provider without a group": {values: `{rbac: {extraProviders: [{resources: [dockerclusters]}]}}`,
			want: "/rbac/extraProviders/0"},
		"a provider of all groups": {values: `{rbac: {extraProviders: [{apiGroup: "*"}]}}`,
			want: "/rbac/extraProviders/0/apiGroup"},
		"an interval without a unit": {values: `{metrics: {serviceMonitor: {interval: "30"}}}`,
			want: "/metrics/serviceMonitor/interval"},
		"a certificate from a Secret without a name": {values: `{tls: {source: secret}}`,
			want: "tls.secretName is required"},
		"a certificate without an issuer": {values: `{tls: {source: cert-manager}}`,
			want: "tls.certManager.issuerRef.name is required"},
		"no time for requests in flight": {
			values: `{server: {shutdownDelay: 1m5s}, terminationGracePeriodSeconds: 93}`,
			want:   "terminationGracePeriodSeconds must be more than 93"},
		"no time for a write in flight": {values: `{terminationGracePeriodSeconds: 45}`,
			want: "terminationGracePeriodSeconds must be more than 45"},
		"two versions with a leader at once": {values: `{replicaCount: 1, server: {leaderElect: false}}`,
			want: "updateStrategy.type must be Recreate"},
		"machines and metrics on one port": {values: `{server: {port: 8081}}`,
			want: "server.healthPort and server.port are both port 8081"},
		"reviews and metrics on one port": {values: `{admission: {port: 8081}}`,
			want: "admission.port and server.healthPort are both port 8081"},
		"profiles and machines on one port": {values: `{server: {profilerAddress: "127.0.0.1:8443"}}`,
			want: "server.port and server.profilerAddress are both port 8443"},
		"an external traffic policy for ClusterIP": {values: `{service: {externalTrafficPolicy: Local}}`,
			want: "service.externalTrafficPolicy is only for service.type NodePort or LoadBalancer"},
		"labels that select other pods": {values: `{commonLabels: {app.kubernetes.io/component: all}}`,
			want: "commonLabels must not have app.kubernetes.io/component"},
		"pods that are not selected": {values: `{podLabels: {app.kubernetes.io/name: other}}`,
			want: "podLabels must not have app.kubernetes.io/name"},
		"a name with capitals": {values: `{fullnameOverride: My_Drover}`,
			want: `fullnameOverride: "My_Drover" cannot be the name of a Service: use lower-case letters`},
		"a name that is a number": {values: `{fullnameOverride: "123"}`,
			want: `fullnameOverride: "123" cannot be the name of a Service`},
		"an invalid label": {values: `{nameOverride: "my drover"}`, want: "/nameOverride"},
		"a label with an invalid end": {values: `{fullnameOverride: drover, nameOverride: "drover."}`,
			want: "/nameOverride"},
		"an invalid name of a Secret": {values: `{tls: {source: secret, secretName: My_Secret}}`,
			want: "/tls/secretName"},
		"an invalid name of a kubeconfig": {values: `{server: {kubeconfig: {secretName: "a b"}}}`,
			want: "/server/kubeconfig/secretName"},
		"an invalid name of a ConfigMap": {values: `{server: {configMap: Settings}}`,
			want: "/server/configMap"},
		"an invalid name of a proxy's Secret": {values: `{proxy: {existingSecret: -a}}`,
			want: "/proxy/existingSecret"},
		"an invalid name of an issuer": {
			values: `{tls: {source: cert-manager, certManager: {issuerRef: {name: a/b}}}}`,
			want:   "/tls/certManager/issuerRef/name"},
		"an invalid name of an account": {values: `{serviceAccount: {name: "a:b"}}`,
			want: "/serviceAccount/name"},
		"an invalid name of a priority class": {values: `{priorityClassName: High}`,
			want: "/priorityClassName"},
		"an invalid name of a pull secret": {values: `{imagePullSecrets: [A]}`, want: "/imagePullSecrets/0"},
		"an invalid name of a shared pull secret": {values: `{global: {imagePullSecrets: [{name: A}]}}`,
			want: "/global/imagePullSecrets/0"},
		"an invalid name of a registry's pull secret": {values: `{clusters: {systemDefaultRegistryPullSecrets: [A]}}`,
			want: "/clusters/systemDefaultRegistryPullSecrets/0"},
		"Drover's own authority, set twice": {values: `{tls: {privateCA: true}}`, want: "tls.privateCA is only for"},
	} {
		t.Run(name, func(t *testing.T) {
			values := valuesOf(t, "minimal")
			given := map[string]any{}
			check(t, yaml.Unmarshal([]byte(tc.values), &given))
			merge(values, given)
			if _, err := Templates(droverChart, Release{}, values); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want it to contain %q", err, tc.want)
			}
		})
	}
}

// TestDrover_Accepts: values at the limit of what is rejected are accepted.
func TestDrover_Accepts(t *testing.T) {
	for name, values := range map[string]string{
		"just enough time to end":                      `{terminationGracePeriodSeconds: 46}`,
		"just enough time with a long delay":           `{server: {shutdownDelay: 1m5s}, terminationGracePeriodSeconds: 94}`,
		"a port of reviews without a listener":         `{admission: {enabled: false, port: 8443}}`,
		"a Service for metrics with the port of a pod": `{metrics: {service: {port: 8443}}}`,
		"a leader without a lease, and then none":      `{replicaCount: 1, server: {leaderElect: false}, updateStrategy: {type: Recreate}}`,
		"a traffic policy for external traffic":        `{service: {type: NodePort, externalTrafficPolicy: Local}}`,
		"a truncated label":                            `{nameOverride: drover-}`,
		"a Secret with dots and digits":                `{tls: {source: secret, secretName: 1.example.com}}`,
	} {
		t.Run(name, func(t *testing.T) {
			all, given := valuesOf(t, "minimal"), map[string]any{}
			check(t, yaml.Unmarshal([]byte(values), &given))
			merge(all, given)
			objects, err := Objects(droverChart, Release{}, all)
			check(t, err)
			for _, object := range objects {
				typed(t, object)
			}
		})
	}
}

// The lease and the authority are in a fixed namespace, so a release in another namespace is rejected.
func TestDrover_RefusesAnotherNamespace(t *testing.T) {
	_, err := Templates(droverChart, Release{Namespace: "default"}, valuesOf(t, "minimal"))
	if err == nil || !strings.Contains(err.Error(), "into the namespace drover-system, not default") {
		t.Errorf("got error %v", err)
	}
}

func TestDefinitions_RefuseUnknownValues(t *testing.T) {
	_, err := Templates(crdChart, Release{}, map[string]any{"clusterApi": false})
	if err == nil || !strings.Contains(err.Error(), "clusterApi") {
		t.Errorf("got error %v", err)
	}
}

func merge(into, from map[string]any) {
	for key, value := range from {
		nested, isMap := value.(map[string]any)
		if have, ok := into[key].(map[string]any); ok && isMap {
			merge(have, nested)
			continue
		}
		into[key] = value
	}
}

// schema is the checked part of a JSON schema.
type schema struct {
	Description          string            `json:"description"`
	Type                 string            `json:"type"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties any               `json:"additionalProperties"`
}

// TestSchema_IsStrictAndDescribesEveryValue: schema and values.yaml have the same values, and both describe every
// value. No other values are allowed, except in global, which belongs to all charts of an installation.
func TestSchema_IsStrictAndDescribesEveryValue(t *testing.T) {
	for _, dir := range []string{droverChart, crdChart} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
			check(t, err)
			var top schema
			check(t, json.Unmarshal(text, &top))
			described := map[string]bool{}
			walk(t, "", top, described)
			text, err = os.ReadFile(filepath.Join(dir, "values.yaml"))
			check(t, err)
			values := map[string]any{}
			check(t, yaml.UnmarshalStrict(text, &values))
			have := map[string]bool{}
			leaves("", values, described, have)
			delete(described, "global") // in a chart that uses none
			if diff := cmp.Diff(slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(have))); diff != "" {
				t.Errorf("values (-schema +values.yaml) differ:\n%s", diff)
			}
		})
	}
}

// walk collects the values in a schema, without those that contain others.
func walk(t *testing.T, path string, s schema, into map[string]bool) {
	t.Helper()
	if path != "" && strings.TrimSpace(s.Description) == "" {
		t.Errorf("%s has no description", path)
	}
	if len(s.Properties) == 0 {
		into[path] = true
		return
	}
	if s.AdditionalProperties != false && path != "global" {
		t.Errorf("%s allows unknown values", path)
	}
	for name, property := range s.Properties {
		walk(t, strings.TrimPrefix(path+"."+name, "."), property, into)
	}
}

// leaves collects values down to those that the schema treats as a whole.
func leaves(path string, value any, known, into map[string]bool) {
	nested, ok := value.(map[string]any)
	if known[path] || !ok {
		into[path] = true
		return
	}
	for name, inner := range nested {
		leaves(strings.TrimPrefix(path+"."+name, "."), inner, known, into)
	}
}

// Every value has a comment in values.yaml.
func TestValues_HaveComments(t *testing.T) {
	for _, dir := range []string{droverChart, crdChart} {
		text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
		check(t, err)
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			name, rest, isKey := strings.Cut(strings.TrimSpace(line), ":")
			if !isKey || strings.HasPrefix(name, "#") || strings.ContainsAny(name, " -/\"") || rest == "" {
				continue
			}
			indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
			commented := i > 0 && strings.HasPrefix(strings.TrimSpace(lines[i-1]), "#")
			if !commented && !inside(lines[:i], indent) {
				t.Errorf("%s: line %d: %s has no comment", filepath.Base(dir), i+1, name)
			}
		}
	}
}

// inside reports whether a line with an indentation belongs to a value that is explained as a whole.
func inside(before []string, indent string) bool {
	for i, line := range slices.Backward(before) {
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") || depth >= len(indent) {
			continue
		}
		return i > 0 && strings.HasPrefix(strings.TrimSpace(before[i-1]), "# --") || inside(before[:i], line[:depth])
	}
	return false
}
