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
		"it is not there":              {apierrors.NewNotFound(clusters, "demo"), true, "there is no Cluster demo in namespace team-a; -n names another one"},
		"who asks may not read it":     {apierrors.NewForbidden(clusters, "demo", errors.New("a tenant")), true, "read Cluster team-a/demo: "},
		"the kind is not there":        {apierrors.NewNotFound(schema.GroupResource{}, ""), false, "read Cluster team-a/demo: "},
		"something else is not there":  {apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, "demo"), false, "read Cluster team-a/demo: "},
		"somebody on the way answers":  {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", clusters, "demo", "<html>", 0, true), false, "read Cluster team-a/demo: "},
		"nobody answers":               {errors.New("connection refused"), false, "read Cluster team-a/demo: connection refused"},
		"the server has too much work": {apierrors.NewTooManyRequests("later", 1), false, "read Cluster team-a/demo: later"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isRefusal, said := UnreadCluster(tc.err, "team-a", "demo")
			if isRefusal != tc.wantRefusal || !strings.HasPrefix(said.Error(), tc.want) || !errors.Is(said, tc.err) {
				t.Errorf("%v, refusal %v; want %q, %v", said, isRefusal, tc.want, tc.wantRefusal)
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
		"it is not there":             {apierrors.NewNotFound(snapshotResource, "s"), true},
		"another one is not there":    {apierrors.NewNotFound(snapshotResource, "t"), false},
		"another kind is not there":   {apierrors.NewNotFound(ControlPlaneResource(), "s"), false},
		"the kind is not there":       {apierrors.NewNotFound(schema.GroupResource{}, ""), false},
		"it may not be read":          {apierrors.NewForbidden(snapshotResource, "s", errors.New("a tenant")), false},
		"somebody on the way answers": {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", snapshotResource, "s", "<html>", 0, true), false},
		"nobody answers":              {errors.New("connection refused"), false},
		"nothing is wrong":            {nil, false},
	} {
		if got := IsAbsent(tc.err, snapshotResource, "s"); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
