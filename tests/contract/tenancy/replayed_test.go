package tenancy

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
)

// replayed: bob has the right to a credential, and bob's cluster got a grant. carol lacks the right and restores the
// text of the grant. A user with the right renews it.
func (w *world) replayed(bob client.Client) {
	ctx := w.Context()
	carol := tenant(w.T, w.st, "carol", w.b)
	const reference = "cattle-global-data:cc-bob"
	edit := func(user client.Client, change func(*provv1.Cluster)) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			cluster := w.cluster(w.b, "replay")
			change(cluster)
			return user.Update(ctx, cluster)
		})
	}
	grants := func() string { return w.cluster(w.b, "replay").Annotations[rkev1.GrantsAnnotation] }
	// Its machine config is missing, so no machine is created.
	check(w.T, bob.Create(ctx, naming(w.b, "replay", func(c *provv1.Cluster) {
		c.Spec.CloudCredentialSecretName = reference
	})))
	kept := grants()
	plane.Until(w.T, time.Minute, func() string { // what follows concerns a cluster that Drover manages
		if c := w.cluster(w.b, "replay"); c.Annotations[rkev1.InstanceAnnotation] == "" || len(c.Finalizers) == 0 {
			return "Drover has not claimed the cluster"
		}
		return ""
	})
	instance := w.cluster(w.b, "replay").Annotations[rkev1.InstanceAnnotation]
	check(w.T, edit(bob, func(c *provv1.Cluster) { c.Spec.CloudCredentialSecretName = "" }))
	if gone := grants(); !strings.Contains(kept, `"bob"`) || gone != "" {
		w.Errorf("granted %q, and without the reference %q", kept, gone)
	}
	plane.Until(w.T, time.Minute, func() string {
		if err := edit(carol, func(c *provv1.Cluster) { c.Labels = map[string]string{"of": "carol"} }); err != nil {
			return err.Error() // the API server's cache of rights may lag
		}
		return ""
	})
	w.door("restore a grant with its reference, when the cluster is given away", func() error {
		if err := edit(carol, func(c *provv1.Cluster) {
			c.Annotations = map[string]string{rkev1.InstanceAnnotation: "x", rkev1.GrantsAnnotation: kept}
			c.Spec.CloudCredentialSecretName = reference
		}); err != nil {
			return err
		}
		if grants() == "" {
			return shut("the grant is removed")
		}
		return nil
	})
	w.door("then take the cluster back with the grant", func() error {
		if err := edit(carol, func(c *provv1.Cluster) {
			c.Annotations = map[string]string{rkev1.InstanceAnnotation: instance, rkev1.GrantsAnnotation: kept}
		}); err != nil {
			return err
		}
		if grants() == "" {
			return shut("the grant is removed")
		}
		return nil
	})
	for _, tc := range []struct {
		user client.Client
		want string
	}{{carol, ""}, {bob, kept}} {
		check(w.T, edit(tc.user, func(c *provv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, rkev1.GrantsAnnotation, rkev1.GrantsRenew)
		}))
		if got := grants(); got != tc.want {
			w.Errorf("renewed: %q, want %q", got, tc.want)
		}
	}
	check(w.T, w.st.Client.Delete(ctx, naming(w.b, "replay")))
	plane.Until(w.T, time.Minute, func() string { return w.st.Gone(naming(w.b, "replay")) })
	w.door("restore the cluster and its grant, as from another management cluster", func() error {
		if err := carol.Create(ctx, naming(w.b, "replay", func(c *provv1.Cluster) {
			c.Annotations = map[string]string{rkev1.ReleasedByAnnotation: "x", rkev1.GrantsAnnotation: kept,
				provv1.CreatorIDAnnotation: "bob"}
			c.Spec.CloudCredentialSecretName = reference
		})); err != nil {
			return err
		}
		if grants() == "" && w.cluster(w.b, "replay").Annotations[provv1.CreatorIDAnnotation] == "carol" {
			return shut("the grant is removed, and carol is its creator")
		}
		return nil
	})
	check(w.T, w.st.Client.Delete(ctx, naming(w.b, "replay")))
}
