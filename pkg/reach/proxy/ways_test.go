package proxy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// stored is one Secret.
type stored string

func (s stored) Get(namespace, name string) (*corev1.Secret, error) {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data: map[string][]byte{KubeconfigKey: []byte(s)}}, nil
}

const written = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: YQ==CLUSTER}}]
users: [{name: u, user: {USER}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// A kubeconfig that users can write never makes Drover read local files, run a program or impersonate a user.
func TestWays_RefuseKubeconfigsThatReadFiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ user, cluster, want string }{
		"a token":       {user: "token: t"},
		"a certificate": {user: "client-certificate-data: YQ==, client-key-data: YQ=="},
		"Drover's own token": {user: "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
			want: "would read files"},
		"Drover's own certificate": {user: "client-certificate: /a, client-key: /b", want: "would read files"},
		"a program": {
			user: "exec: {apiVersion: client.authentication.k8s.io/v1, command: drover, interactiveMode: Never}",
			want: "run a program"},
		"another user": {user: "token: t, as: admin", want: "impersonate"},
		"an authority's file": {user: "token: t", cluster: ", certificate-authority: /etc/passwd",
			want: "would read files"},
	} {
		text := strings.NewReplacer("USER", tc.user, "CLUSTER", tc.cluster).Replace(written)
		config, err := NewWays(nil, stored(text), Servers{AllowLoopback: true}).RESTConfig(t.Context(),
			types.NamespacedName{Namespace: "a", Name: "b"})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v", name, err)
		}
		if (config != nil) != (tc.want == "") {
			t.Errorf("%s: sent %t", name, config != nil)
		}
	}
}
