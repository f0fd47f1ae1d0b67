package clusterctl

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/cmd"
	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// startTime is the time within which the server must be ready, and endTime that within which it must end.
const (
	startTime = 2 * time.Minute
	endTime   = time.Minute
)

// runServer runs the program with the arguments and the account of its Deployment. It waits until the server is ready,
// and returns a function that ends it. The API server must not refuse any of its requests.
func runServer(t *testing.T, admin client.Client, port string) (stop func()) {
	t.Helper()
	begin, health := time.Now(), stage.FreePort(t)
	arguments := deployment(t, admin).Spec.Template.Spec.Containers[0].Args
	program := cmd.NewCommand(nil)
	program.SetArgs(slices.Concat(arguments, []string{"--bind-address=127.0.0.1", "--port=" + port,
		"--health-address=127.0.0.1:" + health, "--admission-address=127.0.0.1:" + stage.FreePort(t),
		"--shutdown-delay=0s", "--data-dir=" + t.TempDir(), "--kubeconfig=" + accountKubeconfig(t, admin)}))
	program.SetErr(t.Output())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- program.ExecuteContext(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("drover has ended: %v", err)
			}
		case <-time.After(endTime):
			t.Errorf("drover did not end within %s", endTime)
		}
		expectNoRefusals(t, begin)
	})
	t.Cleanup(stop)
	plane.Until(t, startTime, func() string { return unready("http://127.0.0.1:" + health + "/readyz") })
	return stop
}

// accountKubeconfig returns a kubeconfig with a token of the Deployment's account.
func accountKubeconfig(t *testing.T, admin client.Client) string {
	t.Helper()
	config := plane.Config(t, "")
	kube, err := kubernetes.NewForConfig(config)
	check(t, err)
	account := deployment(t, admin).Spec.Template.Spec.ServiceAccountName
	token, err := kube.CoreV1().ServiceAccounts(charts.SystemNamespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const name = "drover"
	check(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		Clusters: map[string]*clientcmdapi.Cluster{name: {Server: config.Host,
			CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}},
	}, path))
	return path
}

func expectNoRefusals(t *testing.T, since time.Time) {
	t.Helper()
	refusals, err := audit.ReadRefusals(plane.Running(t).AuditLog())
	check(t, err)
	for _, refused := range refusals {
		if refused.Time.After(since) {
			t.Errorf("refused to Drover with the rights of its components: %+v", refused)
		}
	}
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
	if err != nil {
		t.Fatal(err)
	}
}
