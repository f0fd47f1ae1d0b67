package proxy

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// endless answers every request with one endless object, and counts the bytes read.
type endless struct{ taken int64 }

var ones = strings.Repeat("1", 64<<10)

func (e *endless) Connected(string) bool { return true }

func (e *endless) Transport(string) (http.RoundTripper, error) {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		e.taken = 0
		begin := `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"`
		if isWatch(r) {
			begin = `{"type":"ADDED","object":` + begin
		}
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			ContentLength: -1,
			Body:          io.NopCloser(io.MultiReader(strings.NewReader(begin), e)),
		}, nil
	}), nil
}

func (e *endless) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], ones)
	}
	e.taken += int64(len(p))
	return len(p), nil
}

// TestDoor_LimitsTheSizeOfAnswers: an endless answer fails, and a normal one succeeds.
func TestDoor_LimitsTheSizeOfAnswers(t *testing.T) {
	t.Parallel()
	demo, tunnels := types.NamespacedName{Namespace: "n", Name: "demo"}, &endless{}
	door := NewDoor(NewClients(noSecrets{}, time.Minute, Servers{}), tunnels, func(types.NamespacedName) Way {
		return Way{ID: "c-m-1", Agent: true}
	}, func(types.NamespacedName) Identity {
		return Identity{User: "drover"}
	})
	client, err := door.Client(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "the cluster's answer is larger than 64 MiB") ||
		tunnels.taken > answerLimit+1<<20 {
		t.Errorf("after %d bytes the error is %v", tunnels.taken, err)
	}
	watch, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if event, ok := <-watch.ResultChan(); !ok ||
		!strings.Contains(messageOf(event.Object), "an event of the cluster is larger than 16 MiB") ||
		tunnels.taken > 3*eventLimit {
		t.Errorf("after %d bytes the watch returns %v, %v", tunnels.taken, event, ok)
	}
}

func messageOf(object any) string {
	if status, ok := object.(*metav1.Status); ok {
		return status.Message
	}
	return ""
}

// kubeconfigs are the kubeconfigs of clusters without an agent.
type kubeconfigs []byte

func (k kubeconfigs) Get(namespace, name string) (*corev1.Secret, error) {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1"},
		Data: map[string][]byte{KubeconfigKey: k}}, nil
}

// TestLimits_ArePerUser: clients that list whole kinds have a higher limit, with and without a tunnel.
func TestLimits_ArePerUser(t *testing.T) {
	t.Parallel()
	cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NamespaceList","apiVersion":"v1","items":[]`)
		blanks := bytes.Repeat([]byte(" "), 1<<20)
		for range 65 {
			_, _ = w.Write(blanks)
		}
		_, _ = io.WriteString(w, "}")
	}))
	t.Cleanup(cluster.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw})
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: cluster.URL, CertificateAuthorityData: authority}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	config.Contexts["c"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "c"
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	demo, secrets := types.NamespacedName{Namespace: "n", Name: "demo"}, kubeconfigs(content)
	direct := NewClients(secrets, time.Minute, Servers{AllowLoopback: true})
	own, err := direct.Client(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil ||
		!strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("Drover's own client gets %v", err)
	}
	wide, err := NewWays(nil, secrets, Servers{AllowLoopback: true}).RESTConfig(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := kubernetes.NewForConfig(wide)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lists.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a list of a whole kind gets %v", err)
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": true, "1234567": true, "12345678": true, "123456789": false,
		strings.Repeat("1", 100): false} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r },
			"by bytes": iotest.OneByteReader, "with EOF": iotest.DataErrReader} {
			b := &bounded{ReadCloser: io.NopCloser(wrap(strings.NewReader(text))), limit: 8, left: 8}
			got, err := io.ReadAll(b)
			if (err == nil) != want || string(got) != text[:min(len(text), 8)] {
				t.Errorf("%q, %s: got %q, %v", text, name, got, err)
			}
			if _, again := b.Read(make([]byte, 1)); (again == nil || errors.Is(again, io.EOF)) != want {
				t.Errorf("%q, %s: afterwards %v", text, name, again)
			}
		}
	}
}

func TestBoundedEvents(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                                     true,
		strings.Repeat(`{"a":[1]}`+"\n", 1000): true,
		strings.Repeat(`{"a":"}"}`, 1000):      true,
		strings.Repeat(`{"\"{":1}`, 1000):      true,
		strings.Repeat(`{"a":"\\"}`, 1000):     true,
		`{"a":"1234567890"}`:                   false,
		`{"a":"{}{}{}{}{}"}`:                   false,
		`{"a":"\"}\"}\"}\"}"}`:                 false,
		"{\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n}":     false,
		`[{},{},{},{},{},{}]`:                  false,
		strings.Repeat(" ", 17):                false,
		strings.Repeat("1 ", 17):               false,
		"}" + strings.Repeat("{}", 17):         false,
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r },
			"by bytes": iotest.OneByteReader} {
			b := &boundedEvents{ReadCloser: io.NopCloser(wrap(strings.NewReader(text))), limit: 16}
			if got, err := io.ReadAll(b); (err == nil) != want || want && string(got) != text {
				t.Errorf("%.40q, %s: got %.40q, %v", text, name, got, err)
			}
		}
	}
}
