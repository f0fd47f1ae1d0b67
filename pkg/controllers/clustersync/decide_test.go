package clustersync

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestAuthorized(t *testing.T) {
	t.Parallel()
	const request = provv1.SyncAnnotation
	for name, tc := range map[string]struct {
		key, value, list string
		want             []string
	}{
		"a cluster":                        {request, "true", "demo", []string{"n/demo"}},
		"several clusters":                 {request, "true", "a, n/b,,", []string{"n/a", "n/b"}},
		"all clusters of the namespace":    {request, "true", "n/*", []string{"n/*"}},
		"a name that is no name":           {request, "true", "*", nil},
		"clusters of another namespace":    {request, "true", "other/demo,other/*,n/", nil},
		"any text requests a copy":         {request, "yes", "demo", []string{"n/demo"}},
		"for the bootstrap":                {provv1.SyncBootstrapAnnotation, "true", "demo", []string{"n/demo"}},
		"authorized for files of machines": {"", "", "demo", nil},
		"not requested":                    {request, "false", "demo", nil},
		"an empty request":                 {request, "", "demo", nil},
		"not authorized":                   {request, "true", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := &metav1.ObjectMeta{Namespace: "n", Annotations: map[string]string{tc.key: tc.value,
				rkev1.AuthorizedObjectAnnotation: tc.list}}
			if diff := cmp.Diff(tc.want, authorized(source)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}
