package diagnose

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

const (
	// clusterManifest begins a Cluster with one or more pools, config is a machine config for them.
	clusterManifest = `
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: demo}
spec:
  kubernetesVersion: ` + stage.K3s + `
`
	config = `---
apiVersion: rke-machine-config.cattle.io/v1
kind: SimConfig
metadata: {name: good}
size: small
`
	// refusedHost is what the driver says about hosts of clusters with "unlucky" in their names.
	refusedHost = "the quota of servers is exceeded"
)

// situation is a manifest that some user applies, and what the user then reads about it.
type situation struct {
	manifest string
	// name is the name of the Cluster, demo by default.
	name string
	// condition returns the sentence of the condition that reports the situation.
	condition func(t *testing.T, st *stage.Stage, cluster *provv1.Cluster) string
	// words are in that sentence, reason is that of an Event, and told are words of the Event. Without told, the Event
	// has the sentence.
	words  []string
	reason string
	told   []string
}

// situations are manifests of other people that lack something.
var situations = map[string]situation{
	"missing driver": {
		manifest: clusterManifest + `  rkeConfig:
    machinePools:
    - {name: a, etcdRole: true, controlPlaneRole: true, workerRole: true, quantity: 1,
       machineConfigRef: {kind: NowhereConfig, name: good}}
    - {name: b, workerRole: true, quantity: 1, machineConfigRef: {kind: NowhereConfig, name: good}}
`,
		condition: ofCluster(provv1.ConditionRKECluster), reason: "SpecRefused",
		words: []string{"spec.rkeConfig.machinePools[0].machineConfigRef.kind", "NowhereConfig", "pools a, b",
			"NodeDriver"},
	},
	"missing machine config": {
		manifest: clusterManifest + `  rkeConfig:
    machinePools:
    - {name: a, etcdRole: true, controlPlaneRole: true, workerRole: true, quantity: 1,
       machineConfigRef: {kind: SimConfig, name: absent}}
`,
		condition: ofCluster(provv1.ConditionRKECluster), reason: "SpecRefused",
		words: []string{"spec.rkeConfig.machinePools[0].machineConfigRef.name", "absent", "pool a"},
	},
	"missing credential of several pools": {
		manifest: clusterManifest + `  cloudCredentialSecretName: absent
  rkeConfig:
    machinePools:
    - {name: a, etcdRole: true, controlPlaneRole: true, quantity: 1, machineConfigRef: {kind: SimConfig, name: good}}
    - {name: b, workerRole: true, quantity: 1, machineConfigRef: {kind: SimConfig, name: good}}
` + config,
		condition: ofCluster(provv1.ConditionRKECluster), reason: "SpecRefused",
		words: []string{"spec.cloudCredentialSecretName", "Secret absent", "pools a, b"},
	},
	"missing provider of a pool": {
		manifest: clusterManifest + `  rkeConfig:
    machinePools:
    - {name: a, etcdRole: true, controlPlaneRole: true, workerRole: true, quantity: 1,
       machineConfigRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: NowhereMachineTemplate, name: a}}
`,
		condition: ofCluster(provv1.ConditionRKECluster), reason: "SpecRefused",
		words: []string{"spec.rkeConfig.machinePools[0].machineConfigRef.kind", "NowhereMachineTemplate",
			"clusterctl generate provider"},
	},
	"missing provider of the cluster": {
		manifest: clusterManifest + `  rkeConfig:
    infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: NowhereCluster, name: a}
    machinePools:
    - {name: a, etcdRole: true, controlPlaneRole: true, workerRole: true, quantity: 1,
       machineConfigRef: {kind: SimConfig, name: good}}
` + config,
		condition: ofCluster(provv1.ConditionRKECluster), reason: "SpecRefused",
		words: []string{"spec.rkeConfig.infrastructureRef.kind", "NowhereCluster", "clusterctl generate provider"},
	},
	"refused host": {
		name: "unlucky",
		manifest: strings.Replace(clusterManifest, "demo", "unlucky", 1) + `  rkeConfig:
    machinePools:
    - {name: a, etcdRole: true, controlPlaneRole: true, workerRole: true, quantity: 1,
       machineConfigRef: {kind: SimConfig, name: good}}
` + config,
		condition: ofHost, words: []string{refusedHost}, reason: "HostCreateFailed", told: []string{refusedHost},
	},
	"imported cluster": {
		manifest: `
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: demo}
spec: {}
`,
		condition: ofCluster(provv1.ConditionReconciling), reason: "ClusterProgressing",
		words: []string{"status.command", "default-token"},
	},
	"probes that never pass": {
		manifest: clusterManifest + `  rkeConfig:
    machinePools:
    - {name: a, etcdRole: true, controlPlaneRole: true, workerRole: true, quantity: 1,
       machineConfigRef: {kind: SimConfig, name: good}}
` + config,
		condition: ofCluster(provv1.ConditionReady), words: []string{"waiting for probes: "},
		reason: "ClusterProgressing", told: []string{"wait"},
	},
}

func ofCluster(kind string) func(*testing.T, *stage.Stage, *provv1.Cluster) string {
	return func(_ *testing.T, _ *stage.Stage, cluster *provv1.Cluster) string {
		return stage.Condition(cluster.Status.Conditions, kind).Message
	}
}

// ofHost returns the sentence about a host that could not be created.
func ofHost(t *testing.T, st *stage.Stage, cluster *provv1.Cluster) string {
	t.Helper()
	hosts := &unstructured.UnstructuredList{}
	hosts.SetAPIVersion("rke-machine.cattle.io/v1")
	hosts.SetKind("SimMachineList")
	if err := st.Client.List(t.Context(), hosts, client.InNamespace(cluster.Namespace)); err != nil {
		return err.Error()
	}
	for i := range hosts.Items {
		list, _, _ := unstructured.NestedSlice(hosts.Items[i].Object, "status", "conditions")
		for _, item := range list {
			if c, _ := item.(map[string]any); c["type"] == "Ready" && hosts.Items[i].GetDeletionTimestamp() == nil {
				return fmt.Sprint(c["message"])
			}
		}
	}
	return ""
}

// unlucky makes the driver refuse hosts.
type unlucky struct{ fakeagent.NoFaults }

func (unlucky) Job(machine string, remove bool, _ int) string {
	if remove || !strings.Contains(machine, "unlucky") {
		return ""
	}
	return refusedHost
}

// TestDiagnose_OtherPeoplesManifests applies manifests that lack something. A condition says what is missing, an Event
// has the same sentence, and so has the first line of drover diagnose.
func TestDiagnose_OtherPeoplesManifests(t *testing.T) {
	program, err := plane.Binary("drover")
	if err != nil {
		t.Fatal(err)
	}
	st := stage.Start(t, stage.Settings{Machines: func(o *fakeagent.Options) {
		o.Probe, o.Faults = time.Hour, unlucky{}
	}})
	for name, s := range situations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &provv1.Cluster{}
			cluster.Namespace, cluster.Name = plane.Namespace(t), "demo"
			if s.name != "" {
				cluster.Name = s.name
			}
			apply(t, st, cluster.Namespace, s.manifest)
			plane.Until(t, time.Minute, func() string { return s.notTold(t, st, cluster) })
			plane.Until(t, time.Minute, func() string {
				out := diagnosis(t, program, cluster)
				first, _, _ := strings.Cut(out, "\n")
				sentence := s.sentence(t, st, cluster)
				if !strings.HasSuffix(first, ": "+sentence) || len(missing(s.words, first)) > 0 {
					return fmt.Sprintf("the first line does not end with %q:\n%s", sentence, out)
				}
				if strings.Contains(out, "***") || strings.Contains(out, "InternalError") {
					t.Errorf("words are hidden or wrong:\n%s", out)
				}
				return ""
			})
		})
	}
}

// apply creates the objects of a manifest.
func apply(t *testing.T, st *stage.Stage, namespace, manifest string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			object.SetNamespace(namespace)
			err = st.Client.Create(t.Context(), object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sentence reads the Cluster, and returns the sentence of the condition.
func (s situation) sentence(t *testing.T, st *stage.Stage, cluster *provv1.Cluster) string {
	t.Helper()
	if err := st.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return err.Error()
	}
	return s.condition(t, st, cluster)
}

// notTold returns what the condition and the Events lack, or "".
func (s situation) notTold(t *testing.T, st *stage.Stage, cluster *provv1.Cluster) string {
	t.Helper()
	sentence := s.sentence(t, st, cluster)
	if lacks := missing(s.words, sentence); len(lacks) > 0 {
		return fmt.Sprintf("the condition %q lacks %q", sentence, lacks)
	}
	if strings.Count(sentence, "Not found") > 1 {
		return "there is more than one sentence: " + sentence // until Drover has seen the machine configs
	}
	told := s.told
	if told == nil {
		told = []string{sentence}
	}
	var list corev1.EventList
	if err := st.Client.List(t.Context(), &list, client.InNamespace(cluster.Namespace)); err != nil {
		return err.Error()
	}
	if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
		return e.Reason == s.reason && len(missing(told, e.Message)) == 0
	}) {
		var events []string
		for i := range list.Items {
			events = append(events, list.Items[i].Reason+": "+list.Items[i].Message)
		}
		return fmt.Sprintf("no Event %s says %q:\n%s", s.reason, told, strings.Join(events, "\n"))
	}
	return ""
}

func missing(words []string, text string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.Contains(text, word) })
}

// diagnosis runs drover diagnose as a user does, and expects that something is broken or waits.
func diagnosis(t *testing.T, program string, cluster *provv1.Cluster) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "diagnose", cluster.Name, "-n", cluster.Namespace,
		"--kubeconfig", plane.Kubeconfig(t)).CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 2 {
		t.Fatalf("drover diagnose: %v\n%s", err, out)
	}
	return string(out)
}
