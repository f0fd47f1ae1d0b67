package restoredspec_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

const (
	now    = "v1.36.2+rke2r1"
	before = "v1.35.1+rke2r1"
	// everything is a spec with all restored fields, and with fields that a restore leaves alone.
	everything = `{
		"kubernetesVersion": "v1.35.1+rke2r1",
		"cloudCredentialSecretName": "cattle-global-data:old",
		"agentEnvVars": [{"name": "OLD", "value": "1"}],
		"localClusterAuthEndpoint": {"enabled": true},
		"defaultPodSecurityAdmissionConfigurationTemplateName": "restricted",
		"clusterAgentDeploymentCustomization": {"appendTolerations": [{"key": "a"}]},
		"fleetAgentDeploymentCustomization": {"appendTolerations": [{"key": "f"}]},
		"webhookDeploymentCustomization": {"replicaCount": 2},
		"rkeConfig": {
			"additionalManifest": "kind: A\n",
			"chartValues": {"rke2-cilium": {"a": 1}},
			"machineGlobalConfig": {"cni": "cilium", "token": "hunter2"},
			"machineSelectorConfig": [{"config": {"protect-kernel-defaults": true}}],
			"machineSelectorFiles": [{"fileSources": []}],
			"networking": {"stackPreference": "dual"},
			"registries": {"mirrors": {"docker.io": {"endpoint": ["https://mirror.example.com"]}}},
			"upgradeStrategy": {"controlPlaneConcurrency": "2"},
			"dataDirectories": {"k8sDistro": "/old"},
			"etcd": {"snapshotRetention": 9},
			"machinePools": [{"name": "old", "quantity": 9}]
		}}`
)

// demo is a Cluster with a request for a restore.
func demo(t *testing.T, mode rkev1.RestoreMode, spec string) *provv1.Cluster {
	t.Helper()
	cluster := &provv1.Cluster{}
	cluster.Namespace, cluster.Name, cluster.ResourceVersion = "fleet-default", "demo", "7"
	if err := json.Unmarshal([]byte(spec), &cluster.Spec); err != nil {
		t.Fatal(err)
	}
	if cluster.Spec.RKEConfig == nil {
		cluster.Spec.RKEConfig = &provv1.RKEConfig{}
	}
	cluster.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "s", Generation: 1,
		RestoreRKEConfig: mode}
	return cluster
}

func taken(spec string) *rkev1.ETCDSnapshot {
	return &rkev1.ETCDSnapshot{SnapshotFile: rkev1.ETCDSnapshotFile{Metadata: packed.Metadata(spec)}}
}

// plainSpec is a spec with which a cluster runs now.
const plainSpec = `{"kubernetesVersion": "` + now + `", "rkeConfig": {
	"machineGlobalConfig": {"cni": "calico", "disable": ["x"]}, "etcd": {"snapshotRetention": 5},
	"additionalManifest": "kind: B\n", "machinePools": [{"name": "a", "quantity": 3}]}}`

// Only the fields of the mode go back, with a patch that contains nothing else.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode rkev1.RestoreMode
		spec string
		want []string
	}{
		"data only":   {"none", everything, nil},
		"the version": {"kubernetesVersion", everything, []string{"spec.kubernetesVersion"}},
		"a version of another age": {"kubernetesVersion", `{"kubernetesVersion":"` + before + `","rkeConfig":"?"}`,
			[]string{"spec.kubernetesVersion"}},
		"the same version": {"kubernetesVersion", plainSpec, nil},
		"the same":         {"all", plainSpec, nil},
		"everything": {"all", everything, []string{
			"spec.kubernetesVersion",
			"spec.defaultPodSecurityAdmissionConfigurationTemplateName",
			"spec.clusterAgentDeploymentCustomization.appendTolerations",
			"spec.fleetAgentDeploymentCustomization.appendTolerations",
			"spec.webhookDeploymentCustomization.replicaCount",
			"spec.rkeConfig.additionalManifest",
			"spec.rkeConfig.chartValues.rke2-cilium.a",
			"spec.rkeConfig.machineGlobalConfig.cni",
			"spec.rkeConfig.machineGlobalConfig.disable",
			"spec.rkeConfig.machineGlobalConfig.token",
			"spec.rkeConfig.machineSelectorConfig",
			"spec.rkeConfig.networking.stackPreference",
			"spec.rkeConfig.registries.mirrors[docker.io].endpoint",
			"spec.rkeConfig.upgradeStrategy.controlPlaneConcurrency",
		}},
		"fields that go away": {"all", `{"kubernetesVersion":"` + now + `","rkeConfig":{"machineGlobalConfig":{}}}`,
			[]string{"spec.rkeConfig.additionalManifest", "spec.rkeConfig.machineGlobalConfig.cni",
				"spec.rkeConfig.machineGlobalConfig.disable"}},
		"values that are not set": {"all", `{"kubernetesVersion":"` + now + `","rkeConfig":{"machineGlobalConfig":
			{"cni":"calico","disable":["x"]},"additionalManifest":"kind: B\n","upgradeStrategy":{"workerDrainOptions":
			{"enabled":false}},"networking":{},"chartValues":null}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := demo(t, tc.mode, plainSpec)
			result, problems := restoredspec.Restore(cluster, taken(tc.spec))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(strings.Join(tc.want, "\n"),
				strings.Join(restoredspec.Names(result.Changes), "\n")); diff != "" {
				t.Error(diff)
			}
			checkPatch(t, cluster, result)
			checkUntouched(t, cluster, result.Cluster)
			again, _ := restoredspec.Restore(result.Cluster, taken(tc.spec))
			if patch, err := again.Patch(); patch != nil || err != nil || len(again.Changes) > 0 {
				t.Errorf("the second time it changes %v: %s, %v", again.Changes, patch, err)
			}
		})
	}
}

// checkPatch checks that the patch turns the stored Cluster into the restored one, and depends on its version.
func checkPatch(t *testing.T, cluster *provv1.Cluster, result restoredspec.Result) {
	t.Helper()
	patch, err := result.Patch()
	if err != nil {
		t.Fatal(err)
	}
	if patch == nil {
		if len(result.Changes) > 0 {
			t.Error("there are changes, and no patch")
		}
		return
	}
	if !strings.HasPrefix(string(patch), `[{"op":"add","path":"/metadata/resourceVersion","value":"7"}`) {
		t.Errorf("the patch does not begin with the resource version: %s", patch)
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(cluster)
	if err != nil {
		t.Fatal(err)
	}
	if stored, err = decoded.Apply(stored); err != nil {
		t.Fatal(err)
	}
	got := &provv1.Cluster{}
	if err := json.Unmarshal(stored, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(result.Cluster.Spec, got.Spec); diff != "" {
		t.Errorf("the patch gives another spec (-restored +patched):\n%s", diff)
	}
}

// checkUntouched checks the fields that no restore may change.
func checkUntouched(t *testing.T, before, after *provv1.Cluster) {
	t.Helper()
	was, is := before.Spec, after.Spec
	for what, pair := range map[string][2]any{
		"pools":           {was.RKEConfig.MachinePools, is.RKEConfig.MachinePools},
		"etcd":            {was.RKEConfig.ETCD, is.RKEConfig.ETCD},
		"files":           {was.RKEConfig.MachineSelectorFiles, is.RKEConfig.MachineSelectorFiles},
		"data folders":    {was.RKEConfig.DataDirectories, is.RKEConfig.DataDirectories},
		"environment":     {was.AgentEnvVars, is.AgentEnvVars},
		"endpoint":        {was.LocalClusterAuthEndpoint, is.LocalClusterAuthEndpoint},
		"credential":      {was.CloudCredentialSecretName, is.CloudCredentialSecretName},
		"the own request": {was.RKEConfig.ETCDSnapshotRestore, is.RKEConfig.ETCDSnapshotRestore},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("the restore changes the %s:\n%s", what, diff)
		}
	}
}

func TestRestore_Refuses(t *testing.T) {
	t.Parallel()
	const at = "spec.rkeConfig.etcdSnapshotRestore"
	named := func(edit func(*rkev1.ETCDSnapshot)) *rkev1.ETCDSnapshot {
		snapshot := taken(everything)
		edit(snapshot)
		return snapshot
	}
	for name, tc := range map[string]struct {
		mode     rkev1.RestoreMode
		snapshot *rkev1.ETCDSnapshot
		want     string
	}{
		"an unknown mode": {"everything", taken(everything),
			at + `.restoreRKEConfig: Unsupported value: "everything"`},
		"a missing snapshot": {"all", nil, at + `.name: Not found: "s": no ETCDSnapshot of namespace fleet-default`},
		"one of another cluster": {"all", named(func(s *rkev1.ETCDSnapshot) { s.Spec.ClusterName = "other" }),
			"the snapshot is of cluster other"},
		"one with another cluster's label": {"all", named(func(s *rkev1.ETCDSnapshot) {
			s.Labels = map[string]string{rkev1.ClusterNameLabel: "other"}
		}), "the snapshot is of cluster other"},
		"one that failed": {"all", named(func(s *rkev1.ETCDSnapshot) { s.SnapshotFile.Status = "failed" }),
			"the snapshot was not taken"},
		"truncated metadata": {"all", named(func(s *rkev1.ETCDSnapshot) {
			s.SnapshotFile.Metadata = s.SnapshotFile.Metadata[:len(s.SnapshotFile.Metadata)/8*4]
		}), "the snapshot's metadata must be base64 of a JSON object of strings"},
		"no metadata": {"all", &rkev1.ETCDSnapshot{}, "the snapshot does not contain the Kubernetes version"},
		"no rkeConfig": {"all", taken(`{"kubernetesVersion":"` + before + `"}`),
			"the snapshot does not contain the rkeConfig"},
		"a spec of another format": {"all", taken(`{"kubernetesVersion":"` + before + `","rkeConfig":"?"}`),
			"the cluster's spec in the snapshot's metadata has a format that this release does not know"},
		"a version that is none": {"kubernetesVersion", taken(`{"kubernetesVersion":"latest"}`),
			"the snapshot contains a Kubernetes version that is none"},
		"a version of another distribution": {"kubernetesVersion", taken(`{"kubernetesVersion":"v1.35.1+k3s1"}`),
			"the snapshot is of k3s, and the cluster is one of rke2"},
		"a Secret of another namespace": {"all", taken(`{"kubernetesVersion":"` + before + `","rkeConfig":
			{"machineGlobalConfig":{"cloud-provider-config":"secret://other:cloud"}}}`),
			"its configuration refers to Secret other/cloud of another namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := demo(t, tc.mode, plainSpec)
			result, problems := restoredspec.Restore(cluster, tc.snapshot)
			text := topology.Explain(problems)
			if !strings.Contains(text, tc.want) {
				t.Errorf("problems are %q, want %q", text, tc.want)
			}
			if !strings.Contains(text, "set restoreRKEConfig to none") && tc.mode != "everything" {
				t.Errorf("%q does not name the remedy", text)
			}
			if patch, err := result.Patch(); patch != nil || err != nil || result.Cluster != cluster {
				t.Errorf("it changes the Cluster: %s, %v", patch, err)
			}
		})
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	request := func(generation int) *rkev1.ETCDSnapshotRestore {
		return &rkev1.ETCDSnapshotRestore{Name: "s", Generation: generation, RestoreRKEConfig: "all"}
	}
	passedOn := &rkev1.RKEControlPlane{Spec: rkev1.RKEControlPlaneSpec{ETCDSnapshotRestore: request(1)}}
	carriedOut := &rkev1.RKEControlPlane{Status: rkev1.RKEControlPlaneStatus{ETCDSnapshotRestore: request(1)}}
	older := &rkev1.RKEControlPlane{Spec: rkev1.RKEControlPlaneSpec{ETCDSnapshotRestore: request(0)}}
	for name, tc := range map[string]struct {
		mode  rkev1.RestoreMode
		plane *rkev1.RKEControlPlane
		want  bool
	}{
		"a new request":                {"all", &rkev1.RKEControlPlane{}, true},
		"another request":              {"all", older, true},
		"a request that is passed on":  {"all", passedOn, false},
		"a request that has begun":     {"all", carriedOut, false},
		"data only":                    {"none", &rkev1.RKEControlPlane{}, false},
		"no control plane to restore":  {"all", nil, false},
		"the same with another option": {"kubernetesVersion", passedOn, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := restoredspec.Pending(demo(t, tc.mode, plainSpec), tc.plane) != nil; got != tc.want {
				t.Errorf("pending is %v", got)
			}
		})
	}
}

func TestProblem(t *testing.T) {
	t.Parallel()
	plane := func(mode rkev1.RestoreMode, spec string) *rkev1.RKEControlPlane {
		out := &rkev1.RKEControlPlane{}
		out.Annotations = map[string]string{rkev1.ClusterSpecAnnotation: packed.Text(spec)}
		out.Spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "s", RestoreRKEConfig: mode}
		return out
	}
	unreadable := plane("all", everything)
	unreadable.Annotations = nil
	for name, tc := range map[string]struct {
		plane    *rkev1.RKEControlPlane
		snapshot *rkev1.ETCDSnapshot
		want     string
	}{
		"data only":          {plane("none", plainSpec), taken(everything), ""},
		"everything is back": {plane("all", everything), taken(everything), ""},
		"the version is back": {
			plane("kubernetesVersion", `{"kubernetesVersion":"`+before+`"}`), taken(everything), "",
		},
		"the version is not": {plane("kubernetesVersion", plainSpec), taken(everything), "has changed what was " +
			"restored from snapshot s: spec.kubernetesVersion (" + now + " → " + before + ")"},
		"many fields are not": {plane("all", plainSpec), taken(everything), "and 4 more"},
		"no snapshot":         {plane("all", everything), nil, "it does not exist"},
		"no spec": {
			unreadable, taken(everything), "annotation rke.cattle.io/cluster-spec of the RKEControlPlane",
		},
		"a snapshot without it": {plane("all", everything), &rkev1.ETCDSnapshot{}, "does not contain the spec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := restoredspec.Problem(tc.plane, tc.snapshot)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q", got)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("%q contains a secret", got)
			}
		})
	}
}

// What users see has no secrets and fits on a line. The manifest has the values themselves.
func TestShown(t *testing.T) {
	t.Parallel()
	result, problems := restoredspec.Restore(demo(t, "all", plainSpec), taken(everything))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	shown := map[string]string{}
	for _, change := range result.Changes {
		before, after := change.Shown()
		shown[change.Field] = before + " → " + after
	}
	for field, want := range map[string]string{
		"spec.kubernetesVersion":                                now + " → " + before,
		"spec.rkeConfig.machineGlobalConfig.token":              "(absent) → ***",
		"spec.rkeConfig.machineGlobalConfig.disable":            `["x"] → (absent)`,
		"spec.rkeConfig.additionalManifest":                     "kind: B → kind: A",
		"spec.rkeConfig.registries.mirrors[docker.io].endpoint": `(absent) → ["https://mirror.example.com"]`,
	} {
		if shown[field] != want {
			t.Errorf("%s is shown as %q, want %q", field, shown[field], want)
		}
	}
	manifest, err := json.Marshal(result.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"additionalManifest":"kind: A`, `"token":"hunter2"`, `"kubernetesVersion":"` + before + `"`,
	} {
		if !strings.Contains(string(manifest), want) {
			t.Errorf("the manifest lacks %s: %s", want, manifest)
		}
	}
}
