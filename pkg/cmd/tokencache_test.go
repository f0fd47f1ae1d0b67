package cmd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// printed runs drover token for the cluster demo, and returns the token.
func printed(t *testing.T, config *rest.Config, args ...string) (token, problems string) {
	t.Helper()
	code, out, problems := runOne(newTokenCommand(nil, &tokenOptions{config: config}),
		append([]string{"--cluster=" + defaultNamespace + "/demo"}, args...)...)
	got := clientauthv1.ExecCredential{}
	if code == 0 {
		check(t, json.Unmarshal([]byte(out), &got))
		token = got.Status.Token
	}
	return token, problems
}

// keepFor caches a token of 12 hours that is valid for the given remaining hours.
func keepFor(t *testing.T, config *rest.Config, who string, hours time.Duration) tokenCache {
	t.Helper()
	cache, err := cacheFor(config, defaultNamespace+"/demo", "")
	check(t, err)
	expires := time.Now().Add(hours * time.Hour)
	check(t, cache.write(keptToken{Token: "kept", Issued: expires.Add(-12 * time.Hour), Expires: expires, Who: who}))
	return cache
}

// Only Drover or the management cluster can end the use of a cached token. Answers from proxies do not.
func TestTokenForCluster_AcceptedRefusals(t *testing.T) {
	const details = `"details":{"group":"provisioning.cattle.io","kind":"clusters","name":"demo"}`
	for name, c := range map[string]struct {
		code int
		body string
		ends bool
	}{
		"the Cluster is deleted": {404,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"gone","reason":"NotFound",` + details +
				`,"code":404}`, true},
		"the user may not get it": {403,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden",` + details +
				`,"code":403}`, true},
		"the user is unknown": {401,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`, false},
		"another object does not exist": {404,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"gone","reason":"NotFound","details":{"kind":"namespaces","name":"demo"},"code":404}`, false},
		"the kind does not exist": {404,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no resource","reason":"NotFound","details":{},"code":404}`, false},
		"the page of a balancer":       {404, "<html>default backend - 404</html>", false},
		"an answer without a Status":   {404, `{"message":"no route","code":404}`, false},
		"the page of a firewall":       {403, "<html>blocked</html>", false},
		"a login page":                 {302, "", false},
		"a method that is not allowed": {405, "", false},
		"a server that is starting":    {503, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if strings.HasPrefix(c.body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.Header().Set("Location", "https://login.invalid")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			defer api.Close()
			config := &rest.Config{Host: api.URL, BearerToken: "opaque",
				TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
			own, err := credentialOf(config)
			check(t, err)
			cache := keepFor(t, config, whose(own), 3)
			token, problems := printed(t, config)
			if ended, forgotten := token == "", cache.read().Token == ""; ended != c.ends || forgotten != c.ends {
				t.Errorf("prints %q (%s); forgotten: %t", token, problems, forgotten)
			}
		})
	}
	for name, c := range map[string]struct {
		code int
		body string
		ends bool
	}{
		"not allowed":                   {403, `{"kind":"Status","message":"no"}`, true},
		"none":                          {404, `{"kind":"Status","message":"no"}`, true},
		"disabled":                      {409, `{"kind":"Status","message":"no"}`, true},
		"unknown":                       {401, `{"kind":"Status","message":"no"}`, false},
		"too many requests":             {429, `{"kind":"Status","message":"no"}`, false},
		"a page":                        {403, "<html>", false},
		"the answer of another program": {404, `{"message":"no"}`, false},
		"a redirect":                    {302, "", false},
	} {
		if _, no := refusal(c.code, []byte(c.body)).(refusedError); no != c.ends { //nolint:errorlint // it is not wrapped
			t.Errorf("Drover's address answers %s; a refusal: %t", name, no)
		}
	}
}

// The kubeconfig's plugin does not run while a token is valid for long, and does not delay a command while a valid
// token exists.
func TestTokenForCluster_DoesNotWaitForPlugins(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ran := filepath.Join(t.TempDir(), "ran")
	config := &rest.Config{Host: "https://127.0.0.1:1", ExecProvider: &clientcmdapi.ExecConfig{
		APIVersion: clientauthv1.SchemeGroupVersion.String(), Command: "sh",
		Args:            []string{"-c", "touch " + ran + "; exec sleep 20 2>/dev/null"},
		InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
	}}
	keepFor(t, config, "user x", 11)
	if token, problems := printed(t, config); token != "kept" {
		t.Errorf("prints %q (%s)", token, problems)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the plugin was run")
	}
	keepFor(t, config, "user x", 3)
	began := time.Now()
	token, problems := printed(t, config)
	if took := time.Since(began); token != "kept" || took > 15*time.Second {
		t.Errorf("in the last third: prints %q (%s) after %s", token, problems, took)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("in the last third, the plugin did not run: %v", err)
	}
}

// A process without a home folder gets tokens without a cache.
func TestTokenForCluster_WithoutAHome(t *testing.T) {
	server, args := withEndpoint(t)
	server.set(http.StatusCreated, 12*time.Hour)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	t.Chdir(t.TempDir())
	config := withAddress(t).Config("user")
	config.BearerToken = "opaque"
	for _, want := range []string{"token-1", "token-2"} {
		if token, problems := printed(t, config, args...); token != want {
			t.Errorf("prints %q (%s), want %s", token, problems, want)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("the cache contains %v, %v", left, err)
	}
}

func TestTokenCache_DeletesExpiredTokens(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ended, good := keepFor(t, &rest.Config{Host: "https://a"}, "", -1),
		keepFor(t, &rest.Config{Host: "https://b"}, "", 1)
	other := filepath.Join(filepath.Dir(good.path), "other.json")
	check(t, os.WriteFile(other, []byte("{}"), 0o600))
	keepFor(t, &rest.Config{Host: "https://c"}, "", 1)
	for path, want := range map[string]bool{ended.path: false, good.path: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
