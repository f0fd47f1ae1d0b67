package webhook

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/mock/gomock"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/admission"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// A Secret counts as missing only if the API server says so. No answer does not count.
func TestLookUp_FindsReferencedObjects(t *testing.T) {
	t.Parallel()
	known := &rkev1.ETCDSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "known"}}
	snapshots := fake.NewMockCacheInterface[*rkev1.ETCDSnapshot](gomock.NewController(t))
	snapshots.EXPECT().Get("ns", gomock.Any()).DoAndReturn(func(_, name string) (*rkev1.ETCDSnapshot, error) {
		if name == known.Name {
			return known, nil
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	}).AnyTimes()
	log, _ := test.NewNullLogger()
	r := &reviewer{Options{Log: log, Snapshots: snapshots,
		HasSecret: func(_ context.Context, secret types.NamespacedName) (bool, error) {
			if secret.Name == "unreachable" {
				return false, errors.New("no answer")
			}
			return secret.Name == "known", nil
		}}}
	of := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	for name, tc := range map[string]struct {
		named admission.Named
		want  admission.Facts
	}{
		"nothing": {admission.Named{}, admission.Facts{}},
		"both": {admission.Named{Snapshot: of("known"), Credential: of("known")},
			admission.Facts{Snapshot: known}},
		"missing objects": {admission.Named{Snapshot: of("gone"), Credential: of("gone")},
			admission.Facts{CredentialMissing: true}},
		"a Secret that cannot be checked": {admission.Named{Credential: of("unreachable")}, admission.Facts{}},
	} {
		var got admission.Facts
		if err := r.lookUp(t.Context(), tc.named, &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(admission.Facts{}, "Releases")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
