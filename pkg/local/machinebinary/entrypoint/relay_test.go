package entrypoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/local/machinebinary/entrypoint"
)

// role makes the test program act as rancher-machine, which reads and saves its state.
const role = "ENTRYPOINT_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	if err := saveState(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// saveState reads and writes the Secret once each, as rancher-machine does.
func saveState(args []string) error {
	at := slices.Index(args, "--kubeconfig")
	if at < 0 {
		return fmt.Errorf("no kubeconfig in %q", args)
	}
	if want := []string{"--secret-namespace", "fleet", "--secret-name", "m1-state", "create",
		"m1"}; !slices.Equal(slices.Delete(slices.Clone(args), at, at+2), want) {
		return fmt.Errorf("arguments are %q, want %q and a kubeconfig", args, want)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[at+1])
	if err != nil {
		return err
	}
	if config.BearerToken == "the-jobs-own" || config.BearerToken == "" {
		return fmt.Errorf("the kubeconfig has the token %q", config.BearerToken)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	secrets := client.CoreV1().Secrets("fleet")
	secret, err := secrets.Get(context.Background(), "m1-state", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("error getting secret from kubernetes: %w", err)
	}
	secret.Data = map[string][]byte{"extractedConfig": []byte("new")}
	if _, err := secrets.Update(context.Background(), secret, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("unable to update secret: %w", err)
	}
	fmt.Println("saved")
	return nil
}

// stateAPI serves one Secret. It calls trouble first, which decides what happens instead of the write or after it.
type stateAPI struct {
	mu      sync.Mutex
	calls   map[string]int
	secret  *corev1.Secret
	trouble func(method string, call int) string
}

func (a *stateAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[r.Method]++
	trouble := a.trouble(r.Method, a.calls[r.Method])
	switch {
	case trouble == "drop":
		panic(http.ErrAbortHandler)
	case trouble == "forbid":
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	case trouble == "starting":
		fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		return
	case r.Header.Get("Authorization") != "Bearer the-jobs-own":
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return
	case r.URL.Path != "/api/v1/namespaces/fleet/secrets/m1-state":
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	if r.Method == http.MethodPut && !a.put(w, r) {
		return
	}
	if trouble == "lose the answer" {
		panic(http.ErrAbortHandler)
	}
	answer := a.secret.DeepCopy()
	answer.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (a *stateAPI) put(w http.ResponseWriter, r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return false
	}
	written := obj.(*corev1.Secret)
	if written.ResourceVersion != a.secret.ResourceVersion {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict)
		return false
	}
	written.ResourceVersion += "1"
	a.secret = written
	return true
}

func fail(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason,
		Code: code, Message: string(reason),
	})
}

func kubeconfig(t *testing.T, server *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server.URL,
			CertificateAuthorityData: certificate}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: "the-jobs-own"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun_StateSurvivesARestartOfTheAPI(t *testing.T) {
	none := func(string, int) string { return "" }
	tests := map[string]struct {
		trouble  func(method string, call int) string
		conflict bool
		want     int
		says     string
		calls    map[string]int
	}{
		"the API answers": {trouble: none, says: "saved", calls: map[string]int{"GET": 1, "PUT": 1}},
		"the API is unavailable when the state is read": {
			trouble: func(method string, call int) string {
				return map[bool]string{true: "drop"}[method == "GET" && call < 4]
			}, says: "waiting for the API", calls: map[string]int{"GET": 4, "PUT": 1},
		},
		"the API is unavailable when the state is saved": {
			trouble: func(method string, call int) string {
				return map[bool]string{true: "drop"}[method == "PUT" && call < 4]
			}, says: "waiting for the API", calls: map[string]int{"GET": 1, "PUT": 4},
		},
		"the API does not know the rights yet": {
			trouble: func(method string, call int) string {
				return map[bool]string{true: "forbid"}[method == "PUT" && call < 3]
			}, says: "it answered 403", calls: map[string]int{"GET": 1, "PUT": 3},
		},
		"the API is not ready yet": {
			trouble: func(method string, call int) string {
				return map[bool]string{true: "starting"}[method == "PUT" && call < 3]
			}, says: "it answered 503", calls: map[string]int{"GET": 1, "PUT": 3},
		},
		"the API saved the state, and its answer was lost": {
			trouble: func(method string, call int) string {
				return map[bool]string{true: "lose the answer"}[method == "PUT" && call == 1]
			}, says: "saved", calls: map[string]int{"GET": 2, "PUT": 2},
		},
		"another client wrote meanwhile": {trouble: none, conflict: true, want: 1, says: "unable to update secret",
			calls: map[string]int{"GET": 1, "PUT": 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			api := &stateAPI{calls: map[string]int{}, trouble: test.trouble, secret: &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m1-state", ResourceVersion: "5"},
			}}
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.conflict && r.Method == http.MethodPut {
					api.secret.ResourceVersion = "7"
				}
				api.ServeHTTP(w, r)
			}))
			defer server.Close()
			private := t.TempDir()
			var output bytes.Buffer
			code := entrypoint.Run(t.Context(), entrypoint.Config{
				Args: []string{"--secret-namespace=fleet", "--kubeconfig=" + kubeconfig(t, server),
					"--secret-name=m1-state", "create", "m1"},
				Environment: []string{role + "=machine"}, Program: os.Args[0], Output: &output,
				RetryAfter: time.Millisecond, PrivateDirectory: private,
			})
			if code != test.want || !strings.Contains(output.String(), test.says) {
				t.Errorf("exit status %d, output %q; want %d and %q", code, output.String(), test.want, test.says)
			}
			if !maps.Equal(api.calls, test.calls) {
				t.Errorf("requests are %v, want %v", api.calls, test.calls)
			}
			if got := string(api.secret.Data["extractedConfig"]); test.want == 0 && got != "new" {
				t.Errorf("state is %q", got)
			}
			if left, _ := os.ReadDir(private); len(left) > 0 {
				t.Errorf("remaining files: %v", left)
			}
		})
	}
}

func TestRelay_ServesOnlyItsClient(t *testing.T) {
	api := &stateAPI{calls: map[string]int{}, trouble: func(string, int) string { return "" }, secret: &corev1.Secret{}}
	upstream := httptest.NewTLSServer(api)
	defer upstream.Close()
	relay, err := entrypoint.NewRelay(kubeconfig(t, upstream), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "Bearer ", "Bearer the-jobs-own"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"/api/v1/namespaces/fleet/secrets/m1-state", nil)
		request.Header.Set("Authorization", header)
		answer := httptest.NewRecorder()
		relay.ServeHTTP(answer, request)
		if answer.Code != http.StatusUnauthorized || len(api.calls) > 0 {
			t.Errorf("with header %q the answer is %d and the API got %v", header, answer.Code, api.calls)
		}
	}
}
