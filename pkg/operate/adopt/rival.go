package adopt

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// Rival describes a live manager that would also manage the cluster or prevent this instance from managing it. It
// returns an empty string if there is none. Rival always looks for Rancher, which manages every cluster that it finds.
// It also looks for another leading Drover, because only the leader acts. It returns an error if the user lacks the
// permission to read.
func Rival(ctx context.Context, client kubernetes.Interface, a inspect.Adoption, now time.Time) (string, error) {
	if a.Owner == inspect.OwnerSame {
		return "", nil
	}
	because, err := rival.Rancher(ctx, client, now)
	if err != nil {
		return "", err
	}
	if because != "" {
		return "Rancher is running: " + because + ". Switch it off (" + rival.SwitchOff +
			"), and try again in a minute", nil
	}
	if leads, err := otherLeads(ctx, client, a, now); err != nil || leads != "" || a.Owner != inspect.OwnerOther {
		return leads, err
	}
	lease, err := rival.Replica(ctx, client, a.Mark, now)
	if err != nil || lease == "" {
		return "", err
	}
	return fmt.Sprintf(
		"instance %q of Drover, which has the cluster, runs here: one of its replicas renews lease %s/%s. "+
			"Stop it, and try again in a minute, or release the cluster (drover adopt --release)", a.Mark,
		rival.DroverNamespace, lease), nil
}

// otherLeads reports that an instance other than the adopting one leads. Then the adopting instance would not manage
// the cluster, released or not. A host that elects its own leader has no lease here.
func otherLeads(ctx context.Context, client kubernetes.Interface, a inspect.Adoption, now time.Time) (string, error) {
	holder, err := rival.Leader(ctx, client, now)
	leads := rival.InstanceOf(holder)
	if err != nil || leads == "" || leads == rival.Digest(a.Instance) {
		return "", err
	}
	name := "an instance of Drover with the digest " + leads
	if known := controllers.InstanceWithDigest(ctx, client, leads); known != "" {
		name = fmt.Sprintf("instance %q of Drover", known)
	}
	return fmt.Sprintf("%s leads here (%s holds lease %s/%s), and only the leader manages clusters: "+
		"no Drover would manage the cluster. Stop that instance, start instance %q, "+
		"and try again once instance %[5]q leads",
		name, holder, rival.DroverNamespace, rival.DroverLease, a.Instance), nil
}
