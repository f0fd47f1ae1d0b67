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

// Rival says who is seen alive that would manage the cluster beside us, or keep us from managing it; empty when nobody is. Rancher is looked for whoever has
// had the cluster, for it manages every one that it finds; and so is an instance of Drover that leads, for no other one then acts. A user who may not look
// gets an error.
func Rival(ctx context.Context, client kubernetes.Interface, a inspect.Adoption, now time.Time) (string, error) {
	if a.Owner == inspect.OwnerSame {
		return "", nil
	}
	because, err := rival.Rancher(ctx, client, now)
	if err != nil {
		return "", err
	}
	if because != "" {
		return "Rancher is running: " + because + ". Switch it off (" + rival.SwitchOff + "), and try again in a minute", nil
	}
	if leads, err := otherLeads(ctx, client, a, now); err != nil || leads != "" || a.Owner != inspect.OwnerOther {
		return leads, err
	}
	lease, err := rival.Replica(ctx, client, a.Mark, now)
	if err != nil || lease == "" {
		return "", err
	}
	return fmt.Sprintf("instance %q of Drover, which has the cluster, runs here: one of its replicas renews lease %s/%s. Stop it, and try again in a minute, or have it let go of the cluster "+
		"(drover adopt --release)", a.Mark, rival.DroverNamespace, lease), nil
}

// otherLeads says that another instance leads than the one that is to have the cluster: released or not, nobody would manage it. Of what a host elects
// there is no lease.
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
	return fmt.Sprintf("%s leads here (%s holds lease %s/%s), and only one does in a management cluster: nobody would manage the cluster. Stop that one, start instance %q, "+
		"and try again once that leads", name, holder, rival.DroverNamespace, rival.DroverLease, a.Instance), nil
}
