package clients_test

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"github.com/drover-io/drover/pkg/kube/clients"
)

func TestRetryOnConflict_ReturnsTheError(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, "demo", errors.New("x"))
	for name, tc := range map[string]struct {
		answers []error
		want    error
	}{
		"no error":       {[]error{nil}, nil},
		"a time limit":   {[]error{context.DeadlineExceeded}, context.DeadlineExceeded},
		"the user":       {[]error{conflict, context.Canceled}, context.Canceled},
		"one conflict":   {[]error{conflict, nil}, nil},
		"only conflicts": {[]error{conflict, conflict, conflict, conflict, conflict}, conflict},
	} {
		tries := 0
		err := clients.RetryOnConflict(retry.DefaultRetry, func() error {
			tries++
			return tc.answers[tries-1]
		})
		if !errors.Is(err, tc.want) || tries != len(tc.answers) {
			t.Errorf("%s: %d tries, error %v, want %v", name, tries, err, tc.want)
		}
	}
}
