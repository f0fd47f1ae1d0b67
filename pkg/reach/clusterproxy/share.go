package clusterproxy

import (
	"math"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// visitor is what a request counts for: a tenant, one of its clusters, and a caller.
type visitor struct{ namespace, cluster, caller string }

// shares are maximums of one namespace, of one of its clusters, and of one caller in that cluster.
type shares struct{ namespace, cluster, caller int }

// unlimited replaces negative maximums. Sums and multiples of it are valid numbers.
const unlimited = math.MaxInt32

// atMost is the maximum that an option sets. Negative values mean unlimited.
func atMost(limit int) int {
	if limit < 0 {
		return unlimited
	}
	return min(limit, unlimited)
}

// party is one of the visitor's parts: everything, the namespace, the cluster or the caller.
type party struct {
	depth int
	visitor
}

func (v visitor) parties() [4]party {
	return [4]party{{}, {1, visitor{namespace: v.namespace}}, {2, visitor{v.namespace, v.cluster, ""}}, {3, v}}
}

// counts are numbers of requests of each party.
type counts map[party]int

func (c counts) add(who visitor, change int) {
	for _, each := range who.parties() {
		if c[each] += change; c[each] == 0 {
			delete(c, each)
		}
	}
}

// below reports whether each part of a visitor has fewer requests than its maximum.
func (c counts) below(who visitor, most shares) bool {
	parties := who.parties()
	return c[parties[1]] < most.namespace && c[parties[2]] < most.cluster && c[parties[3]] < most.caller
}

// leavesRoom reports whether a visitor may have one request more. A namespace gets it only while more slots are free
// than the namespace has. The same holds for a cluster within the slots that its namespace can have, and for a caller
// within those of the cluster. So neither a few namespaces nor a few callers of one namespace take all slots.
func (c counts) leavesRoom(who visitor, slots int, most shares) bool {
	parties := who.parties()
	room := slots - c[parties[0]]
	for i, limit := range [...]int{most.namespace, most.cluster, most.caller} {
		has := c[parties[i+1]]
		if has >= min(room, limit) {
			return false
		}
		// Each further slot makes one more that it has, and one fewer that is free.
		room = min(limit-has, (room-has+1)/2)
	}
	return true
}

// tenantOf is the party that answers for a caller: the service accounts of its namespace, or the user.
func tenantOf(caller string) string {
	if namespace, _, err := serviceaccount.SplitUsername(caller); err == nil {
		return serviceaccount.ServiceAccountGroupPrefix + namespace
	}
	return caller
}
