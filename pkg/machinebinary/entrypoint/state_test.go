package entrypoint_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/machinebinary/entrypoint"
)

// secretAPI serves one Secret, after a number of requests that it drops as an API server does that is being restarted.
type secretAPI struct {
	mu      sync.Mutex
	drop    int
	secret  *corev1.Secret
	updates int
}

func (a *secretAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.drop > 0 {
		a.drop--
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if a.secret == nil || !strings.HasSuffix(r.URL.Path, "/namespaces/fleet/secrets/"+a.secret.Name) {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		return
	}
	if r.Method == http.MethodPut {
		body, _ := io.ReadAll(r.Body)
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		a.secret, a.updates = obj.(*corev1.Secret), a.updates+1
	}
	answer := a.secret.DeepCopy()
	answer.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	_ = json.NewEncoder(w).Encode(answer)
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// A create that fails after the driver made its machine keeps what it knows of it; a later removal reads it.
func TestRun_SavesWhatAFailedCreateKnows(t *testing.T) {
	const before, after = `{"Driver":{}}`, `{"Driver":{"InstanceId":"i-1"}}`
	tests := map[string]struct {
		command string
		gone    bool
		status  string
		write   string
		want    string
		updates int
		says    string
	}{
		"the API was away when the state was saved": {command: "create", status: "1", write: after, want: after, updates: 1, says: "saved the state"},
		"the state was saved before the failure":    {command: "create", status: "1", write: before, want: before},
		"the folder was never read":                 {command: "create", status: "1", want: before},
		"a create that succeeds saved it itself":    {command: "create", status: "0", write: after, want: before},
		"a removal saves nothing":                   {command: "rm", status: "1", write: after, want: before},
		"the Secret is gone":                        {command: "create", status: "1", write: after, gone: true, says: "save the state of the machine:"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			file := filepath.Join(home, ".docker", "machine", "machines", "m1", "config.json")
			stored := tarred(t, file, []byte(before))
			api := &secretAPI{drop: 2, secret: &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m1-state"}, Data: map[string][]byte{"extractedConfig": stored, "other": []byte("kept")},
			}}
			if test.gone {
				api.secret = nil
			}
			server := httptest.NewServer(api)
			defer server.Close()

			script := "#!/bin/sh\n"
			if test.write != "" {
				script += "mkdir -p " + filepath.Dir(file) + "\nprintf '%s' '" + test.write + "' >" + file + "\n"
			}
			program := filepath.Join(home, "rancher-machine")
			if err := os.WriteFile(program, []byte(script+"exit "+test.status+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			var output bytes.Buffer
			code := entrypoint.Run(t.Context(), entrypoint.Config{
				Args:        []string{"--kubeconfig=" + kubeconfig(t, server.URL), "--secret-namespace=fleet", "--secret-name=m1-state", test.command, "m1"},
				Environment: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, Program: program, Output: &output, RetryAfter: time.Millisecond,
			})
			if got := string(rune('0' + code)); got != test.status {
				t.Errorf("exit status is %s, want that of rancher-machine, %s", got, test.status)
			}
			if test.says == "" && output.Len() > 0 || !strings.Contains(output.String(), test.says) {
				t.Errorf("output is %q, want it to hold %q", output.String(), test.says)
			}
			if test.gone {
				return
			}
			if api.updates != test.updates {
				t.Errorf("%d updates of the Secret, want %d", api.updates, test.updates)
			}
			if got := restored(t, api.secret.Data["extractedConfig"])[file]; got != test.want {
				t.Errorf("stored state is %q, want %q", got, test.want)
			}
			if string(api.secret.Data["other"]) != "kept" {
				t.Error("other data of the Secret was lost")
			}
		})
	}
}

// restored reads a state as rancher-machine does: file by file, into folders that exist by then.
func restored(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	reader := tar.NewReader(compressed)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}
