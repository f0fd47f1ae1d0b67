// Package kubeconfig makes kubeconfigs that reach clusters through Drover. They hold no credential: they call drover
// token, which prints the user's own.
package kubeconfig

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Through returns a kubeconfig with one context, which reaches a cluster through Drover's endpoints.
func Through(way proxy.Proxied, name string, user *clientcmdapi.AuthInfo) *clientcmdapi.Config {
	written := clientcmdapi.NewConfig()
	written.CurrentContext = name
	Add(written, name, &clientcmdapi.Cluster{Server: way.Address(), CertificateAuthorityData: way.Authority}, user)
	return written
}

// Add adds a context, with a cluster and a user of the same name.
func Add(written *clientcmdapi.Config, name string, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
	written.Clusters[name], written.AuthInfos[name], written.Contexts[name] = cluster, user,
		&clientcmdapi.Context{Cluster: name, AuthInfo: name}
}

// AddNamed adds the context for the name in a cluster's authorized endpoint, if it has one.
func AddNamed(written *clientcmdapi.Config, name string, cluster *provv1.Cluster, user *clientcmdapi.AuthInfo) {
	endpoint := cluster.Spec.LocalClusterAuthEndpoint
	if host, ok := topology.EndpointHost(endpoint.FQDN); ok && endpointtoken.Wanted(cluster) {
		Add(written, name+"-fqdn",
			&clientcmdapi.Cluster{Server: "https://" + host, CertificateAuthorityData: []byte(endpoint.CACerts)}, user)
	}
}

// TokenOf is the argument of drover token that requests a token for one cluster only. The users of a Cluster choose the
// host of its authorized endpoint. That host must not see a credential for the management cluster.
func TokenOf(cluster *provv1.Cluster) string {
	return "--cluster=" + cluster.Namespace + "/" + cluster.Name
}

// Plugin returns a user that calls drover token, with more arguments. file and context select the management cluster;
// empty means the user's own choice.
func Plugin(file, context string, more ...string) *clientcmdapi.AuthInfo {
	args := append([]string{"token"}, more...)
	if file != "" {
		args = append(args, "--kubeconfig="+file)
	}
	if context != "" {
		args = append(args, "--context="+context)
	}
	return &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: clientauthv1.SchemeGroupVersion.String(), Command: "drover", Args: args,
		InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
		InstallHint:     "This kubeconfig was written by drover kubeconfig: it needs the program drover in the PATH.",
	}}
}

// Published returns the settings of the server that manages a cluster. Every user may get one instance's settings by
// name, but few users may list them.
func Published(ctx context.Context, client kubernetes.Interface, cluster *provv1.Cluster) (controllers.Settings,
	error) {
	instance, all := cluster.Annotations[rkev1.InstanceAnnotation],
		client.CoreV1().ConfigMaps(controllers.SettingsNamespace)
	var there []corev1.ConfigMap
	if instance == "" {
		found, err := all.List(ctx, metav1.ListOptions{LabelSelector: controllers.SettingsLabel})
		if err != nil {
			return controllers.Settings{},
				fmt.Errorf("read the address that Drover has published; use --server if you may not read it: %w", err)
		}
		there = found.Items
	} else {
		found, err := all.Get(ctx, controllers.SettingsName(instance), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return controllers.Settings{},
				fmt.Errorf("read the address that Drover has published; use --server if you may not read it: %w", err)
		}
		if err == nil {
			there = []corev1.ConfigMap{*found}
		}
	}
	settings, ok := controllers.PublishedSettings(there, instance)
	if !ok || settings.ServerURL == "" {
		return controllers.Settings{}, errors.New("the server of this cluster has published no address; use --server")
	}
	return settings, nil
}
