package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/connect"
)

// Limits bound what one machine, cluster, namespace or client may use of this replica. 0 means the default.
// (docs/security.md#limits.)
type Limits struct {
	// CachedSecretBytes is the size of the largest Secret of a user that Drover caches and reads. It excludes Secrets
	// that Drover writes.
	CachedSecretBytes int64
	// ClusterConnectRequests is the number of requests of one cluster's machines for their connection that run at the
	// same time.
	ClusterConnectRequests int64
	// ConnectRequests is the number of requests of all machines for their connection that run at the same time.
	ConnectRequests int64
	// Connections is the number of open connections to the endpoints for machines. "drover server" applies it; a
	// program that owns its listener does that itself.
	Connections int64
	// HostsWithoutNode is the number of registered servers of one cluster without a node, and of its other hosts.
	HostsWithoutNode int64
	// MachineWriteBytes is the size in bytes of the updates that each machine may send to its plan Secret in a second.
	MachineWriteBytes int64
	// MachineWrites is the number of updates that each machine may send to its plan Secret in a minute.
	MachineWrites int64
	// ProxyLongRequests is the number of long-running requests of users to one cluster: watches, exec, logs and
	// port-forwards. ProxyLongRequestsPerNamespace is the number for all clusters of a namespace.
	ProxyLongRequests, ProxyLongRequestsPerNamespace int64
	// ProxyRecheckSeconds is how long a long-running request may continue after its user lost the credential or the
	// permission.
	ProxyRecheckSeconds int64
	// ProxyRequests is the number of requests of users to clusters that run at the same time. It excludes long-running
	// requests. ProxyRequestsPerCluster and ProxyRequestsPerNamespace are the numbers for one cluster and for all
	// clusters of a namespace.
	ProxyRequests, ProxyRequestsPerCluster, ProxyRequestsPerNamespace int64
	// ProxyWaitingRequests is the number of requests to the clusters of a namespace that wait to run.
	ProxyWaitingRequests int64
	// UnreadBytes is what streams whose client stops reading may hold in this process: answers of clusters, and watches
	// of nodes.
	UnreadBytes int64
	// UnreadBytesPerNamespace is what such streams of the clusters of one namespace may hold.
	UnreadBytesPerNamespace int64
	// WaitingHosts is the number of machine requests of one cluster beyond which no new host may register.
	WaitingHosts int64
}

// Defaults of Limits.
const (
	DefaultConnections             = 10_000
	DefaultUnreadBytes             = 256 << 20
	DefaultUnreadBytesPerNamespace = 32 << 20
)

// Limit describes one field of Limits.
type Limit struct {
	// Name is the name in --limits, in lower case with dashes.
	Name string
	// Default is the value of a Limits without the field.
	Default int64
	value   *int64
}

// Value is the value in effect.
func (l Limit) Value() int64 {
	if *l.value == 0 {
		return l.Default
	}
	return *l.value
}

// All describes all fields, sorted by name.
func (l *Limits) All() []Limit {
	return []Limit{
		{"cached-secret-bytes", clients.DefaultSecretBytes, &l.CachedSecretBytes},
		{"cluster-connect-requests", connect.DefaultMaxClusterConnecting, &l.ClusterConnectRequests},
		{"connect-requests", connect.DefaultMaxConnecting, &l.ConnectRequests},
		{"connections", DefaultConnections, &l.Connections},
		{"hosts-without-node", registration.DefaultHostsWithoutNode, &l.HostsWithoutNode},
		{"machine-write-bytes", connect.DefaultMachineWriteBytes, &l.MachineWriteBytes},
		{"machine-writes", connect.DefaultMachineWrites, &l.MachineWrites},
		{"proxy-long-requests", clusterproxy.DefaultMaxLongRunning, &l.ProxyLongRequests},
		{"proxy-long-requests-per-namespace", clusterproxy.DefaultMaxLongRunningPerNamespace,
			&l.ProxyLongRequestsPerNamespace},
		{"proxy-recheck-seconds", int64(clusterproxy.DefaultRecheck / time.Second), &l.ProxyRecheckSeconds},
		{"proxy-requests", clusterproxy.DefaultMaxInFlight, &l.ProxyRequests},
		{"proxy-requests-per-cluster", clusterproxy.DefaultMaxInFlightPerCluster, &l.ProxyRequestsPerCluster},
		{"proxy-requests-per-namespace", clusterproxy.DefaultMaxInFlightPerNamespace, &l.ProxyRequestsPerNamespace},
		{"proxy-waiting-requests", clusterproxy.DefaultMaxWaitingPerNamespace, &l.ProxyWaitingRequests},
		{"unread-bytes", DefaultUnreadBytes, &l.UnreadBytes},
		{"unread-bytes-per-namespace", DefaultUnreadBytesPerNamespace, &l.UnreadBytesPerNamespace},
		{"waiting-hosts", connect.DefaultMaxWaitingHosts, &l.WaitingHosts},
	}
}

// Set sets a limit by its name. The value is a number of at least 1, such as 400, 64Ki or 2Mi.
func (l *Limits) Set(name, value string) error {
	all := l.All()
	i := slices.IndexFunc(all, func(each Limit) bool { return each.Name == name })
	if i < 0 {
		var names []string
		for _, each := range all {
			names = append(names, each.Name)
		}
		return fmt.Errorf("%q is no limit; use one of %s", name, strings.Join(names, ", "))
	}
	quantity, err := resource.ParseQuantity(value)
	number, whole := quantity.AsInt64()
	if err != nil || !whole || number < 1 {
		return fmt.Errorf("limit %s must be a whole number of at least 1, such as 400, 64Ki or 2Mi, not %q", name,
			value)
	}
	*all[i].value = number
	return nil
}

// complete replaces zeros by defaults.
func (l *Limits) complete() {
	for _, each := range l.All() {
		*each.value = each.Value()
	}
}

// ofProxy sets the limits in the options of the proxy for users.
func (l *Limits) ofProxy(o clusterproxy.Options) clusterproxy.Options {
	o.MaxInFlight, o.MaxInFlightPerNamespace = int(l.ProxyRequests), int(l.ProxyRequestsPerNamespace)
	o.MaxInFlightPerCluster, o.MaxWaitingPerNamespace = int(l.ProxyRequestsPerCluster), int(l.ProxyWaitingRequests)
	o.MaxLongRunning, o.MaxLongRunningPerNamespace = int(l.ProxyLongRequests), int(l.ProxyLongRequestsPerNamespace)
	o.Recheck = time.Duration(l.ProxyRecheckSeconds) * time.Second
	return o
}
