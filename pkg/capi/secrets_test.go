package capi

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stored is a reader of one Secret.
type stored struct {
	client.Reader
	kubeconfig string
}

func (s stored) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if secret, ok := obj.(*corev1.Secret); ok {
		secret.Data = map[string][]byte{"value": []byte(s.kubeconfig)}
	}
	return nil
}

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: YQ==CLUSTER}}]
users: [{name: u, user: {USER}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// What the users of a namespace may write never has us read our own files, run a program or pretend to be somebody.
func TestHarmless_GivesNoKubeconfigThatReadsOurFiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ user, cluster, want string }{
		"a token":             {user: "token: t"},
		"a certificate":       {user: "client-certificate-data: YQ==, client-key-data: YQ=="},
		"our own token":       {user: "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", want: "would read files"},
		"our own certificate": {user: "client-certificate: /a, client-key: /b", want: "would read files"},
		"a program":           {user: "exec: {apiVersion: client.authentication.k8s.io/v1, command: drover, interactiveMode: Never}", want: "run a program"},
		"somebody else":       {user: "token: t, as: admin", want: "impersonate"},
		"an authority's file": {user: "token: t", cluster: ", certificate-authority: /etc/passwd", want: "would read files"},
	} {
		text := strings.NewReplacer("USER", tc.user, "CLUSTER", tc.cluster).Replace(kubeconfig)
		secret := &corev1.Secret{}
		err := harmless{stored{kubeconfig: text}}.Get(t.Context(), types.NamespacedName{Namespace: "a", Name: "b"}, secret)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v", name, err)
		}
		if given := len(secret.Data) > 0; given != (tc.want == "") {
			t.Errorf("%s: is given %t", name, given)
		}
	}
}
