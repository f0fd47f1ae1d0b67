package external

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

	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// TestExternalCAPI runs the same story with Cluster API's stock core manager, built from the pinned module. This is the
// situation in a cluster where Cluster API was installed before Drover.
func TestExternalCAPI(t *testing.T) {
	installCAPI(t)
	startCoreManager(t)
	st := stage.Start(t, stage.Settings{CAPI: server.CAPIExternal})
	clusters := st.Apply(plane.Namespace(t), 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	clusters.LogWrites()
	all := []*stage.Clusters{clusters}
	if os.Getenv("DROVER_TEST_ALL") != "" {
		all = append(all, st.ApplyTwenty(plane.Namespace(t)))
		all[1].AwaitReady()
		all[1].LogWrites()
	}
	stage.WatchRest(t, all...)
	clusters.Delete()
}

// installCAPI installs Cluster API's CRDs as another program would.
func installCAPI(t *testing.T) {
	t.Helper()
	definitions, err := crds.Read(os.DirFS(filepath.Join(plane.Root(t), "pkg", "kube", "capi", "crds")))
	if err != nil {
		t.Fatal(err)
	}
	client, err := apiextclient.NewForConfig(plane.Config(t, "contract-tests"))
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		_, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition,
			metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	if _, err := crds.Ensure(t.Context(), client.ApiextensionsV1().CustomResourceDefinitions(), definitions,
		crds.Options{HostOwned: true}); err != nil {
		t.Fatal(err)
	}
}

// startCoreManager builds and starts the stock core manager. It stops the manager when the test ends.
func startCoreManager(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "core-manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "sigs.k8s.io/cluster-api/core")
	build.Stderr = t.Output()
	if err := build.Run(); err != nil {
		t.Fatalf("build the core manager: %v", err)
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
	health := stage.FreePort(t)
	command := exec.Command(program,
		"--kubeconfig="+plane.Kubeconfig(t), "--webhook-cert-dir="+dir, "--webhook-port="+stage.FreePort(t),
		"--health-addr=127.0.0.1:"+health,
		"--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
	)
	log, err := os.Create(filepath.Join(plane.Dir(t), "logs", "core-manager.log"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = log, log
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
			t.Errorf("stop the core manager: %v", err)
		}
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			_ = command.Process.Kill() // it did not stop by itself
			<-done
		}
		_ = log.Close() // the program that writes it has ended
	})
	plane.Until(t, time.Minute, func() string { return healthy(t.Context(), "http://127.0.0.1:"+health+"/readyz") })
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
