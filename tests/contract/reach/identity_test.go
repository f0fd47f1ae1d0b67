package reach

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/tests/contract/plane"
)

// identityCase is a request with impersonation headers.
type identityCase struct {
	// rights are the caller's impersonation rights in the management cluster, as GROUP/RESOURCE or GROUP/RESOURCE=NAME.
	rights []string
	header http.Header
	// as is the user that the cluster sees: NAME | UID | groups | extras.
	as string
	// refused is the status code and a part of the message of a rejected request.
	refused string
}

func identityCases(namespace string) map[string]identityCase {
	account := "system:serviceaccount:" + namespace + ":caller"
	return map[string]identityCase{
		"without impersonation": {
			as: "system:drover:serviceaccount:NS:CALLER | UID | " +
				"system:authenticated,system:drover:serviceaccounts,system:drover:serviceaccounts:NS | ",
		},
		"a user without permission for impersonation": {
			header:  http.Header{"Impersonate-User": {"joe"}},
			refused: `403 may not impersonate users "joe"`,
		},
		"a user with permission for impersonation": {
			rights: []string{"/users=joe"},
			header: http.Header{"Impersonate-User": {"joe"}}, as: "joe |  | system:authenticated | ",
		},
		"another user than permitted": {
			rights: []string{"/users=joe"},
			header: http.Header{"Impersonate-User": {"jane"}}, refused: `403 may not impersonate users "jane"`,
		},
		"a group without permission": {
			rights:  []string{"/users"},
			header:  http.Header{"Impersonate-User": {"joe"}, "Impersonate-Group": {"testers"}},
			refused: `403 may not impersonate groups "testers"`,
		},
		"groups with permission": {
			rights: []string{"/users", "/groups"},
			header: http.Header{"Impersonate-User": {"joe"}, "Impersonate-Group": {"testers", "readers"}},
			as:     "joe |  | readers,system:authenticated,testers | ",
		},
		"a UID and an extra": {
			rights: []string{"/users", "authentication.k8s.io/uids",
				"authentication.k8s.io/userextras/example.com/scope"},
			header: http.Header{"Impersonate-User": {"joe"}, "Impersonate-Uid": {"u-9"},
				"Impersonate-Extra-Example.com%2fscope": {"a"}},
			as: "joe | u-9 | system:authenticated | example.com/scope=a",
		},
		"a service account, which differs in the cluster": {
			rights: []string{"/serviceaccounts"},
			header: http.Header{"Impersonate-User": {account}},
			as: "system:drover:serviceaccount:NS:caller |  | " +
				"system:authenticated,system:drover:serviceaccounts,system:drover:serviceaccounts:NS | ",
		},
		"system:masters, with all permissions": {
			rights:  []string{"/users", "/groups"},
			header:  http.Header{"Impersonate-User": {"joe"}, "Impersonate-Group": {"system:masters"}},
			refused: "403 system:masters",
		},
		"an administrator of clusters, by name": {
			rights: []string{"/users", "/groups"},
			header: http.Header{"Impersonate-User": {"joe"}, "Impersonate-Group": {"system:drover:cluster-admin"}},
			as:     "joe |  | system:authenticated,system:drover:cluster-admin | ",
		},
		"a component of Kubernetes, which is an ordinary user in the cluster": {
			rights: []string{"/users"},
			header: http.Header{"Impersonate-User": {"system:kube-scheduler"}},
			as:     "system:drover:user:kube-scheduler |  | system:authenticated | ",
		},
		"nobody": {
			rights:  []string{"/users"},
			header:  http.Header{"Impersonate-User": {"system:anonymous"}},
			refused: `403 User "system:anonymous" cannot create`,
		},
		"a group without a user": {
			rights: []string{"/users", "/groups"},
			header: http.Header{"Impersonate-Group": {"testers"}}, refused: "400 Impersonate-User",
		},
		"headers for other proxies are ignored": {
			header: http.Header{"X-Remote-User": {"joe"}, "X-Remote-Group": {"system:masters"}},
			as: "system:drover:serviceaccount:NS:CALLER | UID | " +
				"system:authenticated,system:drover:serviceaccounts,system:drover:serviceaccounts:NS | ",
		},
	}
}

// identities checks which user the cluster sees, by the answers of its API server. All callers may get the Cluster.
func (w *world) identities(namespace, id, administrator string) {
	w.Helper()
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "role", "callers", "--verb=get",
		"--resource=clusters.provisioning.cattle.io", "--resource-name=imported")
	w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "rolebinding", "callers", "--role=callers",
		"--group=system:serviceaccounts:"+namespace)
	number := 0
	for name, test := range identityCases(namespace) {
		caller := fmt.Sprint("caller-", number)
		number++
		w.Run(name, func(t *testing.T) { w.of(t).identity(namespace, id, caller, test) })
	}
	w.Run("rights there", func(t *testing.T) { w.of(t).canI(namespace, id, administrator) })
	w.Run("without a credential", func(t *testing.T) {
		w := w.of(t)
		for _, header := range []http.Header{nil, {"Authorization": {"Bearer wrong"}},
			{"Authorization": {"Basic eDp5"}}} {
			here, one := w.fetch(w.server.ServerURL+"/k8s/clusters/"+id+"/version", header)
			absent, other := w.fetch(w.server.ServerURL+"/k8s/clusters/c-m-absent00/version", header)
			if here != http.StatusUnauthorized || absent != here || one != strings.ReplaceAll(other, "c-m-absent00",
				id) {
				w.Errorf("header %v: a request for a cluster gets %d %s, for a missing one %d %s", header, here, one,
					absent, other)
			}
		}
	})
}

// identity asks the cluster for the user of a caller. It retries, because new rights take effect with a delay.
func (w *world) identity(namespace, id, caller string, test identityCase) {
	w.Helper()
	kubeconfig := w.userKubeconfig(namespace, caller, id)
	w.permit(namespace, caller, test.rights)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	w.must(err)
	client, err := rest.HTTPClientFor(config)
	w.must(err)
	defer client.CloseIdleConnections()
	plane.Until(w, 30*time.Second, func() string {
		status, body := w.review(client, config.Host, test.header)
		if test.refused != "" {
			code, part, _ := strings.Cut(test.refused, " ")
			if strconv.Itoa(status) != code || !strings.Contains(body, part) {
				return fmt.Sprintf("the answer is %d %s, want %s", status, body, test.refused)
			}
			return ""
		}
		want := strings.NewReplacer("NS", namespace, "CALLER", caller).Replace(test.as)
		if diff := cmp.Diff(want, said(body)); diff != "" {
			return fmt.Sprintf("the answer is %d: the user (-want +got):\n%s", status, diff)
		}
		return ""
	})
}

// permit lets a caller impersonate in the management cluster until the test ends.
func (w *world) permit(namespace, caller string, rights []string) {
	w.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + caller}}
	for _, right := range rights {
		what, name, named := strings.Cut(right, "=")
		group, resource, _ := strings.Cut(what, "/")
		rule := rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{group},
			Resources: []string{resource}}
		if named {
			rule.ResourceNames = []string{name}
		}
		role.Rules = append(role.Rules, rule)
	}
	roles, bindings := w.upstream.RbacV1().ClusterRoles(), w.upstream.RbacV1().ClusterRoleBindings()
	_, err := roles.Create(w.Context(), role, metav1.CreateOptions{})
	w.must(err)
	_, err = bindings.Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: caller}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() {
		ctx := context.WithoutCancel(w.Context())
		_ = bindings.Delete(ctx, role.Name, metav1.DeleteOptions{})
		_ = roles.Delete(ctx, role.Name, metav1.DeleteOptions{})
	})
}

// review posts a SelfSubjectReview.
func (w *world) review(client *http.Client, host string, header http.Header) (int, string) {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodPost,
		host+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
	w.must(err)
	maps.Copy(request.Header, header)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	w.must(err)
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	w.must(err)
	var failure struct{ Message string }
	if response.StatusCode/100 != 2 && json.Unmarshal(body.Bytes(), &failure) == nil {
		return response.StatusCode, failure.Message
	}
	return response.StatusCode, body.String()
}

// said returns the user of a SelfSubjectReview. It omits the UID of an account, which varies.
func said(body string) string {
	var review authenticationv1.SelfSubjectReview
	if err := json.Unmarshal([]byte(body), &review); err != nil {
		return body
	}
	who := review.Status.UserInfo
	if len(who.UID) == 36 {
		who.UID = "UID"
	}
	var extras []string
	for key, values := range who.Extra {
		if !strings.Contains(key, "kubernetes.io") { // of the management cluster's credential
			extras = append(extras, key+"="+strings.Join(values, ","))
		}
	}
	slices.Sort(extras)
	slices.Sort(who.Groups)
	return strings.Join([]string{who.Username, who.UID, strings.Join(who.Groups, ","), strings.Join(extras, " ")},
		" | ")
}

// canI asks what a user may do in the cluster, as kubectl does.
func (w *world) canI(namespace, id, administrator string) {
	w.Helper()
	kubeconfig := w.userKubeconfig(namespace, "asker", id)
	w.kubectlOK(administrator, "", "create", "clusterrole", "lister", "--verb=list", "--resource=pods")
	w.kubectlOK(administrator, "", "create", "clusterrolebinding", "asker", "--clusterrole=lister",
		"--user=system:drover:serviceaccount:"+namespace+":asker")
	plane.Until(w, 30*time.Second, func() string {
		if out, err := w.kubectl(kubeconfig, "", "auth", "can-i", "list", "pods", "-A"); err != nil || out != "yes" {
			return fmt.Sprintf("a user with permission to list gets %q: %v", out, err)
		}
		return ""
	})
	for _, args := range [][]string{{"delete", "pods"}, {"get", "secrets"}, {"impersonate", "users"}, {"*", "*"}} {
		if out, err := w.kubectl(kubeconfig, "", append([]string{"auth", "can-i"}, args...)...); err == nil ||
			!strings.HasSuffix(out, "no") {
			w.Errorf("a user with permission to list can also %s: %q", strings.Join(args, " "), out)
		}
	}
	if out := w.kubectlOK(administrator, "", "auth", "can-i", "*", "*"); out != "yes" {
		w.Errorf("Drover itself gets %q", out)
	}
	// A credential of the cluster itself works only in the cluster, and not at Drover.
	token := w.kubectlOK(w.downstream.Kubeconfig(), "", "-n", "cattle-system", "create", "token", "cattle")
	content, err := os.ReadFile(kubeconfig)
	w.must(err)
	path := filepath.Join(w.dir, "from-there")
	before, _, found := bytes.Cut(content, []byte("token: "))
	if !found {
		w.Fatal("the kubeconfig has no token")
	}
	w.must(os.WriteFile(path, append(before, []byte("token: \""+token+"\"}}]}")...), 0o600))
	if out, err := w.kubectl(path, "", "get", "--raw", "/version"); err == nil {
		w.Errorf("Drover accepts a token of the cluster itself: %s", out)
	}
}
