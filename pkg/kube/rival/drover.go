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

// Signs of Drovers that run as programs. A host of package server elects its own leader and leaves none of them.
const (
	// DroverNamespace and DroverLease name the lease of the leader. All replicas of all instances in a management
	// cluster compete for it.
	DroverNamespace = "drover-system"
	DroverLease     = "drover"
	// ReplicaLabel is the label of the Lease that every replica renews, leader or not. Its value is the digest of the
	// instance. It is stored.
	ReplicaLabel = "drover.io/replica-of"
)

// digestBytes is the length of a digest. It makes collisions between instances practically impossible.
const digestBytes = 8

// Digest names an instance where its identifier, which may be any text, does not fit. It is stored.
func Digest(instanceID string) string {
	sum := sha256.Sum256([]byte(instanceID))
	return hex.EncodeToString(sum[:digestBytes])
}

// Holder returns the holder identity of a replica. It contains the instance instead of a label, so that it disappears
// when another holder takes the lease, such as an older Drover or a user. It is stored.
func Holder(host, replica, instanceID string) string {
	return host + "_" + replica + "_" + Digest(instanceID)
}

// InstanceOf returns the digest of the instance in a holder identity, or "" if it has none.
func InstanceOf(holder string) string {
	digest := holder[strings.LastIndexByte(holder, '_')+1:]
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != digestBytes || digest == holder {
		return ""
	}
	return digest
}

// Leader returns the holder of Drover's lease, or "" if it has none or has expired. It fails if the user may not read
// the lease.
func Leader(ctx context.Context, client kubernetes.Interface, now time.Time) (holder string, err error) {
	if holder, err = holderOf(ctx, client, DroverNamespace, DroverLease, now); err != nil {
		return "", fmt.Errorf("read the lease that the leading Drover holds: %w", err)
	}
	return holder, nil
}

// Replica returns the name of a live replica's Lease for an instance, or "" if there is none. It fails if the user may
// not list the Leases.
func Replica(ctx context.Context, client kubernetes.Interface, instanceID string, now time.Time) (string, error) {
	found, err := client.CoordinationV1().Leases(DroverNamespace).List(ctx,
		metav1.ListOptions{LabelSelector: ReplicaLabel + "=" + Digest(instanceID)})
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
