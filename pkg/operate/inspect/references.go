package inspect

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/admission/registration"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// references checks the Secrets of other namespaces that a cluster names. The server uses such a Secret only if it is
// offered to the cluster, or if its author may get it. The adopting user becomes the author, if admission can record
// that.
func (r *Reader) references(ctx context.Context, out *Adoption, cluster *provv1.Cluster) error {
	if out.Owner == OwnerSame {
		return nil
	}
	open, err := r.ungranted(out, cluster)
	if err != nil || len(open) == 0 || len(out.Problems) > 0 {
		return err
	}
	_, err = r.clients.Kubernetes.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, registration.Name,
		metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		for _, ref := range open {
			out.Problems = append(out.Problems,
				fmt.Sprintf(
					"%s: Secret %s is in another namespace, and Drover's admission webhooks, which record your "+
						"permission to get it, are missing: "+
						"install them, or offer the Secret to the cluster: kubectl -n %s annotate secret %s %s=%s/%s",
					ref.Field, ref, ref.Namespace, ref.Name,
					rkev1.AuthorizedObjectAnnotation, cluster.Namespace, cluster.Name))
		}
		return nil
	case err != nil && !apierrors.IsForbidden(err):
		return fmt.Errorf("read whether the admission webhooks of Drover are installed: %w", err)
	}
	out.Renew = true
	for _, ref := range open {
		out.Notes = append(out.Notes,
			fmt.Sprintf(
				"the user that adopts the cluster becomes the author of %s: the cluster may use Secret %s while "+
					"that user may get it", ref.Field, ref))
	}
	return nil
}

// ungranted lists the references to Secrets that are not offered to the cluster. A Secret that the user may not get is
// a problem.
func (r *Reader) ungranted(out *Adoption, cluster *provv1.Cluster) ([]tenancy.Reference, error) {
	own := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	var open []tenancy.Reference
	for _, ref := range tenancy.References(cluster) {
		secret, err := r.plans.Secrets.Cache().Get(ref.Namespace, ref.Name)
		switch {
		case apierrors.IsForbidden(err):
			out.Problems = append(out.Problems,
				fmt.Sprintf(
					"%s: you may not get Secret %s, and the cluster uses it with the permission of the user that "+
						"adopts it: "+
						"ask a user with that permission to adopt the cluster", ref.Field, ref))
			continue
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read Secret %s: %w", ref, err)
		case tenancy.Offered(secret.Annotations, own):
			continue
		}
		open = append(open, ref)
	}
	return open, nil
}

// latestMachine returns the latest resource version of the inspected Machines.
func (r *Reader) latestMachine() (string, error) {
	machines, err := r.plans.Machines.Cache().List(r.namespace, labels.Everything())
	if err != nil {
		return "", fmt.Errorf("list machines: %w", err)
	}
	versions := make([]string, 0, len(machines))
	for _, machine := range machines {
		versions = append(versions, machine.ResourceVersion)
	}
	return planstore.Latest(versions...), nil
}

// UnderWay lists work that began in a cluster and that its manager must end.
func (r *Reader) UnderWay(name string) ([]string, error) {
	controlPlane, err := r.controlPlane(name)
	if err != nil || controlPlane == nil {
		return nil, err
	}
	snapshot, err := r.planner.Snapshot(controlPlane)
	if err != nil {
		return nil, err
	}
	return planner.UnderWay(snapshot), nil
}
