package registration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// A server that installs the policies may still delete machines, whatever its user name is.
func TestInstall_AllowsDroverToDeleteMachines(t *testing.T) {
	for name, tc := range map[string]struct{ user, want string }{
		"a user":           {"jane", `, "jane"]`},
		"a user in quotes": {`o'"hara`, `, "o'\"hara"]`},
		"unknown":          {"", "'system:serviceaccounts:capi-system']"},
	} {
		t.Run(name, func(t *testing.T) {
			client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			client.PrependReactor("create", "selfsubjectreviews",
				func(action clienttesting.Action) (bool, runtime.Object, error) {
					if tc.user == "" {
						return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "selfsubjectreviews"},
							"")
					}
					asked := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
					return true, asked, unstructured.SetNestedField(asked.Object, tc.user, "status", "userInfo",
						"username")
				})
			listed := map[string]string{}
			client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				patch := action.(clienttesting.PatchAction)
				object := &unstructured.Unstructured{}
				if err := object.UnmarshalJSON(patch.GetPatch()); err != nil {
					return true, nil, err
				}
				variables, _, err := unstructured.NestedSlice(object.Object, "spec", "variables")
				for _, item := range variables {
					if variable := item.(map[string]any); variable["name"] == programs {
						listed[patch.GetName()] = variable["expression"].(string)
					}
				}
				return true, object, err
			})
			check(t, Install(t.Context(), client, "https://127.0.0.1:9443", []byte("pem"), "word"))
			for _, policy := range []string{"drover-protected-cluster", "drover-protected-finalizers"} {
				if len(listed) != 2 || !strings.HasSuffix(listed[policy], tc.want) {
					t.Errorf("the programs are %v, want those of %s to end with %s", listed, policy, tc.want)
				}
			}
		})
	}
}
