package rival

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// What is seen of Drovers that are programs of their own. A host that runs package server elects a leader by itself, and leaves nothing of this.
const (
	// DroverNamespace and DroverLease are those of the lease for which all replicas of all instances in a management cluster compete.
	DroverNamespace = "drover-system"
	DroverLease     = "drover"
	// ReplicaLabel is on the Lease that every replica renews, whether it leads or not, with the digest of its instance. It is stored.
	ReplicaLabel = "drover.io/replica-of"
)

// digestBytes are so many that no two instances have the same digest.
const digestBytes = 8

// Digest names an instance where its identifier, which may be any text, does not fit. It is stored.
func Digest(instanceID string) string {
	sum := sha256.Sum256([]byte(instanceID))
	return hex.EncodeToString(sum[:digestBytes])
}

// Holder is the name by which a replica holds the lease. The instance is in it, and in no label: so it goes with whoever takes the lease, an older Drover
// or a person, too. It is stored.
func Holder(host, replica, instanceID string) string {
	return host + "_" + replica + "_" + Digest(instanceID)
}

// InstanceOf is the digest of the instance that a holder of the lease is of, empty where the name does not say.
func InstanceOf(holder string) string {
	digest := holder[strings.LastIndexByte(holder, '_')+1:]
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != digestBytes || digest == holder {
		return ""
	}
	return digest
}

// Leader is who holds the lease of Drovers, empty when nobody does or it has run out. Who may not read it gets an error.
func Leader(ctx context.Context, client kubernetes.Interface, now time.Time) (holder string, err error) {
	if holder, err = holderOf(ctx, client, DroverNamespace, DroverLease, now); err != nil {
		return "", fmt.Errorf("read the lease that the leading Drover holds: %w", err)
	}
	return holder, nil
}

// Replica names the Lease of a replica of an instance that is alive, empty when none is. Who may not list them gets an error.
func Replica(ctx context.Context, client kubernetes.Interface, instanceID string, now time.Time) (string, error) {
	found, err := client.CoordinationV1().Leases(DroverNamespace).List(ctx, metav1.ListOptions{LabelSelector: ReplicaLabel + "=" + Digest(instanceID)})
	if err != nil {
		return "", fmt.Errorf("list the Leases of replicas of Drover: %w", err)
	}
	for i := range found.Items {
		if held(&found.Items[i], now) {
			return found.Items[i].Name, nil
		}
	}
	return "", nil
}
