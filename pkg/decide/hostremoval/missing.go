package hostremoval

import (
	"fmt"
	"slices"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ParseAfter reads the value of rkev1.DeleteMissingCustomMachinesAfterAnnotation. An empty value is zero: hosts that
// are away are kept. The error names the value and the remedy.
func ParseAfter(value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	after, err := time.ParseDuration(value)
	if err != nil || after <= 0 {
		return 0, fmt.Errorf("%q must be a positive duration such as 24h or 90m", value)
	}
	return after, nil
}

// Member is another machine of a host's cluster.
type Member struct {
	// Etcd and ControlPlane are its roles.
	Etcd, ControlPlane bool
	// Deleting means that its Machine is being deleted.
	Deleting bool
	// EtcdServes means that its etcd member is known to work. NodeSeen means that its node answers.
	EtcdServes, NodeSeen bool
}

// Missing holds the facts about a registered host that may be away.
type Missing struct {
	// After is how long a host may be away; zero means forever.
	After time.Duration
	// Etcd and ControlPlane are the host's roles. Deleting means that its Machine is being deleted.
	Etcd, ControlPlane, Deleting bool
	// AwaySince is since when the host's node is silent or gone, counting only time in which Drover could reach the
	// cluster. It is zero for a node that answers, and for a host that never had a node.
	AwaySince time.Time
	// Reachable means that Drover is connected to the cluster now.
	Reachable bool
	// Others are the other machines of the cluster.
	Others []Member
	Now    time.Time
}

// recheck is the time between two looks at a missing host whose cluster cannot lose it yet.
const recheck = time.Minute

// Decide reports whether the host's Machine may be deleted. The caller must still ask the cluster for the node, because
// the facts may be old. Otherwise again is the time until the next look; zero means that only events matter.
//
// A host is not missing when Drover cannot see it. And the cluster must work without it: a control plane answers, and
// the etcd members that work are a majority with this host still counted.
func (m *Missing) Decide() (isMissing bool, again time.Duration) {
	if m.After <= 0 || m.Deleting || !m.Reachable || m.AwaySince.IsZero() {
		return false, 0
	}
	if left := m.AwaySince.Add(m.After).Sub(m.Now); left > 0 {
		return false, left
	}
	if !m.canLose() {
		return false, recheck
	}
	return true, 0
}

func (m *Missing) canLose() bool {
	answers := slices.ContainsFunc(m.Others, func(o Member) bool {
		return o.ControlPlane && !o.Deleting && o.NodeSeen
	})
	if !answers {
		return false
	}
	if !m.Etcd {
		return true
	}
	members, working := 1, 0
	for _, o := range m.Others {
		if !o.Etcd {
			continue
		}
		members++
		switch {
		case o.Deleting:
			return false // one member leaves at a time
		case o.EtcdServes && o.NodeSeen:
			working++
		}
	}
	return 2*working > members
}

// WasMissing reports whether a host whose Machine is deleted now had been away for longer than the annotation on its
// Cluster allows.
func WasMissing(annotations map[string]string, awaySince, deletedAt time.Time) bool {
	after, err := ParseAfter(annotations[rkev1.DeleteMissingCustomMachinesAfterAnnotation])
	return err == nil && after > 0 && !awaySince.IsZero() && !deletedAt.Before(awaySince.Add(after))
}
