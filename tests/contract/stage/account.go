package stage

import (
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
)

// tokenTTL is longer than any story.
const tokenTTL = 6 * time.Hour

// AccountConfig returns the client configuration of the chart's account, with the chart's rights for the given Cluster
// API. See AccountKubeconfig.
func AccountConfig(t *testing.T, capi server.CAPIMode) *rest.Config {
	t.Helper()
	return chartAccount(t, plane.Running(t), capi, nil)
}

// AccountKubeconfig returns the path of a kubeconfig with the chart's account, for a Drover in a separate process. The
// account has only the chart's rights, and the test fails if Drover requests more.
func AccountKubeconfig(t *testing.T) string {
	t.Helper()
	config := AccountConfig(t, server.CAPIEmbedded)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "drover",
		Contexts:       map[string]*clientcmdapi.Context{"drover": {Cluster: "drover", AuthInfo: "drover"}},
		Clusters: map[string]*clientcmdapi.Cluster{"drover": {Server: config.Host,
			CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"drover": {Token: config.BearerToken}},
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// chartAccount creates the chart's account, its rights and its API priority in a management plane, if they do not
// exist. The core also gets the rights on the kinds of providers, by their API groups. chartAccount returns a client
// configuration for the account. At its end, the test fails for all rejected requests of the account.
func chartAccount(t *testing.T, p *managementplane.Plane, capi server.CAPIMode, providers []string) *rest.Config {
	t.Helper()
	admin := p.RESTConfig()
	admin.UserAgent, admin.QPS = "contract-tests", -1
	c, err := client.New(admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	extra := []any{}
	for _, group := range providers {
		extra = append(extra, map[string]any{"apiGroup": group})
	}
	objects, err := charts.Objects(filepath.Join(plane.Root(t), "charts", "drover"), charts.Release{}, map[string]any{
		"server": map[string]any{"url": "https://drover.test", "capi": string(capi), "crds": "install"},
		"rbac":   map[string]any{"extraProviders": extra},
	})
	if err != nil {
		t.Fatal(err)
	}
	ensure(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: charts.SystemNamespace}})
	for _, object := range objects {
		switch group := object.GroupVersionKind().Group; {
		case group == rbacv1.GroupName, group == flowcontrolv1.GroupName, object.GetKind() == "ServiceAccount":
			ensure(t, c, object)
		}
	}
	expectNoRefusals(t, p.AuditLog(), time.Now())
	return withToken(t, admin)
}

// ensure creates an object, or updates an object of a set-up with other values.
func ensure(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	err := c.Create(t.Context(), object)
	wanted, isRole := object.(*unstructured.Unstructured)
	if apierrors.IsAlreadyExists(err) && isRole && wanted.GetKind() == "ClusterRole" {
		err = c.Update(t.Context(), wanted)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func withToken(t *testing.T, admin *rest.Config) *rest.Config {
	t.Helper()
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := kube.CoreV1().ServiceAccounts(charts.SystemNamespace).CreateToken(t.Context(), "drover",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenTTL.Seconds()))},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken, config.QPS, config.UserAgent = answer.Status.Token, -1, ""
	return config
}

// chartUser is the user of the chart's account.
const chartUser = "system:serviceaccount:" + charts.SystemNamespace + ":drover"

// expectNoRefusals fails the test at its end for the chart account's rejected requests since a moment. Drover has ended
// then and sends no more requests.
func expectNoRefusals(t *testing.T, log string, since time.Time) {
	t.Helper()
	t.Cleanup(func() {
		refusals, err := audit.ReadRefusals(log)
		if err != nil {
			t.Error(err)
		}
		told := map[string]bool{}
		for _, refused := range refusals {
			// Drover also sends requests of users of the web UI, with their credentials.
			if refused.Time.Before(since) || refused.User != chartUser {
				continue
			}
			if what := describe(refused); !told[what] {
				t.Errorf("refused to Drover with the chart's rights: %s", what)
				told[what] = true
			}
		}
	})
}
