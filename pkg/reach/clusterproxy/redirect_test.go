package clusterproxy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// client-go follows redirects and sends its credential to their targets. A redirect by a cluster, or by a workload
// behind it, must not send that credential to another host.
func TestRedirect_NoCredentialLeavesForAnotherHost(t *testing.T) {
	var came atomic.Pointer[http.Request]
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { came.Store(r) }))
	t.Cleanup(foreign.Close)
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/here") {
			http.Redirect(w, r, "/api/v1/there", http.StatusFound)
			return
		}
		if code := http.StatusFound; !strings.HasSuffix(r.URL.Path, "/there") {
			if r.Method != http.MethodGet {
				code = http.StatusTemporaryRedirect
			}
			w.Header().Set("Location", strings.Replace(foreign.URL, "http:", r.URL.Query().Get("scheme"), 1)+"/collect")
			w.WriteHeader(code)
		}
	}))
	server := w.proxy()
	plugin := filepath.Join(t.TempDir(), "plugin")
	check(t, os.WriteFile(plugin, []byte(`#!/bin/sh
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"`+token+`"}}'
`), 0o700))
	for name, config := range map[string]rest.Config{
		"a token": {BearerToken: token},
		"a plugin, as in the output of drover kubeconfig": {ExecProvider: &clientcmdapi.ExecConfig{
			Command: plugin, APIVersion: "client.authentication.k8s.io/v1",
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			config.Host, config.Insecure = server.URL+"/k8s/clusters/c-m-a", true
			client, err := kubernetes.NewForConfig(&config)
			check(t, err)
			for _, path := range []string{"/api/v1/pods", "/version", "/api/v1/namespaces/x/services/y/proxy/app"} {
				for _, scheme := range []string{"http:", ""} {
					for _, verb := range []string{http.MethodGet, http.MethodPost} {
						err := client.CoreV1().RESTClient().Verb(verb).AbsPath(path).Param("scheme",
							scheme).Do(t.Context()).Error()
						if status, ok := err.(apierrors.APIStatus); !ok ||
							status.Status().Code != http.StatusBadGateway {
							t.Errorf("%s %s is answered with %v", verb, path, err)
						}
						if r := came.Swap(nil); r != nil {
							t.Errorf("%s %s: another host got Authorization %q", verb, path,
								r.Header.Get("Authorization"))
						}
					}
				}
			}
			if err := client.CoreV1().RESTClient().Get().AbsPath("/here").Do(t.Context()).Error(); err != nil {
				t.Errorf("a redirect within the cluster: %v", err)
			}
		})
	}
	answer, body := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods?scheme=http:", token)
	if status := statusOf(t, answer, body); status.Reason != metav1.StatusReasonInternalError ||
		answer.Header.Get("Location") != "" ||
		!strings.HasPrefix(status.Message, `cluster "c-m-a" redirects to another host`) {
		t.Errorf("the answer is %d %+v %v", answer.StatusCode, status, answer.Header)
	}
}
