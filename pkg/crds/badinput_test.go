package crds

import (
	"maps"
	"strings"
	"testing"
)

// clusterWith returns a Cluster with the given name and spec.
func clusterWith(t *testing.T, name, spec string) map[string]any {
	t.Helper()
	return map[string]any{
		"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
		"metadata": map[string]any{"name": name, "namespace": "fleet-default"}, "spec": object(t, spec),
	}
}

const (
	version    = "kubernetesVersion: v1.36.2+k3s1, "
	missing    = "kubernetesVersion must be set together with rkeConfig: set the full version"
	noVersion  = "kubernetesVersion must be v and a semantic version, for example v1.36.2+rke2r1"
	noRole     = "set etcdRole, controlPlaneRole or workerRole to true"
	longName   = "choose a name of at most 63 characters"
	atVersion  = "spec.kubernetesVersion"
	atPool     = "spec.rkeConfig.machinePools[0]"
	rootObject = "<nil>"
)

// TestCluster_BadInput: the schema refuses bad input with field and remedy, and accepts what Rancher's manifests may
// contain.
func TestCluster_BadInput(t *testing.T) {
	tests := map[string]struct{ name, spec, field, message string }{
		"imported: empty":             {spec: `{}`},
		"imported: rkeConfig is null": {spec: `{rkeConfig: null, kubernetesVersion: null}`},
		"imported: any version":       {spec: `{kubernetesVersion: "1.36"}`},
		"imported: any name":          {name: strings.Repeat("n", 64), spec: `{rkeConfig: null}`},
		"custom: no pools":            {spec: `{` + version + `rkeConfig: {}}`},
		"custom: pools are null":      {spec: `{` + version + `rkeConfig: {machinePools: null}}`},
		"a name of 63 characters":     {name: strings.Repeat("n", 63), spec: `{` + version + `rkeConfig: {}}`},
		"a name of 64 characters": {name: strings.Repeat("n", 64), spec: `{` + version + `rkeConfig: {}}`,
			field: rootObject, message: longName},
		"no version": {spec: `{rkeConfig: {}}`, field: atVersion, message: missing},
		"an empty version": {spec: `{kubernetesVersion: "", rkeConfig: {}}`, field: atVersion,
			message: missing},
		"a version that is null": {spec: `{kubernetesVersion: null, rkeConfig: {}}`, field: atVersion,
			message: missing},
		"a version of RKE2":                {spec: `{kubernetesVersion: "v1.33.1+rke2r1", rkeConfig: {}}`},
		"a release candidate":              {spec: `{kubernetesVersion: "v1.33.1-rc1+rke2r1", rkeConfig: {}}`},
		"a version without a distribution": {spec: `{kubernetesVersion: "v1.33.1", rkeConfig: {}}`},
		"a word as version": {spec: `{kubernetesVersion: latest, rkeConfig: {}}`, field: atVersion,
			message: noVersion},
		"a version without v": {spec: `{kubernetesVersion: "1.33.1+k3s1", rkeConfig: {}}`, field: atVersion,
			message: noVersion},
		"a version with two parts": {spec: `{kubernetesVersion: "v1.33", rkeConfig: {}}`, field: atVersion,
			message: noVersion},
		"a version with four parts": {spec: `{kubernetesVersion: "v1.33.1.1", rkeConfig: {}}`, field: atVersion,
			message: noVersion},
		"a version with a final space": {spec: `{kubernetesVersion: "v1.33.1 ", rkeConfig: {}}`, field: atVersion,
			message: noVersion},
		"a version with a newline": {spec: `{kubernetesVersion: "v1.33.1\n", rkeConfig: {}}`, field: atVersion,
			message: noVersion},
		"a pool without a role": {spec: `{` + version +
			`rkeConfig: {machinePools: [{name: a, machineConfigRef: {}}]}}`, field: atPool, message: noRole},
		"a pool with all roles false": {spec: `{` + version +
			`rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, etcdRole: false}]}}`, field: atPool,
			message: noRole},
		"a pool with one role": {spec: `{` + version +
			`rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, etcdRole: true}]}}`},
	}
	v := validator(t, "clusters.provisioning.cattle.io")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.name == "" {
				test.name = "demo"
			}
			errs := v.Create(t.Context(), clusterWith(t, test.name, test.spec)).Errors
			if test.message == "" {
				if len(errs) > 0 {
					t.Errorf("refused: %v", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != test.field || !strings.Contains(errs[0].Detail, test.message) {
				t.Errorf("got %v, want one error at %s with %q", errs, test.field, test.message)
			}
		})
	}
}

// TestCluster_StoredBeforeTheRules: an object that is older than a rule can lose its finalizers, get labels and status,
// and be corrected bit by bit. New mistakes are refused.
func TestCluster_StoredBeforeTheRules(t *testing.T) {
	const bad = `{kubernetesVersion: latest, rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, quantity: 1}]}}`
	long := strings.Repeat("n", 64)
	tests := map[string]struct{ before, after, message string }{
		"only metadata":             {before: bad, after: bad},
		"no version, only metadata": {before: `{rkeConfig: {}}`, after: `{rkeConfig: {}}`},
		"null version, another change": {before: `{kubernetesVersion: null, rkeConfig: {}}`,
			after: `{rkeConfig: {}, enableNetworkPolicy: true}`},
		"the pool is corrected first": {before: bad,
			after: `{kubernetesVersion: latest, rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, workerRole: true}]}}`},
		"the version is corrected first": {before: bad, after: `{` + version +
			`rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, quantity: 1}]}}`},
		"everything is corrected": {before: bad, after: `{` + version +
			`rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, workerRole: true}]}}`},
		"another invalid version": {before: bad,
			after: `{kubernetesVersion: newest, rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, quantity: 1}]}}`, message: noVersion},
		"the version is removed": {before: bad,
			after: `{rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, quantity: 1}]}}`, message: missing},
		"another pool without a role": {before: bad,
			after: `{kubernetesVersion: latest, rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, quantity: 1}, {name: b, machineConfigRef: {}}]}}`, message: noRole},
		"a valid pool loses its roles": {before: `{` + version +
			`rkeConfig: {machinePools: [{name: a, machineConfigRef: {}, workerRole: true}]}}`, after: `{` + version +
			`rkeConfig: {machinePools: [{name: a, machineConfigRef: {}}]}}`, message: noRole},
	}
	v := validator(t, "clusters.provisioning.cattle.io")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := clusterWith(t, long, test.before), clusterWith(t, long, test.after)
			maps.Copy(before["metadata"].(map[string]any), object(t, `{finalizers: [drover.io/a]}`))
			errs := v.Update(t.Context(), before, after).Errors
			if test.message == "" && len(errs) > 0 || test.message != "" &&
				(len(errs) != 1 || !strings.Contains(errs[0].Detail, test.message)) {
				t.Errorf("got %v, want %q", errs, test.message)
			}
		})
	}
}
