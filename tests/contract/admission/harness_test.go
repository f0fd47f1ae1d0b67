package admission

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/cmd"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// drover is a server that a test can stop.
type drover struct {
	cancel context.CancelFunc
	once   sync.Once
	ended  chan error
}

// run starts `drover server` and waits until machines can use it.
func run(t *testing.T) *drover {
	t.Helper()
	port, health, admission := stage.FreePort(t), stage.FreePort(t), stage.FreePort(t)
	log, err := os.Create(filepath.Join(plane.Dir(t), "logs", "drover.log"))
	check(t, err)
	program := cmd.NewCommand(nil)
	program.SetArgs([]string{
		"server", "--kubeconfig=" + plane.Kubeconfig(t), "--server-url=https://127.0.0.1:" + port,
		"--bind-address=127.0.0.1", "--port=" + port,
		"--health-address=127.0.0.1:" + health, "--data-dir=" + t.TempDir(), "--leader-elect=false",
		"--machine-provision-image=rancher/machine:test", "--machine-provision-image-pull-policy=IfNotPresent",
		"--deletion-deadline=1m", "--allow-loopback-clusters",
		"--admission=install", "--admission-address=127.0.0.1:" + admission,
	})
	program.SetErr(log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	d := &drover{cancel: cancel, ended: make(chan error, 1)}
	go func() { d.ended <- program.ExecuteContext(ctx) }()
	t.Cleanup(func() { d.end(t) })
	plane.Until(t, 2*time.Minute, func() string {
		response, err := http.Get("http://127.0.0.1:" + health + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
	return d
}

// end stops the server, and waits for it.
func (d *drover) end(t *testing.T) {
	t.Helper()
	d.once.Do(func() {
		d.cancel()
		select {
		case err := <-d.ended:
			if err != nil {
				t.Errorf("drover has ended: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("drover did not end within a minute")
		}
	})
}

// person is an administrator with the user agent of kubectl. It records the warnings of the API server.
type person struct {
	client.Client
	mu       sync.Mutex
	warnings []string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	p := &person{}
	config := plane.Config(t, "contract-tests")
	config.Impersonate = rest.ImpersonationConfig{UserName: "alice",
		Groups: []string{"system:masters", "system:authenticated"}}
	config.WarningHandlerWithContext = p
	var err error
	p.Client, err = client.New(config, client.Options{})
	check(t, err)
	return p
}

// HandleWarningHeaderWithContext records a warning.
func (p *person) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warnings = append(p.warnings, text)
}

// warned returns the warnings since its last call.
func (p *person) warned() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.warnings
	p.warnings = nil
	return out
}

// apply is `kubectl apply --server-side`.
func (p *person) apply(t *testing.T, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	t.Helper()
	return p.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
		append(options, client.FieldOwner("kubectl"), client.ForceOwnership)...)
}

// annotate is `kubectl annotate`. An empty value removes the annotation.
func (p *person) annotate(t *testing.T, object client.Object, value string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"drover.io/protect":null}}}`
	if value != "" {
		patch = `{"metadata":{"annotations":{"drover.io/protect":"` + value + `"}}}`
	}
	check(t, p.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// refused fails unless the error is a rejection with the text and, if given, the field.
func refused(t *testing.T, what string, err error, text, field string) {
	t.Helper()
	status := apierrors.APIStatus(nil)
	if wrong := unlike(what, err, text); wrong != "" {
		t.Error(wrong)
		return
	}
	if s, ok := err.(apierrors.APIStatus); ok {
		status = s
	}
	if field == "" {
		return
	}
	if status == nil || status.Status().Details == nil || !slices.ContainsFunc(status.Status().Details.Causes,
		func(c metav1.StatusCause) bool { return c.Field == field }) {
		t.Errorf("%s: the error names no field %s: %+v", what, field, status)
	}
}

// unlike returns "" if the error contains the text, and a description otherwise.
func unlike(what string, err error, text string) string {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Sprintf("%s: got error %v, want one with %q", what, err, text)
	}
	return ""
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// list returns the objects of a kind in a namespace.
func (p *person) list(t *testing.T, apiVersion, kind, namespace string) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	check(t, p.List(t.Context(), list, client.InNamespace(namespace)))
	return list.Items
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
