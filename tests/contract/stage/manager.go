package stage

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
)

// StartCoreManager installs Cluster API's CRDs as another program would, and runs Cluster API's stock core manager,
// built from the pinned module, until the test ends.
func StartCoreManager(t *testing.T, p *managementplane.Plane) {
	t.Helper()
	definitions, err := crds.Read(os.DirFS(filepath.Join(plane.Root(t), "pkg", "kube", "capi", "crds")))
	if err != nil {
		t.Fatal(err)
	}
	InstallCRDs(t, p, definitions)
	StartManager(t, p, filepath.Join(plane.Root(t), "tests"), "sigs.k8s.io/cluster-api/core")
}

// InstallCRDs installs CRDs that do not belong to Drover.
func InstallCRDs(t *testing.T, p *managementplane.Plane, definitions []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	all, err := apiextclient.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	client := all.ApiextensionsV1().CustomResourceDefinitions()
	for _, definition := range definitions {
		_, err := client.Create(t.Context(), definition, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	if _, err := crds.Ensure(t.Context(), client, definitions, crds.Options{HostOwned: true}); err != nil {
		t.Fatal(err)
	}
}

// StartManager builds the manager of Cluster API's core or of one of its providers, in the module in a directory. It
// runs the manager with a management plane, on loopback only, until the test ends.
func StartManager(t *testing.T, p *managementplane.Plane, module, pkg string, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", module, "-o", program, pkg)
	build.Stderr = t.Output()
	if err := build.Run(); err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	health := FreePort(t)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), program, append(flags,
		"--kubeconfig="+p.Kubeconfig(), "--webhook-cert-dir="+dir, "--webhook-port="+FreePort(t),
		"--health-addr=127.0.0.1:"+health,
		"--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
	)...)
	log, err := os.Create(filepath.Join(filepath.Dir(p.Kubeconfig()), "logs", filepath.Base(pkg)+"-manager.log"))
	if err != nil {
		t.Fatal(err)
	}
	command.Env = append(os.Environ(), "POD_IP=127.0.0.1")
	command.Stdout, command.Stderr = log, log
	runManager(t, command, log)
	plane.Until(t, time.Minute, func() string { return healthy(t.Context(), "http://127.0.0.1:"+health+"/readyz") })
}

// runManager runs a command until the test ends.
func runManager(t *testing.T, command *exec.Cmd, log *os.File) {
	t.Helper()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = command.Wait() // it ends on the signal
	}()
	t.Cleanup(func() {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("stop the manager: %v", err)
		}
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			_ = command.Process.Kill() // it did not stop by itself
			<-done
		}
		_ = log.Close() // the program that writes it has ended
	})
}

func healthy(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	if err := response.Body.Close(); err != nil {
		return err.Error()
	}
	if response.StatusCode != http.StatusOK {
		return url + " answers " + response.Status
	}
	return ""
}
