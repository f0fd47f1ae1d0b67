package registration

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// DefaultHostsWithoutNode limits how many registered servers of a cluster, and how many other hosts, may have no node
// yet. Everyone with a cluster's token can generate identities, and each makes a dozen permanent objects. Without a
// limit, these would fill the datastore of all clusters. A rack that is switched on at once has fewer hosts. Servers
// are counted separately, because workers get no node before there are servers and must not keep servers out. Hosts
// that ask at the same time may exceed the limit by as many as are created before the caches show them.
const DefaultHostsWithoutNode = 100

// Purposes returns the labels that say what a ClusterRegistrationToken is for, as Serves reads them. A token with
// limits for hosts is for hosts only: as the agent of its cluster, its owner would get around the limits.
func Purposes(token *mgmtv3.ClusterRegistrationToken) map[string]string {
	purpose, says := token.Labels[mgmtv3.TokenPurposeLabel]
	switch {
	case says:
		return map[string]string{mgmtv3.TokenPurposeLabel: purpose}
	case len(token.Spec.Roles) > 0 || token.Spec.MaxHosts != nil:
		return map[string]string{mgmtv3.TokenPurposeLabel: mgmtv3.TokenPurposeNode}
	}
	return nil
}

// RequestToken returns the name of the ClusterRegistrationToken with which the host of a machine request registers. It
// is empty in requests of earlier releases.
func RequestToken(request *corev1.Secret) string {
	return string(request.Data[rkev1.MachineRequestTokenKey])
}

// RefusesHost returns why a ClusterRegistrationToken does not admit a host, "" if it does. machine is the Machine of a
// host that is already registered, otherwise nil. Its roles then count, whatever the host says: the token must not open
// a Machine that it could not have made.
func RefusesHost(token *mgmtv3.ClusterRegistrationToken, host *Host, machine *clusterv1.Machine) string {
	roles := host.roles()
	if machine != nil {
		roles = rolesOf(machine)
	}
	allowed := token.Spec.Roles
	foreign := func(role string) bool { return !slices.Contains(allowed, role) }
	if len(allowed) > 0 && slices.ContainsFunc(roles, foreign) {
		return fmt.Sprintf("the registration token %s admits only hosts with these roles: %s; this host has %s",
			token.Name, strings.Join(allowed, ", "), strings.Join(roles, ", "))
	}
	if !Admitted(token, host.ID) && len(token.Status.Hosts) >= int(*token.Spec.MaxHosts) {
		return fmt.Sprintf("the registration token %s is used up: it admits %d and has admitted as many; use another "+
			"token", token.Name, *token.Spec.MaxHosts)
	}
	return ""
}

// Admitted reports whether the admission of a host needs no record: the token has no limit for hosts, or its status
// has the host.
func Admitted(token *mgmtv3.ClusterRegistrationToken, id string) bool {
	digest := naming.SHA256(id)
	return token.Spec.MaxHosts == nil ||
		slices.ContainsFunc(token.Status.Hosts, func(h mgmtv3.AdmittedHost) bool { return h.IdentityDigest == digest })
}

// WithHost returns a token with the record that it has admitted a host.
func WithHost(token *mgmtv3.ClusterRegistrationToken, host *Host) *mgmtv3.ClusterRegistrationToken {
	next := token.DeepCopy()
	next.Status.Hosts = append(next.Status.Hosts, mgmtv3.AdmittedHost{MachineName: host.MachineName(),
		IdentityDigest: naming.SHA256(host.ID)})
	return next
}

// roles are the roles that the host asks for.
func (h *Host) roles() []string {
	return roleNames(h.Etcd, h.ControlPlane, h.Worker)
}

func rolesOf(machine *clusterv1.Machine) []string {
	has := func(label string) bool { return machine.Labels[label] == rkev1.RoleLabelValue }
	return roleNames(has(rkev1.EtcdRoleLabel), has(rkev1.ControlPlaneRoleLabel), has(rkev1.WorkerRoleLabel))
}

func roleNames(etcd, controlPlane, worker bool) []string {
	var roles []string
	for _, role := range []struct {
		name string
		has  bool
	}{{mgmtv3.HostRoleEtcd, etcd}, {mgmtv3.HostRoleControlPlane, controlPlane}, {mgmtv3.HostRoleWorker, worker}} {
		if role.has {
			roles = append(roles, role.name)
		}
	}
	return roles
}
