package render_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// member is an etcd that reports its health and its peers like the real one.
type member struct {
	off, noQuorum, silent bool
	// known and active are numbers of peers. known is negative for versions of etcd that do not report it.
	known, active int
}

func (m member) start(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(m.handler())
	t.Cleanup(server.Close)
	if m.off {
		server.Close()
	}
	return server.URL
}

// startTLS is start for a member that answers only clients with the certificate that it puts on the node.
func (m member) startTLS(t *testing.T, node render.Node) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(m.handler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"etcd/client.crt": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"etcd/client.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		file := node.Dirs.ServerTLS(name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return server.URL
}

func (m member) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health" && m.noQuorum:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"health":"false","reason":"RAFT NO LEADER"}`)
		case r.URL.Path == "/health":
			fmt.Fprint(w, `{"health":"true","reason":""}`)
		case m.silent:
			w.WriteHeader(http.StatusNotFound)
		default:
			if m.known >= 0 {
				fmt.Fprint(w, "etcd_network_known_peers{Local=\"a\",Remote=\"a\"} 1\n")       // it knows itself as well
				fmt.Fprint(w, "etcd_network_known_peers{Local=\"a\",Remote=\"removed\"} 0\n") // and a former member
			}
			for i := range max(m.known, m.active) {
				up := 0
				if i < m.active {
					up = 1
				}
				fmt.Fprintf(w, "etcd_network_active_peers{Local=\"a\",Remote=\"%d\"} %d\n", i, up)
				if m.known >= 0 {
					fmt.Fprintf(w, "etcd_network_known_peers{Local=\"a\",Remote=\"%d\"} 1\n", i)
				}
			}
		}
	})
}

// unservedURL returns an address without a listener.
func unservedURL(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "https://" + listener.Addr().String()
}

// prove runs the proof of a plan on this machine, with one try, against a member in place of the node's own.
func prove(t *testing.T, p plan.NodePlan, metrics, client string) (ok bool, output string) {
	t.Helper()
	proof := p.Instructions[0]
	if proof.Name != render.EtcdProofInstruction {
		t.Fatalf("the plan starts with %s", proof.Name)
	}
	args := append([]string{}, proof.Args...)
	args[3], args[4], args[len(args)-1] = metrics, client, "1"
	out, err := exec.CommandContext(t.Context(), proof.Command, args...).CombinedOutput()
	return err == nil, string(out)
}

func TestEtcdProof_FailsWithoutEnoughHealthyMembers(t *testing.T) {
	t.Parallel()
	const enough = ""
	for name, tc := range map[string]struct {
		member member
		others int
		want   string
	}{
		"three healthy members": {member{known: 2, active: 2}, 2, enough},
		"one of three is stopped": {member{known: 2, active: 1}, 2,
			"connected to 1 of 2 other members, and needs 2"},
		"one of five is stopped": {member{known: 4, active: 3}, 4, enough},
		"two of five are stopped": {member{known: 4, active: 2}, 4,
			"connected to 2 of 4 other members, and needs 3"},
		"two healthy members": {member{known: 1, active: 1}, 1, enough},
		"one of two is stopped": {member{known: 1}, 1,
			"connected to 0 of 1 other members, and needs 1"},
		"a removed member is stopped": {member{known: 3, active: 2}, 2,
			"connected to 2 of 3 other members, and needs 3"},
		"a version without peer metrics": {member{known: -1, active: 2}, 2, enough},
		"a version without peer metrics, one stopped": {member{known: -1, active: 1}, 2,
			"connected to 1 of 2 other members, and needs 2"},
		"it has no quorum":   {member{known: 2, active: 2, noQuorum: true}, 2, "does not say on http://"},
		"it answers nothing": {member{silent: true}, 2, "does not tell how many members"},
		"it does not run: the restart removes no member": {member{off: true}, 2, enough},
		"three healthy members, one not listed":          {member{known: 2, active: 2}, 1, enough},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, _ := nodeIn(t)
			p := node.WithEtcdProof(plan.NodePlan{}, render.EtcdProof{Others: tc.others, Delivery: "1"})
			ok, out := prove(t, p, tc.member.start(t), unservedURL(t))
			if ok != (tc.want == enough) || !strings.Contains(out, tc.want) {
				t.Errorf("proven %v, output %q, want %q", ok, out, tc.want)
			}
		})
	}
}

// TestEtcdProof_AServingMemberIsNotStopped checks that a serving member with its health at another address does not
// count as stopped.
func TestEtcdProof_AServingMemberIsNotStopped(t *testing.T) {
	t.Parallel()
	node, _ := nodeIn(t)
	p := node.WithEtcdProof(plan.NodePlan{}, render.EtcdProof{Others: 2, Delivery: "1"})
	if ok, out := prove(t, p, strings.Replace(unservedURL(t), "https", "http", 1), member{}.start(t)); ok {
		t.Errorf("proven: %q", out)
	}
}

// TestEtcdProof_UsesTheCurrentHealthEndpoint checks a change of the metrics address in both directions. The change
// takes effect only with the restart that has to be proven.
func TestEtcdProof_UsesTheCurrentHealthEndpoint(t *testing.T) {
	t.Parallel()
	node, _ := nodeIn(t)
	node.Loopback = "127.0.0.1"
	with := func(urls string) plan.NodePlan {
		in := basicInput(distro.K3s, "init", func(in *render.Input) {
			if urls != "" {
				in.ControlPlane.Spec.MachineGlobalConfig.Data = map[string]any{
					"etcd-arg": []any{"listen-metrics-urls=" + urls}}
			}
		})
		return mustPlan(t, in)
	}
	const usual = "http://127.0.0.1:2381"
	for name, tc := range map[string]struct {
		before  []string
		desired string
		want    string
	}{
		"the default": {[]string{""}, "", usual},
		"the address was changed before": {[]string{"http://127.0.0.1:12381"}, "http://127.0.0.1:12381",
			"http://127.0.0.1:12381 " + usual},
		"the address is changed": {[]string{""}, "http://127.0.0.1:12381", "http://127.0.0.1:12381 " +
			usual},
		"the change is reverted": {[]string{"http://127.0.0.1:12381"}, "", "http://127.0.0.1:12381 " +
			usual},
		"the previous plan did not start": {[]string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, "",
			"http://127.0.0.1:1 http://127.0.0.1:2 " + usual},
		"several addresses, one of them external": {nil, "http://0.0.0.0:2381, https://10.0.0.1:3", usual +
			" https://10.0.0.1:3"},
		"an invalid address is ignored":     {nil, "http://127.0.0.1, unix:///x:1, http://a b:1,:2", usual},
		"an address of the other IP family": {nil, "http://[fd00::1]:5", "http://[fd00::1]:5 " + usual},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proof := render.EtcdProof{Others: 2, Delivery: "1"}
			for _, urls := range tc.before {
				proof.Before = append(proof.Before, with(urls))
			}
			args := node.WithEtcdProof(with(tc.desired), proof).Instructions[0].Args
			if diff := cmp.Diff(tc.want, args[3]); diff != "" {
				t.Errorf("URLs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEtcdProof_TheFirstAddressThatAnswersCounts checks that the first address that answers counts. It may be the
// address of the former plan or of the next one. It may also be the client address of a member whose metrics are
// elsewhere or behind a certificate.
func TestEtcdProof_TheFirstAddressThatAnswersCounts(t *testing.T) {
	t.Parallel()
	well, ill, nowhere := member{known: 2, active: 2}, member{known: 2, active: 1}, func(t *testing.T) string {
		return strings.Replace(unservedURL(t), "https", "http", 1)
	}
	for name, tc := range map[string]struct {
		metrics, client func(t *testing.T, node render.Node) string
		want            bool
	}{
		"the first address": {func(t *testing.T, _ render.Node) string {
			return well.start(t) + " " + nowhere(t)
		}, func(t *testing.T, _ render.Node) string { return unservedURL(t) }, true},
		"the second address": {func(t *testing.T, _ render.Node) string {
			return nowhere(t) + " " + well.start(t)
		}, func(t *testing.T, _ render.Node) string { return unservedURL(t) }, true},
		"the second address reports a failure": {func(t *testing.T, _ render.Node) string {
			return nowhere(t) + " " + ill.start(t)
		}, func(t *testing.T, _ render.Node) string { return unservedURL(t) }, false},
		"the serving address": {func(t *testing.T, _ render.Node) string { return nowhere(t) },
			well.startTLS, true},
		"the serving address reports a failure": {func(t *testing.T, _ render.Node) string { return nowhere(t) },
			ill.startTLS, false},
		"an address with TLS": {well.startTLS, func(t *testing.T, _ render.Node) string {
			return unservedURL(t)
		}, true},
		"no address, and etcd runs": {func(t *testing.T, _ render.Node) string { return nowhere(t) },
			func(t *testing.T, _ render.Node) string { return member{silent: true}.start(t) }, false},
		"no address, because etcd is stopped": {func(t *testing.T, _ render.Node) string {
			return nowhere(t) + " " + nowhere(t)
		}, func(t *testing.T, _ render.Node) string { return unservedURL(t) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, dir := nodeIn(t)
			node.Dirs.Data = dir
			p := node.WithEtcdProof(plan.NodePlan{}, render.EtcdProof{Others: 2, Delivery: "1"})
			if ok, out := prove(t, p, tc.metrics(t, node), tc.client(t, node)); ok != tc.want {
				t.Errorf("proven: %v, %s", ok, out)
			}
		})
	}
}

// TestEtcdProof_IsRequiredUntilThePlanIsApplied checks that the proof runs until the whole plan succeeded, and again
// for the next delivery. An agent that starts runs its plan again, which restarts nothing and needs no proof.
func TestEtcdProof_IsRequiredUntilThePlanIsApplied(t *testing.T) {
	t.Parallel()
	node, dir := nodeIn(t)
	deliver := func(delivery string) plan.NodePlan {
		return node.WithEtcdProof(plan.NodePlan{}, render.EtcdProof{Others: 2, Delivery: delivery})
	}
	well, ill := member{known: 2, active: 2}.start(t), member{known: 2, active: 1}.start(t)
	first := deliver("1")
	for _, step := range []struct {
		name   string
		plan   plan.NodePlan
		member string
		want   bool
	}{
		{"all are well", first, well, true},
		{"the plan failed after the proof, and one is ill by now", first, ill, false},
	} {
		if ok, out := prove(t, step.plan, step.member, unservedURL(t)); ok != step.want {
			t.Fatalf("%s: proven %v: %s", step.name, ok, out)
		}
	}
	if code := run(t, first.Instructions[len(first.Instructions)-1], ""); code != 0 {
		t.Fatalf("the record exits with %d", code)
	}
	if ok, out := prove(t, first, ill, unservedURL(t)); !ok {
		t.Errorf("an applied plan must be proven again: %s", out)
	}
	for _, delivery := range []string{"2", "1 again"} {
		if ok, _ := prove(t, deliver(delivery), ill, unservedURL(t)); ok {
			t.Errorf("delivery %q counts as proven", delivery)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "etcd-healthy*"))
	if err != nil || len(files) != 1 {
		t.Errorf("the node has %v, %v", files, err)
	}
}

// TestEtcdProof_ComesFirstAndIsNoChange checks that the plan without its proof equals the rendered plan, so that the
// proof is never a change.
func TestEtcdProof_ComesFirstAndIsNoChange(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.RKE2, "init", func(*render.Input) {})
	desired := mustPlan(t, in)
	proven := render.NodeOf(in).WithEtcdProof(desired, render.EtcdProof{Others: 2, Delivery: "1"})
	if err := nodeplan.Check(proven); err != nil {
		t.Error(err)
	}
	if render.HasEtcdProof(desired) || !render.HasEtcdProof(proven) ||
		proven.Instructions[0].Name != render.EtcdProofInstruction {
		t.Errorf("the plan starts with %s", proven.Instructions[0].Name)
	}
	if diff := cmp.Diff(desired, render.WithoutEtcdProof(proven)); diff != "" {
		t.Errorf("the plan without the proof (-want +got):\n%s", diff)
	}
	if len(proven.Instructions) != len(desired.Instructions)+2 || render.StampsOf(proven) != render.StampsOf(desired) {
		t.Error("the proof must not change the installation")
	}
}

// TestEtcdProofOf_MatchesTheScript checks that Needs equals the number that the node's script needs.
func TestEtcdProofOf_MatchesTheScript(t *testing.T) {
	t.Parallel()
	node, _ := nodeIn(t)
	for others := range 7 {
		p := node.WithEtcdProof(plan.NodePlan{}, render.EtcdProof{Others: others})
		proof := render.EtcdProofOf(p)
		if proof.Others != others {
			t.Fatalf("a proof with %d others is read as %+v", others, proof)
		}
		for active := range others + 1 {
			ok, output := prove(t, p, member{known: others, active: active}.start(t), unservedURL(t))
			if want := active >= proof.Needs(); ok != want {
				t.Errorf("%d of %d others: proven %t, want %t: %s", active, others, ok, want, output)
			}
		}
	}
	if got := render.EtcdProofOf(plan.NodePlan{}); got.Needs() != 0 {
		t.Errorf("a plan without a proof needs %d others", got.Needs())
	}
}
