package manifests

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// generatedKinds are the kinds that Drover creates from a Cluster.
var generatedKinds = []schema.GroupVersionKind{
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"},
	{Group: "rke.cattle.io", Version: "v1", Kind: "RKECluster"},
	{Group: "rke.cattle.io", Version: "v1", Kind: "RKEControlPlane"},
	{Group: "rke.cattle.io", Version: "v1", Kind: "RKEBootstrapTemplate"},
	{Group: "rke-machine.cattle.io", Version: "v1", Kind: "Amazonec2MachineTemplate"},
	{Group: "rke-machine.cattle.io", Version: "v1", Kind: "AzureMachineTemplate"},
	{Group: "rke-machine.cattle.io", Version: "v1", Kind: "DigitaloceanMachineTemplate"},
	{Group: "rke-machine.cattle.io", Version: "v1", Kind: "VmwarevsphereMachineTemplate"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeployment"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineHealthCheck"},
}

// ofCluster reports whether an object belongs to a cluster, by the fields and labels of its kind.
func ofCluster(object *unstructured.Unstructured, cluster string) bool {
	name, _, _ := unstructured.NestedString(object.Object, "spec", "clusterName")
	return name == cluster || object.GetName() == cluster
}

// notAdopted returns what Cluster API has not adopted yet in a cluster without machines.
func notAdopted(t *testing.T, c client.Client, cluster string) string {
	t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: cluster}
	capi, infrastructure, controlPlane := &clusterv1.Cluster{}, &rkev1.RKECluster{}, &rkev1.RKEControlPlane{}
	for _, object := range []client.Object{capi, infrastructure, controlPlane} {
		if err := c.Get(t.Context(), key, object); err != nil {
			return err.Error()
		}
	}
	if len(infrastructure.OwnerReferences) == 0 || len(controlPlane.OwnerReferences) == 0 ||
		capi.Spec.ControlPlaneEndpoint.Host == "" {
		return "Cluster API does not own the cluster yet: " + cluster
	}
	return ""
}

// generated returns the objects created from a Cluster as YAML, without parts that differ between runs.
func generated(t *testing.T, c client.Client, cluster string) string {
	t.Helper()
	var out strings.Builder
	for _, gvk := range generatedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
			return strings.Compare(a.GetName(), b.GetName())
		})
		for i := range list.Items {
			if object := &list.Items[i]; ofCluster(object, cluster) {
				text, err := yaml.Marshal(stable(object))
				if err != nil {
					t.Fatal(err)
				}
				out.WriteString("---\n")
				out.Write(text)
			}
		}
	}
	return managementName.ReplaceAllString(out.String(), "c-m-ID")
}

var (
	managementName = regexp.MustCompile(`c-m-[a-z0-9]{8}`)
	// volatile annotations contain encodings of other content, or the state of an apply set.
	volatile = []string{"objectset.rio.cattle.io/applied", "rke.cattle.io/cluster-spec",
		"machinedeployment.clusters.x-k8s.io/revision"}
)

// stable returns the parts of an object that Drover decides.
func stable(object *unstructured.Unstructured) map[string]any {
	annotations := object.GetAnnotations()
	for _, key := range volatile {
		delete(annotations, key)
	}
	var owners []any
	for _, owner := range object.GetOwnerReferences() {
		text := owner.Kind + "/" + owner.Name
		if owner.Controller != nil && *owner.Controller {
			text += " (controller)"
		}
		owners = append(owners, text)
	}
	metadata := map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()}
	if len(object.GetLabels()) > 0 {
		metadata["labels"] = object.GetLabels()
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if len(owners) > 0 {
		metadata["owners"] = owners
	}
	return map[string]any{"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "metadata": metadata,
		"spec": object.Object["spec"]}
}

// firstPlans returns the plans of a cluster's machines as texts by the names of their golden files, without parts that
// differ between runs. They are the plans of the init node, of the first joining server, and of the first worker.
func firstPlans(t *testing.T, c client.Client, cluster string) map[string]string {
	t.Helper()
	secrets := &corev1.SecretList{}
	if err := c.List(t.Context(), secrets, client.InNamespace(namespace),
		client.MatchingLabels{rkev1.ClusterNameLabel: cluster}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(secrets.Items, func(a, b corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	out := map[string]string{}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Type != rkev1.SecretTypeMachinePlan {
			continue
		}
		file := planOfWorker
		switch {
		case secret.Labels[rkev1.InitNodeLabel] == "true":
			file = planOfFirst
		case secret.Labels[rkev1.EtcdRoleLabel] == "true" || secret.Labels[rkev1.ControlPlaneRoleLabel] == "true":
			file = planOfJoining
		}
		if out[file] == "" {
			out[file] = planText(t, c, cluster, secret)
		}
	}
	return out
}

func planText(t *testing.T, c client.Client, cluster string, secret *corev1.Secret) string {
	t.Helper()
	p, err := nodeplan.Decode(secret.Data[nodeplan.KeyPlan])
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, file := range p.Files {
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			t.Fatal(err)
		}
		// The tests of pkg/decide/clustermanifest check its content. Here it only has to exist.
		if strings.HasSuffix(file.Path, "/cluster-agent.yaml") {
			content = bytes.Join(kinds.FindAll(content, -1), []byte("\n"))
		}
		fmt.Fprintf(&out, "== file %s mode %q dynamic %t minor %t\n%s\n", file.Path, file.Permissions, file.Dynamic,
			file.Minor, content)
	}
	for _, i := range p.Instructions {
		fmt.Fprintf(&out, "== instruction %s\nimage %s\n%s %q\n%s\n", i.Name, i.Image, i.Command, i.Args,
			strings.Join(i.Env, "\n"))
	}
	for _, i := range p.PeriodicInstructions {
		fmt.Fprintf(&out, "== every %d s: %s\n%s %q\n", i.PeriodSeconds, i.Name, i.Command, i.Args)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Probes)) {
		fmt.Fprintf(&out, "== probe %s\n%+v\n", name, p.Probes[name].HTTPGetAction)
	}
	return masked(t, c, secret, cluster, out.String())
}

var (
	kinds   = regexp.MustCompile(`(?m)^kind: .*$`)
	hash    = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	address = regexp.MustCompile(`127\.\d+\.\d+\.\d+`)
	// encoded is a long base64 text, such as the copy of the cluster's spec.
	encoded = regexp.MustCompile(`[A-Za-z0-9+/]{120,}={0,2}`)
)

// masked replaces names, tokens, addresses and hashes that differ between runs.
func masked(t *testing.T, c client.Client, plan *corev1.Secret, cluster, text string) string {
	t.Helper()
	state := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: cluster + "-rke-state"},
		state); err != nil {
		t.Fatal(err)
	}
	machine := &clusterv1.Machine{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: plan.Labels[rkev1.MachineNameLabel]},
		machine); err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer(
		string(state.Data[rkev1.ServerTokenKey]), "SERVER-TOKEN", string(state.Data[rkev1.AgentTokenKey]),
		"AGENT-TOKEN",
		string(machine.UID), "MACHINE-UID", machine.Name, "MACHINE",
	)
	text = replace.Replace(text)
	text = encoded.ReplaceAllString(text, "ENCODED")
	text = hash.ReplaceAllString(text, "SHA256")
	text = address.ReplaceAllString(text, "ADDRESS")
	return managementName.ReplaceAllString(text, "c-m-ID")
}
