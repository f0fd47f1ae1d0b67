package inspect

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

func TestUnreadCluster(t *testing.T) {
	t.Parallel()
	clusters := provv1.SchemeGroupVersion.WithResource("clusters").GroupResource()
	for name, tc := range map[string]struct {
		err         error
		wantRefusal bool
		want        string
	}{
		"the Cluster does not exist": {apierrors.NewNotFound(clusters, "demo"), true,
			"there is no Cluster demo in namespace team-a; -n names another one"},
		"the user may not read it": {apierrors.NewForbidden(clusters, "demo", errors.New("a tenant")), true,
			"read Cluster team-a/demo: "},
		"the kind does not exist": {apierrors.NewNotFound(schema.GroupResource{}, ""), false,
			"read Cluster team-a/demo: "},
		"another object does not exist": {apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, "demo"),
			false, "read Cluster team-a/demo: "},
		"a proxy answers": {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", clusters, "demo",
			"<html>", 0, true), false, "read Cluster team-a/demo: "},
		"no server answers": {errors.New("connection refused"), false,
			"read Cluster team-a/demo: connection refused"},
		"the server is overloaded": {apierrors.NewTooManyRequests("later", 1), false,
			"read Cluster team-a/demo: later"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isRefusal, said := UnreadCluster(tc.err, "team-a", "demo")
			if isRefusal != tc.wantRefusal || !strings.HasPrefix(said.Error(), tc.want) || !errors.Is(said, tc.err) {
				t.Errorf("%v, absent or forbidden %v; want %q, %v", said, isRefusal, tc.want, tc.wantRefusal)
			}
		})
	}
}

// Only an answer about the object itself proves that it does not exist. Other NotFound errors come from a proxy or
// concern another kind.
func TestIsAbsent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"the Cluster does not exist":               {apierrors.NewNotFound(snapshotResource, "s"), true},
		"another Cluster does not exist":           {apierrors.NewNotFound(snapshotResource, "t"), false},
		"an object of another kind does not exist": {apierrors.NewNotFound(ControlPlaneResource(), "s"), false},
		"the kind does not exist":                  {apierrors.NewNotFound(schema.GroupResource{}, ""), false},
		"the read is forbidden": {apierrors.NewForbidden(snapshotResource, "s",
			errors.New("a tenant")), false},
		"a proxy answers": {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", snapshotResource, "s",
			"<html>", 0, true), false},
		"no server answers": {errors.New("connection refused"), false},
		"no error":          {nil, false},
	} {
		if got := IsAbsent(tc.err, snapshotResource, "s"); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
