package ui

import (
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// clusterTime is the limit until a simulated cluster is ready.
const clusterTime = 2 * time.Minute

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func kube(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(plane.Config(t, "ui-tests"))
	check(t, err)
	return client
}

// token creates a ServiceAccount without permissions and returns a token of it.
func token(t *testing.T, namespace, name string) string {
	t.Helper()
	return tokenOf(t, kube(t), namespace, name)
}

func tokenOf(t *testing.T, client kubernetes.Interface, namespace, name string) string {
	t.Helper()
	accounts := client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	check(t, err)
	answer, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(time.Hour.Seconds()))},
	}, metav1.CreateOptions{})
	check(t, err)
	return answer.Status.Token
}

// administrator returns a token of an account that may do everything.
func administrator(t *testing.T, namespace string) string {
	t.Helper()
	return administratorOf(t, kube(t), namespace)
}

func administratorOf(t *testing.T, client kubernetes.Interface, namespace string) string {
	t.Helper()
	name := "admin-of-" + namespace
	bindings := client.RbacV1().ClusterRoleBindings()
	_, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "admin"}},
	}, metav1.CreateOptions{})
	check(t, err)
	return tokenOf(t, client, namespace, "admin")
}

// viewer returns a token of an account that may read the objects that the UI shows, in one namespace.
func viewer(t *testing.T, namespace, name string) string {
	t.Helper()
	rbac := kube(t).RbacV1()
	_, err := rbac.Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"provisioning.cattle.io", "cluster.x-k8s.io", "rke.cattle.io", "rke-machine.cattle.io"},
			Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"},
		}, {APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"get", "list"}}},
	}, metav1.CreateOptions{})
	check(t, err)
	_, err = rbac.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}, metav1.CreateOptions{})
	check(t, err)
	return token(t, namespace, name)
}
