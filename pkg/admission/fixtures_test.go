package admission_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/testkit/build"
)

const instance = "this-drover"

// demo returns a cluster of this instance with one pool for all roles.
func demo(edits ...func(*provv1.Cluster)) *provv1.Cluster {
	cluster := build.Cluster("demo", build.Pool("all", "ecw", 3))
	cluster.Annotations = map[string]string{rkev1.InstanceAnnotation: instance}
	for _, edit := range edits {
		edit(cluster)
	}
	return cluster
}

func pool(c *provv1.Cluster, i int) *provv1.RKEMachinePool { return &c.Spec.RKEConfig.MachinePools[i] }

// facts returns the facts of a management cluster without other objects.
func facts(t *testing.T, edits ...func(*admission.Facts)) admission.Facts {
	t.Helper()
	table, err := releases.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	f := admission.Facts{InstanceID: instance, Releases: table, Known: true}
	for _, edit := range edits {
		edit(&f)
	}
	return f
}

func machines(list ...*clusterv1.Machine) func(*admission.Facts) {
	return func(f *admission.Facts) { f.Machines = append(f.Machines, list...) }
}

// pooled returns a machine of a pool of cluster demo.
func pooled(name, pool, roles string) *clusterv1.Machine {
	m := build.Machine("demo", name, roles)
	m.Labels[rkev1.MachinePoolNameLabel], m.Labels[clusterv1.MachineDeploymentNameLabel] = pool, "demo-"+pool
	return m
}

// request returns an update if both objects are set, and a creation or a deletion if one is missing.
func request(t *testing.T, group, resource string, f admission.Facts, before, after any) admission.Request {
	t.Helper()
	r := admission.Request{
		Operation: admission.Update, Resource: schema.GroupResource{Group: group, Resource: resource},
		Namespace: build.Namespace, Name: "demo", Facts: f,
	}
	switch {
	case before == nil:
		r.Operation = admission.Create
	case after == nil:
		r.Operation = admission.Delete
	}
	r.Old, r.New = encoded(t, before), encoded(t, after)
	return r
}

// ofCluster returns a request about a Cluster, which is new if before is nil.
func ofCluster(t *testing.T, f admission.Facts, before, after *provv1.Cluster) admission.Request {
	t.Helper()
	if before == nil {
		return request(t, "provisioning.cattle.io", "clusters", f, nil, after)
	}
	return request(t, "provisioning.cattle.io", "clusters", f, before, after)
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()
	if object == nil {
		return nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decide(t *testing.T, r admission.Request) admission.Answer {
	t.Helper()
	a, err := admission.Decide(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func complete(t *testing.T, r admission.Request) admission.Answer {
	t.Helper()
	a, err := admission.Complete(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
