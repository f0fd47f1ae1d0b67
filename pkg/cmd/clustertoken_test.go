package cmd

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// issuer is a server that issues tokens or refuses them.
type issuer struct {
	mu    sync.Mutex
	code  int
	until time.Time
	asked []string
	given int
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked = append(i.asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	if i.code != http.StatusCreated {
		w.Header().Set("Location", "https://elsewhere.example.com")
		w.WriteHeader(i.code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Message: "the reason"})
		return
	}
	i.given++
	w.WriteHeader(i.code)
	_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
		Token: fmt.Sprintf("token-%d", i.given), ExpirationTimestamp: metav1.NewTime(i.until),
	}})
}

// set configures the next answers.
func (i *issuer) set(code int, life time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.code, i.until = code, time.Now().Add(life)
}

// told returns the requests since the last call.
func (i *issuer) told() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	asked := i.asked
	i.asked = nil
	return asked
}

// withEndpoint is a cluster with an authorized endpoint, the server that issues its tokens, and the arguments that name
// both.
func withEndpoint(t *testing.T) (*issuer, []string) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	i := &issuer{}
	server := httptest.NewTLSServer(i)
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	check(t, os.WriteFile(authority,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	return i, []string{"--server=" + server.URL, "--certificate-authority=" + authority}
}

// withCluster is a management cluster with the Cluster lb and the given authorized endpoint.
func withCluster(t *testing.T, endpoint rkev1.LocalClusterAuthEndpoint) *memkube.Server {
	t.Helper()
	api := withAddress(t)
	check(t, api.Add(&provv1.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "lb",
			Annotations: map[string]string{rkev1.InstanceAnnotation: "i1"}},
		Spec:   provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}, LocalClusterAuthEndpoint: endpoint},
		Status: provv1.ClusterStatus{ClusterName: "c-m-2"},
	}))
	return api
}

// jwt is a token that names its user. It is different for each n.
func jwt(user string, n int) string {
	return "x." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iss":"https://login","sub":%q,"jti":"%d"}`,
		user, n)) + ".y"
}

// TestTokenForCluster: the token is cached for its user, renewed in time, and used until it expires while the server is
// unavailable.
func TestTokenForCluster(t *testing.T) {
	server, args := withEndpoint(t)
	synctest.Test(t, func(t *testing.T) {
		api := withAddress(t)
		config := api.Config("user")
		config.BearerTokenFile = filepath.Join(t.TempDir(), "token")
		logIn := func(user string, n int) {
			check(t, os.WriteFile(config.BearerTokenFile, []byte(jwt(user, n)), 0o600))
		}
		logIn("jane", 1)
		cluster := defaultNamespace + "/demo"
		get := func(more ...string) (string, string) {
			t.Helper()
			code, out, problems := runOne(newTokenCommand(nil, &tokenOptions{config: config}),
				append(append([]string{"--cluster=" + cluster}, args...), more...)...)
			if (code == 0) == (problems != "") {
				t.Errorf("exit code %d, %s", code, problems)
			}
			if code != 0 {
				return "", problems
			}
			got := clientauthv1.ExecCredential{}
			check(t, json.Unmarshal([]byte(out), &got))
			return got.Status.Token, ""
		}
		expect := func(what string, want string, asked ...string) {
			t.Helper()
			token, problems := get()
			if told := server.told(); token != want || !cmp.Equal(told, asked) {
				t.Errorf("%s: token %q (%s), want %q; the server was asked %q, want %q", what, token, problems, want,
					told, asked)
			}
		}
		const path = "POST /k8s/endpoint-tokens/c-m-1 Bearer "

		server.set(http.StatusCreated, 12*time.Hour)
		expect("at first", "token-1", path+jwt("jane", 1))
		expect("again", "token-1")
		logIn("jane", 2)
		expect("with another credential of the same user", "token-1")
		time.Sleep(7 * time.Hour)
		expect("in the second third", "token-1")
		time.Sleep(2 * time.Hour)
		server.set(http.StatusServiceUnavailable, 0)
		expect("in the last third, while the server is away", "token-1", path+jwt("jane", 2))
		check(t, os.Remove(config.BearerTokenFile))
		expect("without a credential", "token-1")
		logIn("jane", 3)
		server.set(http.StatusCreated, 12*time.Hour)
		expect("in the last third", "token-2", path+jwt("jane", 3))

		logIn("joe", 1)
		server.set(http.StatusServiceUnavailable, 0)
		if token, problems := get(); token != "" ||
			!strings.Contains(problems, "the server answers with 503: the reason") {
			t.Errorf("another user gets %q, %s", token, problems)
		}
		server.told()
		server.set(http.StatusCreated, 12*time.Hour)
		expect("for another user", "token-3", path+jwt("joe", 1))

		time.Sleep(11 * time.Hour)
		server.set(http.StatusForbidden, 0)
		if token, problems := get(); token != "" || !strings.Contains(problems, "403: the reason") {
			t.Errorf("a user without the permission gets %q, %s", token, problems)
		}
		server.set(http.StatusServiceUnavailable, 0)
		if token, _ := get(); token != "" {
			t.Errorf("a refused token is in use: %q", token)
		}
		server.told()
		server.set(http.StatusCreated, 12*time.Hour)
		expect("when the permission is back", "token-4", path+jwt("joe", 1))
		time.Sleep(13 * time.Hour)
		server.set(http.StatusFound, 0)
		if token, problems := get(); token != "" || !strings.Contains(problems, "302") {
			t.Errorf("by way of another server: %q, %s", token, problems)
		}
		server.told()
		cluster = defaultNamespace + "/absent"
		if token, problems := get(); token != "" || len(server.told()) > 0 ||
			!strings.Contains(problems, "there is no Cluster absent") {
			t.Errorf("a missing cluster: %q, %s", token, problems)
		}
	})
}

// Only its owner can read the cache, and content that other users may have written is ignored.
func TestTokenForCluster_CachesPerUser(t *testing.T) {
	server, args := withEndpoint(t)
	synctest.Test(t, func(t *testing.T) {
		config := withAddress(t).Config("user")
		config.BearerToken = "opaque-1"
		get := func() (asked int) {
			t.Helper()
			if code, _, problems := runOne(newTokenCommand(nil, &tokenOptions{config: config}),
				append([]string{"--cluster=" + defaultNamespace + "/demo"}, args...)...); code != 0 {
				t.Errorf("exit code %d, %s", code, problems)
			}
			return len(server.told())
		}
		server.set(http.StatusCreated, 12*time.Hour)
		get()
		var files []string
		check(t, filepath.WalkDir(os.Getenv("XDG_CACHE_HOME"), func(path string, entry fs.DirEntry, err error) error {
			check(t, err)
			about, err := entry.Info()
			check(t, err)
			if path != os.Getenv("XDG_CACHE_HOME") && about.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %s", path, about.Mode())
			}
			if !entry.IsDir() {
				files = append(files, path)
			}
			return nil
		}))
		if len(files) != 1 || strings.Contains(files[0], "opaque") ||
			!strings.Contains(files[0], filepath.Join("drover", "endpoint-tokens")) {
			t.Fatalf("files %v", files)
		}
		content, err := os.ReadFile(files[0])
		check(t, err)
		if strings.Contains(string(content), "opaque") {
			t.Errorf("the cache has the credential for the management cluster: %s", content)
		}
		check(t, os.Chmod(files[0], 0o644))
		if get() != 1 {
			t.Error("a file that others can read is in use")
		}
		if get() != 0 {
			t.Error("the token is not cached again")
		}
		check(t, os.WriteFile(files[0], []byte("{"), 0o600))
		if get() != 1 {
			t.Error("an unreadable file is in use")
		}
		config.BearerToken = "opaque-2"
		if get() != 1 {
			t.Error("another credential has the same token")
		}
	})
}

// A client that asks a second time gets a new token if possible. It was refused with the first, for example because the
// cluster's keys were deleted.
func TestTokenForCluster_ReplacesRefusedTokens(t *testing.T) {
	server, args := withEndpoint(t)
	synctest.Test(t, func(t *testing.T) {
		config := withAddress(t).Config("user")
		config.BearerToken = "opaque"
		get := func(client int) string {
			t.Helper()
			command := newTokenCommand([]string{"KUBERNETES_EXEC_INFO={}"},
				&tokenOptions{config: config, client: client})
			code, out, problems := runOne(command, append([]string{"--cluster=" + defaultNamespace + "/demo"},
				args...)...)
			got := clientauthv1.ExecCredential{}
			if code != 0 || json.Unmarshal([]byte(out), &got) != nil {
				t.Fatalf("exit code %d, %s%s", code, out, problems)
			}
			return got.Status.Token
		}
		server.set(http.StatusCreated, 12*time.Hour)
		for i, step := range []struct {
			client int
			code   int
			want   string
		}{
			{1, http.StatusCreated, "token-1"}, {2, http.StatusCreated, "token-1"}, {2, http.StatusCreated, "token-2"},
			{3, http.StatusCreated, "token-2"},
			{3, http.StatusServiceUnavailable, "token-2"}, {3, http.StatusCreated, "token-3"},
			{4, http.StatusCreated, "token-3"},
		} {
			server.set(step.code, 12*time.Hour)
			if got := get(step.client); got != step.want {
				t.Errorf("step %d: client %d gets %s, want %s", i, step.client, got, step.want)
			}
		}
	})
}

func TestCacheFor_SeparatesUsers(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	seen := map[string]string{}
	for name, c := range map[string]struct {
		config          rest.Config
		cluster, server string
	}{
		"the first":         {rest.Config{Host: "https://a", BearerToken: "t"}, "ns/a", ""},
		"another cluster":   {rest.Config{Host: "https://a", BearerToken: "t"}, "ns/b", ""},
		"another namespace": {rest.Config{Host: "https://a", BearerToken: "t"}, "n/sa", ""},
		"another server":    {rest.Config{Host: "https://a", BearerToken: "t"}, "ns/a", "https://s"},
		"another host":      {rest.Config{Host: "https://b", BearerToken: "t"}, "ns/a", ""},
		"another user":      {rest.Config{Host: "https://a", BearerToken: "u"}, "ns/a", ""},
		"a file":            {rest.Config{Host: "https://a", BearerTokenFile: "t"}, "ns/a", ""},
		"a certificate": {rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CertFile: "t"}},
			"ns/a", ""},
	} {
		cache, err := cacheFor(&c.config, c.cluster, c.server)
		check(t, err)
		if other, taken := seen[cache.path]; taken {
			t.Errorf("%s and %s share a file", name, other)
		}
		seen[cache.path] = name
	}
}

func TestToken_Flags(t *testing.T) {
	for flags, want := range map[string]string{
		"--cluster=demo": "must be NAMESPACE/NAME", "--cluster=a/b/c": "must be NAMESPACE/NAME",
		"--cluster=/demo":         "must be NAMESPACE/NAME",
		"--server=https://drover": "need --cluster", "--certificate-authority=ca.pem": "need --cluster",
	} {
		if code, out, problems := runOne(newTokenCommand(nil, &tokenOptions{config: &rest.Config{BearerToken: "t"}}),
			flags); code != 1 || out != "" || !strings.Contains(problems, want) {
			t.Errorf("%s: exit code %d, %s%s", flags, code, out, problems)
		}
	}
}

// TestKubeconfig_AuthorizedEndpoint: a context uses the host that the Cluster names, with a token that is valid only
// for that cluster.
func TestKubeconfig_AuthorizedEndpoint(t *testing.T) {
	existing := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", existing)
	dir := t.TempDir()
	t.Chdir(dir)
	check(t, os.WriteFile("ca.pem", nil, 0o600))
	for name, c := range map[string]struct {
		endpoint rkev1.LocalClusterAuthEndpoint
		args     []string
		want     string // "" for no context
	}{
		"with authorities": {rkev1.LocalClusterAuthEndpoint{Enabled: true, FQDN: "demo.example.com",
			CACerts: "theirs"}, nil,
			"demo-fqdn https://demo.example.com theirs drover token --cluster=fleet-default/lb"},
		"without": {rkev1.LocalClusterAuthEndpoint{Enabled: true, FQDN: "demo.example.com:8443"}, nil,
			"demo-fqdn https://demo.example.com:8443  drover token --cluster=fleet-default/lb"},
		"by another server": {rkev1.LocalClusterAuthEndpoint{Enabled: true, FQDN: "demo.example.com"},
			[]string{"--server=https://other"},
			"demo-fqdn https://demo.example.com  drover token --cluster=fleet-default/lb --server=https://other"},
		"from other files": {
			rkev1.LocalClusterAuthEndpoint{Enabled: true, FQDN: "demo.example.com"},
			[]string{"--server=https://other", "--certificate-authority=ca.pem", "--kubeconfig=k"},
			"demo-fqdn https://demo.example.com  drover token --cluster=fleet-default/lb --server=https://other " +
				"--certificate-authority=" + dir + "/ca.pem --kubeconfig=" + dir + "/k",
		},
		"with a scheme": {rkev1.LocalClusterAuthEndpoint{Enabled: true, FQDN: "https://demo.example.com"}, nil,
			"demo-fqdn https://demo.example.com  drover token --cluster=fleet-default/lb"},
		"with a path": {rkev1.LocalClusterAuthEndpoint{Enabled: true, FQDN: "drover.example.com/k8s/clusters/c-m-2"},
			nil, ""},
		"without a name": {rkev1.LocalClusterAuthEndpoint{Enabled: true}, nil, ""},
		"disabled":       {rkev1.LocalClusterAuthEndpoint{FQDN: "demo.example.com"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := withCluster(t, c.endpoint)
				o := &kubeconfigOptions{inspectOptions: inspectOptions{config: api.Config("looker")}, ask: noServers}
				code, out, problems := runOne(newKubeconfigCommand(nil, o),
					append([]string{"lb", "--name=demo"}, c.args...)...)
				written, err := clientcmd.Load([]byte(out))
				check(t, err)
				got := ""
				if context := written.Contexts["demo-fqdn"]; context != nil {
					cluster, user := written.Clusters[context.Cluster], written.AuthInfos[context.AuthInfo]
					got = "demo-fqdn " + cluster.Server + " " + string(cluster.CertificateAuthorityData) + " " +
						user.Exec.Command + " " + strings.Join(user.Exec.Args, " ")
				}
				if diff := cmp.Diff(c.want, got); diff != "" || code != 0 || written.CurrentContext != "demo" {
					t.Errorf("exit code %d %s\n%s", code, problems, diff)
				}
				if told := strings.Contains(problems,
					"must be HOST or HOST:PORT"); told != strings.Contains(c.endpoint.FQDN, "/k8s") {
					t.Errorf("the message is %q", problems)
				}
				for range 2 { // the second time it is ours already
					code, _, problems = runOne(newKubeconfigCommand(nil, o),
						append([]string{"lb", "--name=demo", "--merge"}, c.args...)...)
					merged, err := clientcmd.LoadFromFile(existing)
					check(t, err)
					if diff := cmp.Diff(written.Clusters["demo-fqdn"] != nil, merged.Contexts["demo-fqdn"] != nil &&
						merged.AuthInfos["demo-fqdn"] != nil); diff != "" || code != 0 {
						t.Errorf("merged: exit code %d %s\n%s", code, problems, diff)
					}
				}
				// The host had another name.
				if before, err := clientcmd.LoadFromFile(existing); err == nil && before.Clusters["demo-fqdn"] != nil {
					before.Clusters["demo-fqdn"].Server = "https://former.example.com"
					check(t, clientcmd.WriteToFile(*before, existing))
					code, _, problems = runOne(newKubeconfigCommand(nil, o),
						append([]string{"lb", "--name=demo", "--merge"}, c.args...)...)
					after, err := clientcmd.LoadFromFile(existing)
					check(t, err)
					if code != 0 || after.Clusters["demo-fqdn"].Server != written.Clusters["demo-fqdn"].Server {
						t.Errorf("after the rename: exit code %d, %s", code, problems)
					}
					before.AuthInfos["demo-fqdn"].Exec.Args = []string{"token", "--cluster=other/lb"}
					check(t, clientcmd.WriteToFile(*before, existing))
					if code, _, _ = runOne(newKubeconfigCommand(nil, o),
						append([]string{"lb", "--name=demo", "--merge"}, c.args...)...); code != 1 {
						t.Error("an entry of another cluster is overwritten")
					}
				}
				check(t, os.Remove(existing))
				if args := written.AuthInfos["demo"].Exec.Args; strings.Contains(strings.Join(args, " "), "--cluster") {
					t.Errorf("the context through Drover has %v", args)
				}
			})
		})
	}
}

// TestMergeKubeconfig_OwnerOfEntries: merging never overwrites an entry for another cluster, even if the name or the
// host is equal.
func TestMergeKubeconfig_OwnerOfEntries(t *testing.T) {
	const host, drover = "https://demo.example.com", "https://drover/k8s/clusters/c-m-5"
	demo := plugin("/k/eu", "eu", "--cluster=fleet-default/demo")
	for name, c := range map[string]struct {
		server string
		user   *clientcmdapi.AuthInfo
		after  string
		ours   bool
	}{
		"own entry":                     {host, demo, host, true},
		"own entry with a former name":  {"https://former.example.com", demo, host, true},
		"of another management cluster": {host, plugin("/k/us", "eu", "--cluster=fleet-default/demo"), host, false},
		"of another context":            {host, plugin("/k/eu", "us", "--cluster=fleet-default/demo"), host, false},
		"of another server of Drover": {host, plugin("/k/eu", "eu", "--cluster=fleet-default/demo",
			"--server=https://other"), host, false},
		"of another namespace":     {host, plugin("/k/eu", "eu", "--cluster=team-x/demo"), host, false},
		"a context through Drover": {drover, plugin("/k/eu", "eu"), drover, false},
		"an entry of the user":     {host, &clientcmdapi.AuthInfo{Token: "mine"}, host, false},
		"an entry without a user":  {host, nil, host, false},
		"a former name with another user": {"https://former.example.com", &clientcmdapi.AuthInfo{Token: "mine"}, host,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			t.Setenv("KUBECONFIG", file)
			config := func(server string, user *clientcmdapi.AuthInfo) *clientcmdapi.Config {
				made := clientcmdapi.NewConfig()
				made.Clusters["demo-fqdn"], made.Contexts["demo-fqdn"] = &clientcmdapi.Cluster{Server: server},
					&clientcmdapi.Context{Cluster: "demo-fqdn", AuthInfo: "demo-fqdn"}
				if user != nil {
					made.AuthInfos["demo-fqdn"] = user
				}
				return made
			}
			check(t, clientcmd.WriteToFile(*config(c.server, c.user), file))
			written := config(c.after, demo)
			written.Clusters["demo-fqdn"].CertificateAuthorityData = []byte("another")
			err := mergeKubeconfig(written, serverContexts{}, io.Discard)
			after, problem := clientcmd.LoadFromFile(file)
			check(t, problem)
			if replaced := string(after.Clusters["demo-fqdn"].CertificateAuthorityData) == "another"; replaced !=
				c.ours || (err == nil) != c.ours {
				t.Errorf("overwritten: %t, %v", replaced, err)
			}
		})
	}
}
