package registration_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
)

func limited(roles []string, maxHosts int32, admitted ...string) *mgmtv3.ClusterRegistrationToken {
	token := &mgmtv3.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Name: "edge"},
		Spec: mgmtv3.ClusterRegistrationTokenSpec{Roles: roles}}
	if maxHosts > 0 {
		token.Spec.MaxHosts = &maxHosts
	}
	for _, id := range admitted {
		token = registration.WithHost(token, &registration.Host{ID: id})
	}
	return token
}

func TestRefusesHost(t *testing.T) {
	t.Parallel()
	server := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		rkev1.EtcdRoleLabel: "true", rkev1.ControlPlaneRoleLabel: "true"}}}
	const roles = "the registration token edge admits only hosts with these roles: worker; this host has "
	worker := []string{mgmtv3.HostRoleWorker}
	for name, tt := range map[string]struct {
		token   *mgmtv3.ClusterRegistrationToken
		host    registration.Host
		machine *clusterv1.Machine
		want    string
	}{
		"a token without limits admits each host": {token: limited(nil, 0), host: registration.Host{Etcd: true}},
		"a token for workers admits a worker":     {token: limited(worker, 0), host: registration.Host{Worker: true}},
		"a token for workers refuses a server": {token: limited(worker, 0),
			host: registration.Host{Etcd: true, ControlPlane: true, Worker: true},
			want: roles + "etcd, control-plane, worker"},
		"a token for workers does not open the Machine of a server": {token: limited(worker, 0),
			host: registration.Host{Worker: true}, machine: server, want: roles + "etcd, control-plane"},
		"a token for servers admits a host with fewer roles": {
			token: limited([]string{mgmtv3.HostRoleEtcd, mgmtv3.HostRoleControlPlane}, 0),
			host:  registration.Host{Etcd: true}},
		"a token for one host admits the first host": {token: limited(nil, 1), host: registration.Host{ID: "a"}},
		"a token for one host admits its host again": {token: limited(nil, 1, "a"), host: registration.Host{ID: "a"}},
		"a token for one host refuses a second host": {token: limited(nil, 1, "a"), host: registration.Host{ID: "b"},
			want: "the registration token edge is used up: it admits 1 and has admitted as many; use another token"},
		"a token for one host does not open the Machine of another host": {token: limited(nil, 1, "a"),
			host: registration.Host{ID: "b"}, machine: server,
			want: "the registration token edge is used up: it admits 1 and has admitted as many; use another token"},
		"a token for two hosts admits a second host": {token: limited(nil, 2, "a"), host: registration.Host{ID: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := registration.RefusesHost(tt.token, &tt.host, tt.machine); got != tt.want {
				t.Errorf("the refusal is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAdmitted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		token *mgmtv3.ClusterRegistrationToken
		want  bool
	}{
		"a token without a limit needs no record": {limited(nil, 0), true},
		"a new host needs a record":               {limited(nil, 2, "b"), false},
		"a recorded host needs no other record":   {limited(nil, 2, "a"), true},
	} {
		if got := registration.Admitted(tt.token, "a"); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	before := limited(nil, 2, "a")
	kept := before.DeepCopy()
	after := registration.WithHost(before, &registration.Host{ID: "b"})
	want := []mgmtv3.AdmittedHost{{MachineName: "custom-ca978112ca1b",
		IdentityDigest: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
		{MachineName: "custom-3e23e8160039",
			IdentityDigest: "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"}}
	if diff := cmp.Diff(want, after.Status.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(kept, before); diff != "" {
		t.Errorf("the cached token changed (-want +got):\n%s", diff)
	}
}

func TestPurposes_OfALimitedTokenAreHosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		token       *mgmtv3.ClusterRegistrationToken
		agent, node bool
	}{
		"a token without limits is for both": {limited(nil, 0), true, true},
		"a token with roles is for hosts":    {limited([]string{mgmtv3.HostRoleWorker}, 0), false, true},
		"a token for one host is for hosts":  {limited(nil, 1), false, true},
	} {
		labels := registration.Purposes(tt.token)
		if agent, node := registration.Serves(labels, registration.ForAgent),
			registration.Serves(labels, registration.ForNode); agent != tt.agent || node != tt.node {
			t.Errorf("%s: agent %v, node %v", name, agent, node)
		}
	}
}
