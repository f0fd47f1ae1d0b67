package cmd

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// noServers is a server without a list.
func noServers(context.Context, *rest.Config, proxy.Proxied) (map[string]*clientcmdapi.Cluster, error) {
	return nil, errors.New("not found")
}

// TestServersIn: only addresses and authorities are read from a server's answer.
func TestServersIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   map[string]*clientcmdapi.Cluster
		err    string // "" for none
	}{
		"servers": {
			answer: `{"kind":"Config","apiVersion":"v1","clusters":[{"name":"a","cluster":{"server":"https://192.0.2.1:6443","certificate-authority-data":"Y2E="}},` +
				`{"name":"b.example.com","cluster":{"server":"https://[2001:db8::1]:6443","certificate-authority-data":"Y2E="}}]}`,
			want: map[string]*clientcmdapi.Cluster{
				"a":             {Server: "https://192.0.2.1:6443", CertificateAuthorityData: []byte("ca")},
				"b.example.com": {Server: "https://[2001:db8::1]:6443", CertificateAuthorityData: []byte("ca")},
			},
		},
		"none": {answer: `{"kind":"Config","apiVersion":"v1","clusters":[]}`, want: map[string]*clientcmdapi.Cluster{}},
		"more than requested": {
			answer: `{"kind":"Config","apiVersion":"v1","clusters":[{"name":"a","cluster":{"server":"https://a","certificate-authority-data":"Y2E=","certificate-authority":"/etc/shadow",` +
				`"proxy-url":"http://elsewhere","insecure-skip-tls-verify":true}}],"users":[{"name":"a","user":{"exec":{"command":"rm","apiVersion":"client.authentication.k8s.io/v1"}}}]}`,
			want: map[string]*clientcmdapi.Cluster{"a": {Server: "https://a", CertificateAuthorityData: []byte("ca")}},
		},
		"without TLS": {
			answer: `{"kind":"Config","clusters":[{"name":"a","cluster":{"server":"http://a","certificate-authority-data":"Y2E="}}]}`, err: `"a" at "http://a"`},
		"without authorities": {answer: `{"kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://a"}}]}`,
			err: "invalid server"},
		"an invalid node name": {
			answer: `{"kind":"Config","clusters":[{"name":"../a","cluster":{"server":"https://a","certificate-authority-data":"Y2E="}}]}`, err: "invalid server"},
		"a path": {
			answer: `{"kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://a/b","certificate-authority-data":"Y2E="}}]}`, err: "invalid server"},
		"a login page":   {answer: `<html>`, err: "is not a kubeconfig"},
		"nothing":        {answer: ``, err: "is not a kubeconfig"},
		"another object": {answer: `{}`, err: "is not a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := serversIn([]byte(c.answer))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("servers %v, error %v, want %q", got, err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestEndpointServers_UsesTheUsersCredential(t *testing.T) {
	t.Parallel()
	var asked string
	code := http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")
		w.WriteHeader(code)
		if code != http.StatusOK {
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Message: "the reason"})
			return
		}
		_, _ = io.WriteString(w,
			`{"kind":"Config","apiVersion":"v1","clusters":[{"name":"a","cluster":{"server":"https://a","certificate-authority-data":"Y2E="}}]}`)
	}))
	t.Cleanup(server.Close)
	way := proxy.Proxied{ID: "c-m-2", Server: server.URL + "/",
		Authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	got, err := endpointServers(t.Context(), &rest.Config{BearerToken: "mine"}, way)
	if want := "GET /k8s/endpoints/c-m-2 Bearer mine"; err != nil || len(got) != 1 || asked != want {
		t.Errorf("servers %v, error %v, request %q, want %q", got, err, asked, want)
	}
	code = http.StatusServiceUnavailable
	if _, err = endpointServers(t.Context(), &rest.Config{BearerToken: "mine"}, way); err == nil ||
		err.Error() != "the server answers with 503: the reason" {
		t.Errorf("error %v", err)
	}
}

// TestKubeconfig_SingleServers: each server of an authorized endpoint has a context, with a token that is valid only
// for that cluster. If the list fails, the other contexts are written and the reason is printed.
func TestKubeconfig_SingleServers(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/config")
	for name, c := range map[string]struct {
		endpoint rkev1.LocalClusterAuthEndpoint
		err      error
		// management is the context of the management cluster.
		management string
		want       map[string]string
		told       string
	}{
		"two servers": {
			endpoint: rkev1.LocalClusterAuthEndpoint{Enabled: true},
			want: map[string]string{"demo-a": "https://a theirs --cluster=fleet-default/lb",
				"demo-b": "https://b theirs --cluster=fleet-default/lb"},
		},
		"servers and a load balancer": {
			endpoint: rkev1.LocalClusterAuthEndpoint{Enabled: true, FQDN: "lb.example.com"},
			want: map[string]string{
				"demo-a":    "https://a theirs --cluster=fleet-default/lb",
				"demo-b":    "https://b theirs --cluster=fleet-default/lb",
				"demo-fqdn": "https://lb.example.com  --cluster=fleet-default/lb",
			},
		},
		"the server is not available": {
			endpoint: rkev1.LocalClusterAuthEndpoint{Enabled: true, FQDN: "lb.example.com"},
			err:      errors.New("not available"),
			want:     map[string]string{"demo-fqdn": "https://lb.example.com  --cluster=fleet-default/lb"},
			told:     "The kubeconfig gets no contexts for single servers of the authorized endpoint: not available",
		},
		"a server with the name of the management context": {
			endpoint: rkev1.LocalClusterAuthEndpoint{Enabled: true}, management: "demo-a",
			want: map[string]string{"demo-b": "https://b theirs --cluster=fleet-default/lb --context=demo-a"},
			told: `The kubeconfig gets no context for the server a: the context of the management cluster "demo-a" already has this name; --name sets other names`,
		},
		"disabled": {want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := withCluster(t, c.endpoint)
				o := &kubeconfigOptions{inspectOptions: inspectOptions{config: api.Config("looker")}}
				o.ask = func(_ context.Context, _ *rest.Config, way proxy.Proxied) (map[string]*clientcmdapi.Cluster,
					error) {
					if way.ID != "c-m-2" {
						t.Errorf("requested %q", way.ID)
					}
					if c.err != nil {
						return nil, c.err
					}
					return map[string]*clientcmdapi.Cluster{
						"a": {Server: "https://a", CertificateAuthorityData: []byte("theirs")},
						"b": {Server: "https://b", CertificateAuthorityData: []byte("theirs")},
					}, nil
				}
				code, out, problems := runOne(newKubeconfigCommand(nil, o), "lb", "--name=demo", "--context="+
					c.management)
				written, err := clientcmd.Load([]byte(out))
				check(t, err)
				got := map[string]string{}
				for name, context := range written.Contexts {
					if cluster, user := written.Clusters[context.Cluster],
						written.AuthInfos[context.AuthInfo]; name != "demo" {
						got[name] = cluster.Server + " " + string(cluster.CertificateAuthorityData) + " " +
							strings.Join(user.Exec.Args[1:], " ")
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" || code != 0 || written.CurrentContext != "demo" ||
					strings.TrimSpace(problems) != c.told {
					t.Errorf("exit code %d, message %q (-want +got):\n%s", code, problems, diff)
				}
			})
		})
	}
}

// TestMergeKubeconfig_SingleServers: a context for a server is skipped if its name is taken, and removed after its
// server is gone. The other contexts are not affected.
func TestMergeKubeconfig_SingleServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	const user, other = "--cluster=fleet-default/lb", "--cluster=fleet-default/other"
	config := func(contexts map[string]*clientcmdapi.AuthInfo) *clientcmdapi.Config {
		made := clientcmdapi.NewConfig()
		for name, user := range contexts {
			made.Clusters[name], made.AuthInfos[name], made.Contexts[name] = &clientcmdapi.Cluster{Server: "https://" +
				name}, user, &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		}
		return made
	}
	ours := plugin("", "eu", user)
	present := config(map[string]*clientcmdapi.AuthInfo{
		"demo": plugin("", "eu"), "demo-a": {Token: "mine"}, "demo-b": ours, "demo-gone": ours,
		"demo-theirs": plugin("", "eu", other), "demo-used": ours,
		"demo-x": plugin("", "eu"), "demo-x-gone": ours, "eu": {Token: "management"},
	})
	present.CurrentContext = "demo-used"
	check(t, clientcmd.WriteToFile(*present, file))
	written := config(map[string]*clientcmdapi.AuthInfo{"demo": plugin("", "eu"), "demo-a": ours, "demo-b": ours,
		"demo-c": ours})
	var told strings.Builder
	check(t, mergeKubeconfig(written, serverContexts{names: []string{"demo-a", "demo-b", "demo-c"}, former: "demo-",
		args: ours.Exec.Args}, &told))
	after, err := clientcmd.LoadFromFile(file)
	check(t, err)
	want := []string{"demo", "demo-a", "demo-b", "demo-c", "demo-theirs", "demo-used", "demo-x", "demo-x-gone", "eu"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(after.Contexts))); diff != "" ||
		after.AuthInfos["demo-a"].Token != "mine" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
	for _, line := range []string{
		`The kubeconfig gets no context for the server a: user "demo-a" already has this name`,
		`Removed context "demo-gone": the cluster no longer has this server`} {
		if !strings.Contains(told.String(), strings.Replace(line, "user", "cluster", 1)) &&
			!strings.Contains(told.String(), line) {
			t.Errorf("the message is %q, want %q", told.String(), line)
		}
	}
}
