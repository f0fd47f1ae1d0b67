package build

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/testkit/admission"
)

// An API server accepts every object that this package makes.
func TestObjectsAreValid(t *testing.T) {
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	machine := Machine("demo", "m", "ecw", WithNode("n"), WithAddress("192.0.2.1"))
	for kind, obj := range map[string]runtime.Object{
		"clusters.provisioning.cattle.io": Cluster("demo", Pool("server", "ec", 3), Pool("worker", "w", 0)),
		"rkecontrolplanes.rke.cattle.io":  ControlPlane("demo"),
		"rkebootstraps.rke.cattle.io":     Bootstrap(machine),
	} {
		for _, crd := range definitions {
			if crd.Name != kind {
				continue
			}
			validator, err := admission.New(crd)
			if err != nil {
				t.Fatal(err)
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				t.Fatal(err)
			}
			result := validator.Create(t.Context(), content)
			if len(result.Errors)+len(result.Unknown) > 0 {
				t.Errorf("%s: %v, unknown fields %v", kind, result.Messages(), result.Unknown)
			}
		}
	}
}

func TestPlanSecret_CarriesTheRoles(t *testing.T) {
	secret := PlanSecret(Machine("demo", "m", "ew"), "plan", "{}")
	want := map[string]string{
		"rke.cattle.io/cluster-name": "demo", "rke.cattle.io/machine-name": "m", "rke.cattle.io/etcd-role": "true",
		"rke.cattle.io/worker-role": "true",
	}
	if diff := cmp.Diff(want, secret.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if string(secret.Data["plan"]) != "{}" || secret.Type != "rke.cattle.io/machine-plan" {
		t.Errorf("secret: %v", secret)
	}
}
