package reach

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/tests/contract/plane"
)

// kubeconfig writes the kubeconfig of a cluster to a file.
func (w *world) kubeconfig(namespace, name string) string {
	w.Helper()
	path := filepath.Join(w.dir, namespace+"-"+name)
	plane.Until(w, time.Minute, func() string {
		secret, err := w.secret(namespace, name+"-kubeconfig")
		if err != nil {
			return err.Error()
		}
		w.must(os.WriteFile(path, secret.Data["value"], 0o600))
		return ""
	})
	return path
}

// account creates a service account of the management cluster and returns its token.
func (w *world) account(namespace, name string) string {
	w.Helper()
	accounts := w.upstream.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Get(w.Context(), name, metav1.GetOptions{}); err != nil {
		_, err := accounts.Create(w.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		w.must(err)
	}
	return w.kubectlOK(plane.Kubeconfig(w), "", "-n", namespace, "create", "token", name)
}

// userKubeconfig writes a kubeconfig for a cluster with a service account of the management cluster, which may or may
// not have the right to get it.
func (w *world) userKubeconfig(namespace, account, id string) string {
	w.Helper()
	token := w.account(namespace, account)
	path := filepath.Join(w.dir, account+"-"+id)
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "%s/k8s/clusters/%s", certificate-authority-data: %s}}], users: [{name: u, user: {token: "%s"}}]}`,
		w.server.ServerURL, id, base64.StdEncoding.EncodeToString([]byte(w.authority())), token)
	w.must(os.WriteFile(path, []byte(content), 0o600))
	return path
}

// managementOf writes a kubeconfig for the management cluster with a service account.
func (w *world) managementOf(namespace, account string) string {
	w.Helper()
	config, err := clientcmd.LoadFromFile(plane.Kubeconfig(w))
	w.must(err)
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{
		config.Contexts[config.CurrentContext].AuthInfo: {Token: w.account(namespace, account)}}
	path := filepath.Join(w.dir, account+"-management")
	w.must(clientcmd.WriteToFile(*config, path))
	return path
}

// writtenKubeconfig runs drover kubeconfig as a service account of the management cluster whose only right is to get
// the Cluster.
func (w *world) writtenKubeconfig(namespace, account, cluster string) string {
	w.Helper()
	management, path := w.managementOf(namespace, account), filepath.Join(w.dir, account+"-"+cluster)
	program, err := plane.Binary("drover")
	w.must(err)
	plane.Until(w, 30*time.Second, func() string {
		out, err := exec.CommandContext(w.Context(), program, "kubeconfig", cluster, "-n", namespace, "--kubeconfig",
			management).Output()
		if err != nil {
			var failed *exec.ExitError
			_ = errors.As(err, &failed)
			return fmt.Sprintf("drover kubeconfig: %v\n%s", err, failed.Stderr)
		}
		w.must(os.WriteFile(path, out, 0o600))
		return ""
	})
	return path
}
