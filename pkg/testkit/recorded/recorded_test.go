package recorded

import (
	"os"
	"slices"
	"testing"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/testkit/admission"
)

// An API server accepts the recorded objects unchanged and drops no field.
func TestLoad_ObjectsAreValid(t *testing.T) {
	own, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	core, err := crds.Read(os.DirFS("../../kube/capi/crds"))
	if err != nil {
		t.Fatal(err)
	}
	field := mgmtv3.Field{Type: "string", Nullable: true, Create: true, Update: true}
	pod := driverschema.CRDs("pod",
		mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"image": field, "etcdTmpfs": field}})
	judges := map[string]*admission.Validator{}
	for _, crd := range slices.Concat(own, core, pod) {
		if judges[crd.Spec.Group+" "+crd.Spec.Names.Kind], err = admission.New(crd); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{RancherOneServer, RancherThreeServersTwoWorkers, DroverOtherInstance} {
		objects, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		judged := 0
		for _, object := range objects {
			judge := judges[object.GroupVersionKind().Group+" "+object.GetKind()]
			if judge == nil {
				continue // a kind of Kubernetes itself
			}
			judged++
			result := judge.Create(t.Context(), object.Object)
			for _, message := range result.Messages() {
				t.Errorf("%s: %s %s: %s", name, object.GetKind(), object.GetName(), message)
			}
			for _, field := range result.Unknown {
				t.Errorf("%s: %s %s: unknown field %s", name, object.GetKind(), object.GetName(), field)
			}
		}
		if judged < 15 {
			t.Errorf("%s: only %d objects were checked", name, judged)
		}
	}
}
