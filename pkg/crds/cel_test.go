package crds

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/testkit/admission"
)

func validator(t *testing.T, name string) *admission.Validator {
	t.Helper()
	crd := definitions(t)[name]
	if crd == nil {
		t.Fatalf("no definition %s", name)
	}
	v, err := admission.New(crd)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// withPool returns a Cluster with one pool that has the given fields, its name and a machine config.
func withPool(t *testing.T, fields string) map[string]any {
	t.Helper()
	pool := object(t, `
name: pool
workerRole: true
machineConfigRef: {kind: SimConfig, name: config}
`)
	maps.Copy(pool, object(t, fields))
	return map[string]any{
		"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
		"metadata": map[string]any{"name": "demo", "namespace": "fleet-default"},
		"spec": map[string]any{"kubernetesVersion": "v1.36.2+k3s1",
			"rkeConfig": map[string]any{"machinePools": []any{pool}}},
	}
}

const (
	messageControlPlane = "AutoscalingMinSize must be greater than 0 when ControlPlaneRole is true"
	messageEtcd         = "AutoscalingMinSize must be greater than 0 when EtcdRole is true"
	messageOrder        = "AutoscalingMinSize must be less than or equal to AutoscalingMaxSize when both are non-nil"
	messageBoth         = "AutoscalingMinSize and AutoscalingMaxSize must both be set if enabling cluster-autoscaling"
)

func TestCluster_AutoscalingRules(t *testing.T) {
	tests := map[string]struct {
		pool string
		want []string
	}{
		"neither size": {pool: `{workerRole: true}`},
		"both sizes": {
			pool: `{workerRole: true, autoscalingMinSize: 1, autoscalingMaxSize: 3}`},
		"both sizes equal": {
			pool: `{workerRole: true, autoscalingMinSize: 3, autoscalingMaxSize: 3}`},
		"a pool of workers may scale to zero": {
			pool: `{workerRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 3}`},
		"minimum above maximum": {
			pool: `{workerRole: true, autoscalingMinSize: 4, autoscalingMaxSize: 3}`, want: []string{messageOrder}},
		"only a minimum": {pool: `{workerRole: true, autoscalingMinSize: 1}`,
			want: []string{messageBoth}},
		"only a maximum": {pool: `{workerRole: true, autoscalingMaxSize: 1}`,
			want: []string{messageBoth}},
		"control plane may not scale to zero": {
			pool: `{controlPlaneRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 3}`,
			want: []string{messageControlPlane}},
		"etcd may not scale to zero": {
			pool: `{etcdRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 3}`, want: []string{messageEtcd}},
		"both roles break both rules": {
			pool: `{etcdRole: true, controlPlaneRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 3}`,
			want: []string{messageControlPlane, messageEtcd}},
		"control plane with a minimum of one": {
			pool: `{controlPlaneRole: true, etcdRole: true, autoscalingMinSize: 1, autoscalingMaxSize: 3}`},
		"a false role counts as no role": {
			pool: `{controlPlaneRole: false, etcdRole: false, autoscalingMinSize: 0, autoscalingMaxSize: 3}`},
		"nulls count as absent": {
			pool: `{workerRole: true, autoscalingMinSize: null, autoscalingMaxSize: null}`},
		"null minimum of a control plane": {
			pool: `{controlPlaneRole: true, etcdRole: true, autoscalingMinSize: null}`},
		"null minimum with a maximum": {
			pool: `{workerRole: true, autoscalingMinSize: null, autoscalingMaxSize: 3}`, want: []string{messageBoth}},
		"minimum with a null maximum": {
			pool: `{workerRole: true, autoscalingMinSize: 1, autoscalingMaxSize: null}`, want: []string{messageBoth}},
		"null minimum, no maximum, role of the etcd": {pool: `{etcdRole: true, autoscalingMinSize: null}`},
	}
	v := validator(t, "clusters.provisioning.cattle.io")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range v.Create(t.Context(), withPool(t, test.pool)).Errors {
				got = append(got, err.Detail)
			}
			sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
			if diff := cmp.Diff(test.want, got, sorted, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("errors differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCluster_SchemaRefuses(t *testing.T) {
	v := validator(t, "clusters.provisioning.cattle.io")
	tests := map[string]struct{ pool, want string }{
		"negative quantity": {pool: `{quantity: -1}`, want: "spec.rkeConfig.machinePools[0].quantity"},
		"host name limit below minimum": {pool: `{hostnameLengthLimit: 9}`,
			want: "spec.rkeConfig.machinePools[0].hostnameLengthLimit"},
		"host name limit of zero": {pool: `{hostnameLengthLimit: 0}`,
			want: "spec.rkeConfig.machinePools[0].hostnameLengthLimit"},
		"host name limit above maximum": {pool: `{hostnameLengthLimit: 64}`,
			want: "spec.rkeConfig.machinePools[0].hostnameLengthLimit"},
		"empty name":                 {pool: `{name: ""}`, want: "spec.rkeConfig.machinePools[0].name"},
		"role that is not a boolean": {pool: `{etcdRole: "yes"}`, want: "spec.rkeConfig.machinePools[0].etcdRole"},
		"taint without effect": {pool: `{taints: [{key: a}]}`,
			want: "spec.rkeConfig.machinePools[0].taints[0].effect"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			errs := v.Create(t.Context(), withPool(t, test.pool)).Errors
			if len(errs) != 1 || errs[0].Field != test.want {
				t.Errorf("want one error at %s, got %v", test.want, errs)
			}
		})
	}
	t.Run("two pools with one name", func(t *testing.T) {
		cluster := withPool(t, `{}`)
		config := cluster["spec"].(map[string]any)["rkeConfig"].(map[string]any)
		config["machinePools"] = append(config["machinePools"].([]any), config["machinePools"].([]any)[0])
		errs := v.Create(t.Context(), cluster).Errors
		if len(errs) != 1 || errs[0].Field != "spec.rkeConfig.machinePools[1]" {
			t.Errorf("want one error at the second pool, got %v", errs)
		}
	})
}

func TestCluster_ConcurrencyPattern(t *testing.T) {
	v := validator(t, "clusters.provisioning.cattle.io")
	tests := map[string]bool{
		"": true, "0": true, "1": true, "10": true, "1%": true, "10%": true, "100%": true,
		"0%": false, "101%": false, "-1": false, "01": false, "1.5": false, "ten": false, "12345678901": false,
	}
	for value, want := range tests {
		t.Run("value "+value, func(t *testing.T) {
			cluster := object(t,
				"metadata: {name: demo}\nspec: {kubernetesVersion: v1.36.2+k3s1, rkeConfig: {upgradeStrategy: {}}}")
			config := cluster["spec"].(map[string]any)["rkeConfig"].(map[string]any)
			strategy := config["upgradeStrategy"].(map[string]any)
			strategy["workerConcurrency"] = value
			if errs := v.Create(t.Context(), cluster).Errors; (len(errs) == 0) != want {
				t.Errorf("want accepted %t, got %v", want, errs)
			}
		})
	}
}

// Stored objects and clients contain explicit nulls, because older schemas allowed them nearly everywhere.
func TestCluster_AcceptsAndKeepsNulls(t *testing.T) {
	cluster := object(t, `
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: demo, namespace: fleet-default}
spec:
  kubernetesVersion: v1.36.2+k3s1
  cloudCredentialSecretName: null
  clusterAgentDeploymentCustomization: null
  enableNetworkPolicy: null
  defaultPodSecurityPolicyTemplateName: null
  agentEnvVars: [{name: A, value: null}]
  rkeConfig:
    chartValues: null
    machineGlobalConfig: null
    machineSelectorConfig: [{config: null, machineLabelSelector: null}]
    machineSelectorFiles: [{fileSources: [{secret: {name: null, items: [{key: null, path: null, hash: null}]}}]}]
    registries: {mirrors: {docker.io: {endpoint: null, rewrite: null}}, configs: {docker.io: {caBundle: null, authConfigSecretName: null}}}
    etcd: {s3: null, snapshotScheduleCron: null}
    upgradeStrategy:
      controlPlaneConcurrency: null
      workerDrainOptions: {ignoreDaemonSets: null, preDrainHooks: [{annotation: null}], postDrainHooks: null}
    infrastructureRef: null
    rotateCertificates: null
    machinePools: [{name: a, workerRole: true, machineConfigRef: null, quantity: null, labels: null, taints: null, rollingUpdate: {maxSurge: null}, unhealthyNodeTimeout: null, userdata: null, displayName: null}]
`)
	result := validator(t, "clusters.provisioning.cattle.io").Create(t.Context(), cluster)
	if len(result.Errors) > 0 || len(result.Unknown) > 0 {
		t.Fatalf("want no error, got %v, unknown %v", result.Errors, result.Unknown)
	}
	if diff := cmp.Diff(cluster, result.Stored); diff != "" {
		t.Errorf("the stored object differs (-written +stored):\n%s", diff)
	}
}

func TestNodeDriver_Checksum(t *testing.T) {
	v := validator(t, "nodedrivers.management.cattle.io")
	digits := "0123456789abcdefABCDEF0123456789"
	tests := map[string]struct {
		checksum string
		accepted bool
	}{
		"none":               {checksum: "", accepted: true},
		"MD5":                {checksum: digits, accepted: true},
		"SHA-1":              {checksum: digits + "01234567", accepted: true},
		"SHA-256":            {checksum: digits + digits, accepted: true},
		"SHA-512":            {checksum: digits + digits + digits + digits, accepted: true},
		"one digit too many": {checksum: digits + "0"},
		"too short":          {checksum: "abc"},
		"not hexadecimal":    {checksum: "g" + digits[1:]},
		"too long":           {checksum: digits + digits + digits + digits + "0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			driver := object(t, "metadata: {name: sim}\nspec: {active: true, url: 'local://'}")
			driver["spec"].(map[string]any)["checksum"] = test.checksum
			if errs := v.Create(t.Context(), driver).Errors; (len(errs) == 0) != test.accepted {
				t.Errorf("want accepted %t, got %v", test.accepted, errs)
			}
		})
	}
}

func TestRKEKinds_ContractFields(t *testing.T) {
	tests := map[string]struct {
		definition, object string
		accepted           bool
	}{
		"empty initialization": {"rkeclusters.rke.cattle.io",
			"{metadata: {name: a}, spec: {}, status: {initialization: {}}}", false},
		"initialization with its field": {"rkeclusters.rke.cattle.io",
			"{metadata: {name: a}, spec: {}, status: {initialization: {provisioned: true}}}", true},
		"an RKECluster needs a spec": {"rkeclusters.rke.cattle.io", "{metadata: {name: a}}", false},
		"an empty endpoint": {"rkeclusters.rke.cattle.io",
			"{metadata: {name: a}, spec: {controlPlaneEndpoint: {}}}", false},
		"a control plane without spec": {"rkecontrolplanes.rke.cattle.io", "{metadata: {name: a}}", true},
		"a control plane needs its cluster": {"rkecontrolplanes.rke.cattle.io",
			"{metadata: {name: a}, spec: {clusterName: a}}", false},
		"a control plane's status": {"rkecontrolplanes.rke.cattle.io",
			"{metadata: {name: a}, status: {observedGeneration: 1, etcdSnapshotCreatePhase: RestartCluster}}", true},
		"a phase of the other operation": {"rkecontrolplanes.rke.cattle.io",
			"{metadata: {name: a}, status: {observedGeneration: 1, etcdSnapshotCreatePhase: Shutdown}}", false},
		"key rotation phases are not enumerated": {"rkecontrolplanes.rke.cattle.io",
			"{metadata: {name: a}, status: {observedGeneration: 1, rotateEncryptionKeysPhase: Other}}", true},
		"observedGeneration is required": {"rkecontrolplanes.rke.cattle.io",
			"{metadata: {name: a}, status: {ready: true}}", false},
		"an empty data secret name": {"rkebootstraps.rke.cattle.io",
			"{metadata: {name: a}, spec: {}, status: {dataSecretName: ''}}", false},
		"a template is a whole bootstrap": {"rkebootstraptemplates.rke.cattle.io",
			"{metadata: {name: a}, spec: {clusterName: a, template: {metadata: {labels: {a: b}}, spec: " +
				"{clusterName: a}}}}", true},
		"a template without spec": {"rkebootstraptemplates.rke.cattle.io",
			"{metadata: {name: a}, spec: {clusterName: a, template: {}}}", false},
		"an address of an unknown type": {"custommachines.rke.cattle.io",
			"{metadata: {name: a}, status: {addresses: [{type: Other, address: a}]}}", false},
		"a null provider ID": {"custommachines.rke.cattle.io",
			"{metadata: {name: a}, spec: {providerID: null}}", true},
		"missing is required in a snapshot": {"etcdsnapshots.rke.cattle.io", "{metadata: {name: a}, status: {}}",
			false},
		"a snapshot file next to spec and status": {"etcdsnapshots.rke.cattle.io",
			"{metadata: {name: a}, snapshotFile: {name: f, size: 12, createdAt: '2026-08-01T10:00:00Z'}, status: " +
				"{missing: false}}", true},
		"management clusters have an open schema": {"clusters.management.cattle.io",
			"{metadata: {name: a}, other: {x: 1}, spec: {anything: [1]}, status: {else: true}}", true},
		"a registration token needs its cluster": {"clusterregistrationtokens.management.cattle.io",
			"{metadata: {name: a}, spec: {}}", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result := validator(t, test.definition).Create(t.Context(), object(t, test.object))
			if (len(result.Errors) == 0) != test.accepted {
				t.Errorf("want accepted %t, got %v", test.accepted, result.Errors)
			}
			if len(result.Unknown) > 0 {
				t.Errorf("unknown fields %v", result.Unknown)
			}
		})
	}
}
