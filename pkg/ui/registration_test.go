package ui

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	registrationPath = "/ui/api/v1/namespaces/team-a/clusters/demo/registration?"
	nodeCommand      = "curl -fL https://drover.example.com/system-agent-install.sh | sudo sh -s - --token secret"
)

func TestRegistration_HasTheOptions(t *testing.T) {
	demo, young, imported := cluster("team-a", "demo"), cluster("team-a", "young"), cluster("team-a", "imported")
	demo.Status.ClusterName, young.Status.ClusterName = "team-b", "drover-system" // namespaces that exist
	imported.Spec.RKEConfig = nil
	f := newFakeAPI(t, demo, young, imported, secretObject("team-b", "crt-token-default-token", map[string]string{
		"token": "secret", "nodeCommand": nodeCommand, "insecureNodeCommand": "in" + nodeCommand,
		"expiresAt": "2026-09-01T12:00:00Z"}))
	p := signedIn(t, f)
	query := url.Values{"roles": {"etcd,worker"}, "labels": {"disk=ssd", "rack=7"}, "taints": {"k=v:NoSchedule"},
		"address": {"10.0.0.1"}, "internalAddress": {"eth0"}, "nodeName": {"n1"}}
	recorder := p.get(registrationPath + query.Encode())
	got := decode[registrationBody](t, recorder)
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	const arguments = " --etcd --worker --node-name n1 --address 10.0.0.1 --internal-address eth0 --label 'disk=ssd' " +
		"--label 'rack=7' --taint 'k=v:NoSchedule'"
	want := registrationBody{nodeCommand + arguments, "in" + nodeCommand + arguments, &at}
	if diff := cmp.Diff(want, got); diff != "" || recorder.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v (-want +got):\n%s", recorder.Header(), diff)
	}
	query = url.Values{"labels": {"a"}, "taints": {"k=v:Never"}, "address": {"$(id)"}, "nodeName": {"A_"}}
	fields := problemsOf(t, p.get(registrationPath+query.Encode()))
	if diff := cmp.Diff([]string{"address", "labels[0]", "nodeName", "roles", "taints[0]"}, fields); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, name := range []string{"young", "imported", "absent"} {
		wants(t, p.get(strings.Replace(registrationPath, "demo", name, 1)+"roles=worker"), http.StatusNotFound,
			reasonNotFound)
	}
	f.forbid("ann", "team-b")
	wants(t, p.get(registrationPath+"roles=worker"), http.StatusForbidden, reasonForbidden)
}
