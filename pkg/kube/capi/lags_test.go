package capi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// shut is a Door to clusters that cannot be reached.
type shut struct{}

func (shut) RESTConfig(context.Context, types.NamespacedName) (*rest.Config, error) {
	return nil, errors.New("there is no way")
}

func (shut) Open(types.NamespacedName) (string, error) { return "", nil }

const (
	fleet = "fleet"
	lag   = 5 * time.Second
)

// TestThrifty_WatchesThatLag runs Cluster API's own controllers. A MachineSet sees the halves of its Machines long
// before the Machines, or the reverse. It must neither delete the halves nor make or delete Machines twice.
func TestThrifty_WatchesThatLag(t *testing.T) {
	crashpoints.SkipRaced(t)
	for _, late := range []string{"nothing", "machines.cluster.x-k8s.io", "machinesets.cluster.x-k8s.io",
		"hosts.infrastructure.cluster.x-k8s.io", "configs.bootstrap.cluster.x-k8s.io"} {
		t.Run("late "+late, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				api, agent := newPlane(t), remote.DefaultClusterAPIUserAgent(name)
				api.Lag(agent, func(resource string) time.Duration {
					return map[bool]time.Duration{true: lag}[resource == late]
				})
				end := startThrifty(t, api)
				time.Sleep(10 * time.Minute)
				expect(t, api, 3, 0)
				resize(t, api, 5)
				time.Sleep(10 * time.Minute)
				expect(t, api, 5, 0)
				resize(t, api, 2)
				time.Sleep(10 * time.Minute)
				expect(t, api, 2, 3)
				end()
			})
		})
	}
}

// inVirtualTime runs a test in a bubble of package synctest. Cluster API's caches of applies never end.
func inVirtualTime(t *testing.T, test func(*testing.T)) {
	t.Helper()
	defer func() {
		if left := recover(); left != nil && !strings.Contains(fmt.Sprint(left), "blocked goroutines remain") {
			panic(left)
		}
	}()
	synctest.Test(t, test)
}

// expect fails unless there are that many Machines with their halves, and the core has deleted that many before.
func expect(t *testing.T, api *memkube.Server, machines, deleted int) {
	t.Helper()
	for resource, kind := range map[string]schema.GroupVersionKind{
		"machines": clusterv1.GroupVersion.WithKind("Machine"),
		"hosts":    clusterv1.GroupVersionInfrastructure.WithKind("Host"),
		"configs":  clusterv1.GroupVersionBootstrap.WithKind("Config"),
	} {
		gone, all := map[string]bool{}, []string{}
		for _, write := range api.Writes(remote.DefaultClusterAPIUserAgent(name)) {
			all = append(all, write.String())
			if write.Verb == "delete" && strings.HasPrefix(write.Resource, resource+".") {
				gone[write.Name] = true
			}
		}
		if got := len(api.Objects(kind)); got != machines || len(gone) != deleted {
			t.Errorf("%d %s and %d deleted, want %d and %d; all writes:\n%s", got, resource, len(gone), machines,
				deleted, strings.Join(all, "\n"))
		}
	}
}

func resize(t *testing.T, api *memkube.Server, replicas int32) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	user, err := client.New(api.Config("user"), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "workers"}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := user.Patch(t.Context(), set, patch); err != nil {
		t.Fatal(err)
	}
}

// startThrifty runs a thrifty core until the returned function is called.
func startThrifty(t *testing.T, api *memkube.Server) func() {
	t.Helper()
	end := startCore(t, api.Config("ignored"), 0)
	return func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// startCore runs a thrifty core until the returned function is called. That returns the error of Start. The core holds
// statuses for the window, if it is not zero.
func startCore(t *testing.T, cfg *rest.Config, window time.Duration) func() error {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() {
		log.SetOutput(t.Output())
		log.SetLevel(logrus.DebugLevel)
	}
	ctx, cancel := context.WithCancel(t.Context())
	core, err := New(ctx, cfg, Options{Door: shut{}, Log: log, Workers: 2, Thrifty: true, window: window})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- core.Start(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// newPlane returns an API server with a cluster, and a MachineSet of three machines.
func newPlane(t *testing.T) *memkube.Server {
	t.Helper()
	definitions, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"HostTemplate", "Host"} {
		definitions = append(definitions, definition(clusterv1.GroupVersionInfrastructure.Group, kind))
	}
	for _, kind := range []string{"ConfigTemplate", "Config"} {
		definitions = append(definitions, definition(clusterv1.GroupVersionBootstrap.Group, kind))
	}
	api := memkube.New(memkube.Options{Namespaces: []string{fleet}, CRDs: definitions})
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: fleet, Name: name, Labels: map[string]string{
			clusterv1.ClusterNameLabel: "demo"}}
	}
	set := &clusterv1.MachineSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet"},
		ObjectMeta: meta("workers"),
		Spec: clusterv1.MachineSetSpec{ClusterName: "demo", Replicas: new(int32(3)),
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"set": "workers"}},
			Template: machineTemplate("workers", smallHost)},
	}
	cluster := &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: meta("demo"),
		Spec:       clusterv1.ClusterSpec{ClusterNetwork: clusterv1.ClusterNetwork{ServiceDomain: "cluster.local"}},
	}
	if err := api.Add(cluster, template(clusterv1.GroupVersionInfrastructure.String(), "HostTemplate", "small"),
		template(clusterv1.GroupVersionBootstrap.String(), "ConfigTemplate", "plain"), set); err != nil {
		t.Fatal(err)
	}
	return api
}

// smallHost and plainConfig are templates of the plane. The tests use them for the halves of Machines.
var (
	smallHost = clusterv1.ContractVersionedObjectReference{Name: "small", Kind: "HostTemplate",
		APIGroup: clusterv1.GroupVersionInfrastructure.Group}
	plainConfig = clusterv1.ContractVersionedObjectReference{Name: "plain", Kind: "ConfigTemplate",
		APIGroup: clusterv1.GroupVersionBootstrap.Group}
)

// machineTemplate is for Machines of the cluster with a label of their set.
func machineTemplate(set string, host clusterv1.ContractVersionedObjectReference) clusterv1.MachineTemplateSpec {
	return clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"set": set, clusterv1.ClusterNameLabel: "demo"}},
		Spec: clusterv1.MachineSpec{ClusterName: "demo", InfrastructureRef: host,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: plainConfig}},
	}
}

func template(version, kind, name string) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": kind,
		"metadata": map[string]any{"namespace": fleet, "name": name},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"size": "small"}}},
	}}
}

// definition returns a kind as providers of Cluster API define theirs.
func definition(group, kind string) *apiextv1.CustomResourceDefinition {
	plural := strings.ToLower(kind) + "s"
	return &apiextv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Labels: map[string]string{
			clusterv1.GroupVersion.String(): clusterv1.GroupVersion.Version}},
		Spec: apiextv1.CustomResourceDefinitionSpec{Group: group, Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind,
				ListKind: kind + "List"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{Name: clusterv1.GroupVersion.Version, Served: true,
				Storage:      true,
				Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{Type: "object",
					XPreserveUnknownFields: new(true)}}}}},
	}
}
