package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

var update = flag.Bool("update", false, "record the objects of this release")

const (
	// recordings has a folder for each release whose objects were recorded. Never record a published release again. The
	// next release gets its own folder, and recording names it.
	recordings = "testdata/recorded"
	recording  = "2"
	// old is the age of recorded objects when they are read, in virtual time: nothing is about to expire.
	old = 24 * time.Hour
)

// recordedKinds returns the kinds in which Drover, and the programs it works with, store clusters.
func recordedKinds() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{
		provv1.SchemeGroupVersion.WithKind("Cluster"),
		corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
		{Group: "batch", Version: "v1", Kind: "Job"},
	}
	for _, kind := range []string{"Cluster", "NodeDriver", "DynamicSchema", "ClusterRegistrationToken",
		"PodSecurityAdmissionConfigurationTemplate"} {
		kinds = append(kinds, mgmtv3.SchemeGroupVersion.WithKind(kind))
	}
	for _, kind := range []string{"RKECluster", "RKEControlPlane", "RKEBootstrap", "RKEBootstrapTemplate",
		"CustomMachine", "ETCDSnapshot"} {
		kinds = append(kinds, rkev1.SchemeGroupVersion.WithKind(kind))
	}
	for _, kind := range []string{"Cluster", "MachineDeployment", "MachineSet", "Machine", "MachineHealthCheck"} {
		kinds = append(kinds, clusterAPI.WithKind(kind))
	}
	return append(kinds,
		machineAPI.WithKind("DigitaloceanMachine"), machineAPI.WithKind("DigitaloceanMachineTemplate"),
		schema.GroupVersionKind{Group: "rke-machine-config.cattle.io", Version: "v1", Kind: "DigitaloceanConfig"})
}

// required lists the kinds that a recording must contain.
var required = []string{
	"Cluster.provisioning.cattle.io", "Cluster.management.cattle.io", "Cluster.cluster.x-k8s.io",
	"NodeDriver.management.cattle.io",
	"DynamicSchema.management.cattle.io", "RKECluster.rke.cattle.io", "RKEControlPlane.rke.cattle.io",
	"RKEBootstrap.rke.cattle.io",
	"RKEBootstrapTemplate.rke.cattle.io", "MachineDeployment.cluster.x-k8s.io", "MachineSet.cluster.x-k8s.io",
	"Machine.cluster.x-k8s.io",
	"MachineHealthCheck.cluster.x-k8s.io", "ClusterRegistrationToken.management.cattle.io",
	"DigitaloceanMachine.rke-machine.cattle.io", "DigitaloceanMachineTemplate.rke-machine.cattle.io",
	"DigitaloceanConfig.rke-machine-config.cattle.io", "Secret.", "ServiceAccount.", "ConfigMap.",
	"Role.rbac.authorization.k8s.io",
	"RoleBinding.rbac.authorization.k8s.io", "CustomResourceDefinition.apiextensions.k8s.io", "Job.batch",
	"CustomMachine.rke.cattle.io",
	"ETCDSnapshot.rke.cattle.io",
}

// TestRecorded_ReadsObjectsOfReleases starts today's Drover on the stored objects of a release, with a running
// cluster. Drover must understand every object completely and write nothing. It would write if a name, label,
// annotation, handler name, apply set owner or plan had changed. A renamed field would have the same effect.
func TestRecorded_ReadsObjectsOfReleases(t *testing.T) {
	crashpoints.SkipRaced(t)
	if *update {
		recordRelease(t, filepath.Join(recordings, recording))
		recordMaking(t, filepath.Join(recordings, recording))
	}
	releases, err := filepath.Glob(filepath.Join(recordings, "*"))
	if err != nil || len(releases) == 0 {
		t.Fatalf("recordings %v, error %v; run with -update", releases, err)
	}
	for _, dir := range releases {
		objects, nodes := load(t, filepath.Join(dir, "objects.yaml")), load(t, filepath.Join(dir, "nodes.yaml"))
		making := load(t, filepath.Join(dir, "making.yaml"))
		first := filepath.Base(dir) == "1"
		t.Run(filepath.Base(dir)+"/decode", func(t *testing.T) { decodeAll(t, slices.Concat(objects, making)) })
		t.Run(filepath.Base(dir)+"/goes on", func(t *testing.T) { goesOn(t, making) })
		t.Run(filepath.Base(dir)+"/steady", func(t *testing.T) {
			tell(t, func(w *world) {
				time.Sleep(old)
				w.restore(objects, nodes)
				if first {
					w.offer() // the upgrade step of docs/changes.md
				}
				w.start()
				time.Sleep(time.Minute)
				synctest.Wait()
				w.expectOnlyOurOwn(first)
				if left := w.ready(3)(); left != "" {
					t.Error(left)
				}
				w.quiet(time.Hour)
				// Drover manages the cluster. No fake plays its new machines.
				w.edit(func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[1].Quantity = 3 })
				w.until("one more machine", time.Minute, func() string {
					if made := len(w.api.Objects(machineAPI.WithKind("DigitaloceanMachine"))); made != 4 {
						return fmt.Sprintf("%d machines", made)
					}
					return ""
				})
			})
		})
		if !first {
			continue
		}
		t.Run(filepath.Base(dir)+"/without its step", func(t *testing.T) {
			objects, nodes := load(t, filepath.Join(dir, "objects.yaml")), load(t, filepath.Join(dir, "nodes.yaml"))
			tell(t, func(w *world) {
				time.Sleep(old)
				w.restore(objects, nodes)
				plans := w.plans()
				w.start()
				w.until("it reports that the credential is forbidden", time.Minute, w.says(rkev1.ConditionFalse))
				time.Sleep(time.Minute)
				w.offer()
				w.until("the credential is allowed", time.Minute, w.says(rkev1.ConditionTrue))
				time.Sleep(time.Minute)
				if left := w.ready(3)(); left != "" {
					t.Error(left)
				}
				if diff := cmp.Diff(plans, w.plans()); diff != "" {
					t.Errorf("plans are changed:\n%s", diff)
				}
			})
		})
	}
}

// offer has the shared credential list the cluster.
func (w *world) offer() {
	w.Helper()
	secret, err := w.user.Core.Secret().Get("cattle-global-data", "cc-demo", metav1.GetOptions{})
	check(w.T, err)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, rkev1.AuthorizedObjectAnnotation, fleet+"/*")
	_, err = w.user.Core.Secret().Update(secret)
	check(w.T, err)
}

// says waits until the cluster reports whether it may use the objects that it names.
func (w *world) says(status string) func() string {
	return func() string {
		cluster, err := w.user.Provisioning.Cluster().Get(fleet, demo, metav1.GetOptions{})
		check(w.T, err)
		c := conditions.Get(cluster.Status.Conditions, provv1.ConditionRKECluster)
		if c == nil || c.Status != status ||
			(c.Reason == tenancy.ReasonAccessDenied) != (status == rkev1.ConditionFalse) {
			return fmt.Sprintf("RKECluster: %+v", c)
		}
		return ""
	}
}

// recordRelease runs the life of a cluster and stores all objects in the middle of it.
func recordRelease(t *testing.T, dir string) {
	t.Helper()
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 2))
		w.until("the cluster", 5*time.Minute, w.ready(3))
		_, err := w.user.Provisioning.Cluster().Create(
			&provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "imported"}})
		check(t, err)
		w.edit(func(c *provv1.Cluster) {
			c.Spec.RKEConfig.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
			c.Spec.RKEConfig.MachinePools[1].Labels = map[string]string{"pool": "workers"}
			c.Spec.RKEConfig.MachinePools[1].UnhealthyNodeTimeout = &metav1.Duration{Duration: 10 * time.Minute}
		})
		time.Sleep(10 * time.Minute)
		w.until("the cluster, edited", 5*time.Minute, w.ready(3))
		time.Sleep(old / 2)
		w.stop()
		var nodes []*unstructured.Unstructured
		w.mu.Lock()
		for address, served := range w.served {
			nodes = append(nodes, served.api.Objects(corev1.SchemeGroupVersion.WithKind("Node"))...)
			nodes[0].SetAnnotations(map[string]string{servedAt: address})
		}
		w.mu.Unlock()
		store(t, filepath.Join(dir, "objects.yaml"), w.stored())
		store(t, filepath.Join(dir, "nodes.yaml"), nodes)
	})
}

// stored returns all objects of clusters, and of one node driver.
func (w *world) stored() (objects []*unstructured.Unstructured) {
	for _, crd := range w.api.Objects(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")) {
		if strings.HasPrefix(crd.GetName(), "digitalocean") {
			objects = append(objects, crd)
		}
	}
	for _, gvk := range recordedKinds() {
		for _, object := range w.api.Objects(gvk) {
			if driver := gvk.Kind == "NodeDriver" || gvk.Kind == "DynamicSchema"; !driver ||
				strings.HasPrefix(object.GetName(), "digitalocean") {
				objects = append(objects, object)
			}
		}
	}
	return objects
}

// servedAt is the address of the cluster's API, on the first recorded Node.
const servedAt = "recorded/served-at"

// restore creates recorded objects in a world.
func (w *world) restore(objects, nodes []*unstructured.Unstructured) {
	w.Helper()
	for _, object := range objects {
		check(w.T, w.api.Add(object))
	}
	api := memkube.New(memkube.Options{})
	for _, node := range nodes {
		check(w.T, api.Add(node))
	}
	client, err := kubernetes.NewForConfig(api.Config("client"))
	check(w.T, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served[nodes[0].GetAnnotations()[servedAt]] = downstream{api, client}
	w.api.ResetLog()
}

// expectOnlyOurOwn fails for every write with these exceptions. Definitions and drivers belong to this program and may
// be newer. The status of a registration token names the install script of this program. Events are allowed. Objects
// that the first release did not create are allowed too: Drover's own key, and registration tokens. No machine has such
// a token.
func (w *world) expectOnlyOurOwn(first bool) {
	w.Helper()
	own := []string{"customresourcedefinitions", "nodedrivers", "dynamicschemas", "leases", "namespaces", "events"}
	if first {
		own = append(own, "clusterregistrationtokens")
	}
	for _, write := range w.api.Writes(ours) {
		token := strings.HasPrefix(write.Name, mgmtv3.RegistrationTokenSecretPrefix) || write.Name == "drover-grants"
		readers := write.Verb == "create" && write.Namespace == controllers.SettingsNamespace &&
			strings.HasPrefix(write.Resource, "role")
		kind, _, _ := strings.Cut(write.Resource, ".")
		if write.Resource == "clusterregistrationtokens.management.cattle.io/status" {
			continue
		}
		if token && kind == "secrets" && write.Verb == "update" {
			continue // the commands, which previous releases did not write
		}
		if write.Resource == "clusters.provisioning.cattle.io/status" && write.Name == "imported" {
			continue // the sentence about the wait for its agent, which previous releases worded differently
		}
		if kind == "configmaps" && write.Namespace == controllers.SettingsNamespace {
			continue // a server may publish more settings than the previous release
		}
		if late := first && (readers || token && kind == "secrets"); !late && !slices.Contains(own, kind) {
			w.Errorf("a recorded cluster causes writes: %v", write)
		}
	}
}

// decodeAll fails for every object that today's types do not understand completely, and for each required kind that the
// recording lacks.
func decodeAll(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	scheme, err := clients.NewScheme()
	check(t, err)
	found := map[string]bool{}
	for _, object := range objects {
		gvk := object.GroupVersionKind()
		found[gvk.GroupKind().String()] = true
		if gvk.Group == "" {
			found[gvk.Kind+"."] = true
		}
		if !scheme.Recognizes(gvk) {
			continue // the kinds of drivers have no Go types
		}
		typed, err := scheme.New(gvk)
		check(t, err)
		text, err := json.Marshal(object.Object)
		check(t, err)
		if err := yaml.UnmarshalStrict(text, typed); err != nil {
			t.Errorf("%s %s: %v", gvk.Kind, object.GetName(), err)
		}
		if secret, ok := typed.(*corev1.Secret); ok && secret.Type == rkev1.SecretTypeMachinePlan &&
			len(secret.Data[nodeplan.KeyPlan]) > 0 {
			found["plan"] = true
			decoder := json.NewDecoder(bytes.NewReader(secret.Data[nodeplan.KeyPlan]))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&plan.NodePlan{}); err != nil {
				t.Errorf("the plan in %s: %v", secret.Name, err)
			}
		}
	}
	for _, kind := range append([]string{"plan"}, required...) {
		if !found[kind] {
			t.Errorf("%s was not recorded", kind)
		}
	}
}

func store(t *testing.T, path string, objects []*unstructured.Unstructured) {
	t.Helper()
	var out bytes.Buffer
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object)
		check(t, err)
		fmt.Fprintf(&out, "---\n%s", text)
	}
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, out.Bytes(), 0o644))
}

func load(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		data, err := yaml.YAMLToJSON([]byte(document))
		check(t, err)
		decoded, err := runtime.Decode(unstructured.UnstructuredJSONScheme, data)
		check(t, err)
		object, ok := decoded.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%s holds %T", path, decoded)
		}
		objects = append(objects, object)
	}
	return objects
}
