package clusterregistrationtoken_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// told describes a token's state, without what differs between runs.
func (w *world) told(token string) string {
	w.Helper()
	secret, status := w.secret(token), w.status(token)
	if secret == nil {
		return "without a Secret"
	}
	return fmt.Sprintf("keys %v labels %v owners %d, status names it %v, expires %v, has a grace period %v",
		slices.Sorted(maps.Keys(secret.Data)), secret.Labels, len(secret.OwnerReferences),
		status.TokenSecretName == secret.Name,
		status.ExpiresAt == string(secret.Data["expiresAt"]), status.GracePeriodExpiresAt != "")
}

// A token is made, replaced, repaired and deleted wherever the process is killed, and a valid token always gives
// access.
func TestStory_TokenWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	var want []string
	crashpoints.Each(t, 6, func(t *testing.T, n int) (writes int) {
		t.Helper()
		var got []string
		inWorld(t, func(w *world) {
			look := func() { got = append(got, w.told("default-token")) }
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			must(w.T, w.api.Add(registrationToken("default-token", mgmtv3.TokenPurposeNode)))
			w.pass(time.Minute)
			look()
			made := w.secret("default-token")
			expires, err := time.Parse(time.RFC3339, string(made.Data["expiresAt"]))
			must(w.T, err)
			w.sleep(time.Until(expires) - time.Minute)
			w.pass(2 * time.Minute)
			look()
			replaced := w.secret("default-token")
			if string(replaced.Data["previousToken"]) != string(made.Data["token"]) ||
				string(replaced.Data["token"]) == string(made.Data["token"]) {
				w.Errorf("killed after write %d: the token is not new, or the former one is no longer valid", n)
			}
			w.pass(registration.DefaultGracePeriod)
			look()
			damaged := w.secret("default-token")
			damaged.Labels, damaged.OwnerReferences = nil, nil
			_, err = w.user.Core.Secret().Update(damaged)
			must(w.T, err)
			w.pass(time.Minute)
			look()
			if string(w.secret("default-token").Data["token"]) != string(replaced.Data["token"]) {
				w.Errorf("killed after write %d: a repair replaces the token", n)
			}
			writes = w.api.Written(agent)
			w.pass(time.Minute) // restarts the controller if it was killed at the very end
			w.quiet(time.Hour)
			must(w.T, w.user.Management.ClusterRegistrationToken().Delete(id, "default-token", &metav1.DeleteOptions{}))
			w.pass(time.Minute)
			look()
		})
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
		}
		return writes
	})
}
