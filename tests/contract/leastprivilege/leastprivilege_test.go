package leastprivilege

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/cmd"
	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// installation is the chart in the management cluster.
type installation struct {
	// arguments are the program's arguments from its Deployment.
	arguments []string
	recorder  *recorder
}

// TestLeastPrivilege runs the life of clusters with a Drover that has the chart's rights.
func TestLeastPrivilege(t *testing.T) {
	port, health, admission := stage.FreePort(t), stage.FreePort(t), stage.FreePort(t)
	in := install(t, map[string]any{
		"server": map[string]any{"url": "https://127.0.0.1:" + port, "crds": "host"},
		"machines": map[string]any{"provisionImage": map[string]any{"registry": "", "tag": "test",
			"pullPolicy": "IfNotPresent"}},
	})
	defer in.check(t) // also after another failure, because a rejection may explain it
	st := stage.Start(t, stage.Settings{Drover: func(t *testing.T) {
		in.run(t, "--bind-address=127.0.0.1", "--port="+port, "--health-address=127.0.0.1:"+health,
			"--admission-address=127.0.0.1:"+admission,
			"--data-dir="+t.TempDir())
		plane.Until(t, 2*time.Minute, func() string { return unready("http://127.0.0.1:" + health + "/readyz") })
	}})
	namespace := plane.Namespace(t)
	clusters := st.Apply(namespace, 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	in.ping(t, st, port)
	st.Edit(namespace, "k3s", func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(1)) })
	st.Edit(namespace, "rke2", func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[1].UnhealthyNodeTimeout = &metav1.Duration{Duration: time.Hour}
	})
	st.AwaitMachines(namespace, 5)
	st.Edit(namespace, "rke2", func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].UnhealthyNodeTimeout = nil })
	st.Edit(namespace, "k3s", func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools = c.Spec.RKEConfig.MachinePools[:1]
	})
	st.AwaitMachines(namespace, 4)
	clusters.Delete()
	removeDriver(t, st, namespace)
}

// removeDriver removes the driver with its configuration, and waits until its kinds are gone.
func removeDriver(t *testing.T, st *stage.Stage, namespace string) {
	t.Helper()
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("rke-machine-config.cattle.io/v1")
	config.SetKind("SimConfig")
	check(t, st.Client.DeleteAllOf(t.Context(), config, client.InNamespace(namespace)))
	check(t, st.Client.Delete(t.Context(), &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "sim"}}))
	plane.Until(t, time.Minute, func() string {
		schema := &mgmtv3.DynamicSchema{ObjectMeta: metav1.ObjectMeta{Name: "simconfig"}}
		if left := st.Gone(schema); left != "" {
			return left
		}
		definition := &unstructured.Unstructured{}
		definition.SetAPIVersion("apiextensions.k8s.io/v1")
		definition.SetKind("CustomResourceDefinition")
		definition.SetName("simconfigs.rke-machine-config.cattle.io")
		return st.Gone(definition)
	})
}

// ping sends the request of the chart's test. It trusts the authority that Drover has created.
func (in *installation) ping(t *testing.T, st *stage.Stage, port string) {
	t.Helper()
	authority := &corev1.Secret{}
	check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: charts.SystemNamespace, Name: "drover-ca"},
		authority))
	file := filepath.Join(t.TempDir(), "ca.crt")
	check(t, os.WriteFile(file, authority.Data[corev1.TLSCertKey], 0o600))
	program := cmd.NewCommand(nil)
	program.SetArgs([]string{"ping", "https://127.0.0.1:" + port, "--cacerts-file=" + file})
	program.SetOut(t.Output())
	program.SetErr(t.Output())
	if err := program.ExecuteContext(t.Context()); err != nil {
		t.Errorf("machines cannot use the server: %v", err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority.Data[corev1.TLSCertKey])
	if code := asStranger(t, trusted, "https://127.0.0.1:"+port+
		"/k8s/clusters/c-m-12345678/version"); code != http.StatusUnauthorized {
		t.Errorf("a request of a stranger for a cluster gets %d", code)
	}
}

// asStranger sends a request with a token that the management cluster does not know, and returns the status code.
func asStranger(t *testing.T, trusted *x509.CertPool, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check(t, err)
	request.Header.Set("Authorization", "Bearer stranger")
	asks := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted,
		MinVersion: tls.VersionTLS12}}}
	answer, err := asks.Do(request)
	check(t, err)
	check(t, answer.Body.Close())
	return answer.StatusCode
}

// install renders both charts and creates the objects that Drover needs to run outside a pod. All other objects must be
// valid.
func install(t *testing.T, values map[string]any) *installation {
	t.Helper()
	admin, err := client.New(plane.Config(t, "contract-tests"), client.Options{})
	check(t, err)
	directory := filepath.Join(plane.Root(t), "charts")
	definitions, err := charts.Objects(filepath.Join(directory, "drover-crd"), charts.Release{Name: "drover-crd"}, nil)
	check(t, err)
	for _, definition := range definitions {
		check(t, admin.Create(t.Context(), definition))
	}
	check(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: charts.SystemNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})))
	in := &installation{}
	objects, err := charts.Objects(filepath.Join(directory, "drover"), charts.Release{}, values)
	check(t, err)
	for _, object := range objects {
		switch group := object.GroupVersionKind().Group; {
		case group == rbacv1.GroupName || group == admissionregistrationv1.GroupName ||
			object.GetKind() == "ServiceAccount":
			check(t, admin.Create(t.Context(), object.DeepCopy()))
		default:
			check(t, admin.Create(t.Context(), object.DeepCopy(), client.DryRunAll))
		}
		if object.GetKind() == "Deployment" {
			in.arguments = argumentsOf(t, object)
		}
	}
	if *update {
		unbind(t, admin)
	}
	kube, err := kubernetes.NewForConfig(plane.Config(t, "contract-tests"))
	check(t, err)
	account, err := kube.CoreV1().ServiceAccounts(charts.SystemNamespace).CreateToken(t.Context(), "drover",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(7200))},
		}, metav1.CreateOptions{})
	check(t, err)
	in.recorder = newRecorder(t, plane.Config(t, ""), account.Status.Token)
	return in
}

func argumentsOf(t *testing.T, deployment *unstructured.Unstructured) []string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	check(t, err)
	arguments, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	check(t, err)
	return arguments
}

// run runs the program with the chart's arguments and overrides until the test ends.
func (in *installation) run(t *testing.T, overrides ...string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, os.WriteFile(kubeconfig, in.recorder.kubeconfig, 0o600))
	log, err := os.Create(filepath.Join(plane.Dir(t), "logs", "drover.log"))
	check(t, err)
	program := cmd.NewCommand(nil)
	program.SetArgs(slices.Concat(in.arguments, overrides, []string{"--kubeconfig=" + kubeconfig}))
	program.SetErr(log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- program.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("drover has ended: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("drover did not end within a minute")
		}
	})
}

func unready(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return url + " answers " + response.Status
	}
	return ""
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}
