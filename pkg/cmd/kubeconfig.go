package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/kubeconfig"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// kubeconfigOptions are the flags of drover kubeconfig.
type kubeconfigOptions struct {
	inspectOptions
	server, authority, name string
	merge                   bool
	// ask defaults to endpointServers.
	ask func(context.Context, *rest.Config, proxy.Proxied) (map[string]*clientcmdapi.Cluster, error)
}

func newKubeconfigCommand(environ []string, o *kubeconfigOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Write a kubeconfig that reaches a cluster through Drover",
		Long: `Write a kubeconfig that reaches a cluster through Drover's endpoints, as yourself. The kubeconfig
holds no credential. It calls drover token, which prints your credential for the management
cluster. You must be allowed to get the Cluster there. The cluster decides what you may do in it.

If the Cluster has an authorized endpoint (spec.localClusterAuthEndpoint), more contexts reach the
cluster without Drover. They use a token that is valid only for that cluster:

  NAME-fqdn   reaches the name in the endpoint's fqdn
  NAME-NODE   reaches one server; there is one for each server

Exit codes: 0 the kubeconfig is written; 1 an error. A kubeconfig that is written may lack contexts
that bypass Drover. The command prints why.`,
		Example: `  drover kubeconfig demo > demo.kubeconfig
  drover kubeconfig demo --merge && kubectl --context demo get nodes`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFromEnvironment(cmd.Flags(), environ)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfig)
	o.addNamespace(cmd, environ)
	f := cmd.Flags()
	f.StringVar(&o.server, "server", "",
		"`URL` of Drover's endpoints, instead of the one that the server has published")
	f.StringVar(&o.authority, "certificate-authority", "",
		"`file` with the authorities that verify the server, with --server")
	f.StringVar(&o.name, "name", "", "`name` of the context in the kubeconfig (default the cluster's name)")
	f.BoolVar(&o.merge, "merge", false, "add it to KUBECONFIG or ~/.kube/config, and keep the other entries")
	return cmd
}

func (o *kubeconfigOptions) run(ctx context.Context, cluster string, out, told io.Writer) error {
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	found, way, err := o.way(ctx, config, cluster)
	if err != nil {
		return err
	}
	written, single, err := o.write(way, found, o.servers(ctx, config, way, found, told), told)
	if err != nil {
		return err
	}
	if fqdn := found.Spec.LocalClusterAuthEndpoint.FQDN; fqdn != "" && endpointtoken.Wanted(found) {
		if _, ok := topology.EndpointHost(fqdn); !ok {
			fmt.Fprintf(told,
				"The kubeconfig gets no context for the authorized endpoint: spec.localClusterAuthEndpoint.fqdn of "+
					"the Cluster is %q, but must be HOST or HOST:PORT\n", fqdn)
		}
	}
	if !o.merge {
		data, err := clientcmd.Write(*written)
		if err != nil {
			return fmt.Errorf("encode kubeconfig: %w", err)
		}
		_, err = out.Write(data)
		return err
	}
	return mergeKubeconfig(written, single, told)
}

// servers returns the servers of a cluster's authorized endpoint, by the names of their nodes. If the list fails, the
// other contexts are still written.
func (o *kubeconfigOptions) servers(ctx context.Context, config *rest.Config, way proxy.Proxied,
	cluster *provv1.Cluster, told io.Writer) map[string]*clientcmdapi.Cluster {
	if !endpointtoken.Wanted(cluster) {
		return nil
	}
	ask := o.ask
	if ask == nil {
		ask = endpointServers
	}
	servers, err := ask(ctx, config, way)
	if err != nil {
		fmt.Fprintf(told, "The kubeconfig gets no contexts for single servers of the authorized endpoint: %v\n", err)
	}
	return servers
}

// mergeKubeconfig adds the written entries to the user's own kubeconfig.
func mergeKubeconfig(written *clientcmdapi.Config, single serverContexts, told io.Writer) error {
	access := clientcmd.NewDefaultPathOptions()
	present, err := access.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig to merge into: %w", err)
	}
	single.leaveOut(written, func(name string) string { return takenBy(present, written, name) }, told)
	single.forgetFormer(present, written, told)
	names := slices.Sorted(maps.Keys(written.Contexts))
	for _, name := range names {
		if taken := takenBy(present, written, name); taken != "" {
			return fmt.Errorf(
				"the kubeconfig has a %s %q that does not belong to this cluster; use --name to set another name",
				taken, name)
		}
		if before := present.Contexts[name]; before != nil {
			written.Contexts[name].Namespace = before.Namespace // kubectl config set-context --namespace
		}
	}
	for _, name := range names {
		present.Clusters[name], present.AuthInfos[name], present.Contexts[name] = written.Clusters[name],
			written.AuthInfos[name], written.Contexts[name]
	}
	if err := clientcmd.ModifyConfig(access, *present, true); err != nil {
		return fmt.Errorf("write the kubeconfig to merge into: %w", err)
	}
	for _, name := range names {
		if _, err := fmt.Fprintf(told, "Context %q is in %s; use it with: kubectl --context %s get nodes\n", name,
			access.GetDefaultFilename(), name); err != nil {
			return err
		}
	}
	return nil
}

// takenBy returns the kind of an entry with this name that a merge must not overwrite. It returns an empty string for
// an entry of ours for the same cluster.
func takenBy(present, written *clientcmdapi.Config, name string) string {
	cluster, user, context := present.Clusters[name], present.AuthInfos[name], present.Contexts[name]
	switch {
	case cluster != nil && !isSame(cluster, written.Clusters[name], user, written.AuthInfos[name]):
		return "cluster"
	case user != nil && !isPlugin(user), user != nil && cluster == nil:
		return "user"
	case context != nil && (context.Cluster != name || context.AuthInfo != name), context != nil &&
		(cluster == nil || user == nil):
		return "context"
	}
	return ""
}

// isSame reports whether two entries lead to the same cluster. The arguments that request tokens identify an authorized
// endpoint. Its host does not, because the Cluster's user can change it, also to the host of another cluster.
func isSame(before, after *clientcmdapi.Cluster, user, asks *clientcmdapi.AuthInfo) bool {
	ours := user != nil && isPlugin(user)
	if isForEndpoint(asks) {
		return ours && slices.Equal(user.Exec.Args, asks.Exec.Args)
	}
	return before.Server == after.Server && (!ours || !isForEndpoint(user))
}

// isForEndpoint reports whether an entry of ours requests tokens for a cluster.
func isForEndpoint(user *clientcmdapi.AuthInfo) bool {
	return slices.ContainsFunc(user.Exec.Args, func(arg string) bool { return strings.HasPrefix(arg, "--cluster=") })
}

// way finds a Cluster and its address. By default it uses the address that the server has published.
func (o *kubeconfigOptions) way(ctx context.Context, config *rest.Config, name string) (*provv1.Cluster, proxy.Proxied,
	error) {
	namespace, none := o.inNamespace(), proxy.Proxied{}
	c, err := clients.New(config, clients.Options{Version: Version, WithoutDynamic: true})
	if err != nil {
		return nil, none, err
	}
	cluster, err := c.Provisioning.Cluster().Get(namespace, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, none, unread(err, namespace, name)
	case cluster.Status.ClusterName == "":
		return nil, none,
			fmt.Errorf("cluster %s/%s has no management cluster yet; try again when its status.clusterName is set",
				namespace, name)
	}
	way := proxy.Proxied{ID: cluster.Status.ClusterName, Server: o.server}
	if o.server == "" {
		settings, err := kubeconfig.Published(ctx, c.Kubernetes, cluster)
		if err != nil {
			return nil, none, err
		}
		way.Server, way.Authority = settings.ServerURL, []byte(settings.CACerts)
		return cluster, way, nil
	}
	if !strings.HasPrefix(o.server, "https://") {
		return nil, none, fmt.Errorf("--server: %q is not an https URL", o.server)
	}
	if o.authority != "" {
		if way.Authority, err = readFile(o.authority, nil); err != nil {
			return nil, none, fmt.Errorf("--certificate-authority: %w", err)
		}
	}
	return cluster, way, nil
}

// unread returns the error for a Cluster that could not be read.
func unread(err error, namespace, name string) error {
	isRefusal, said := inspect.UnreadCluster(err, namespace, name)
	if isRefusal {
		return refusedError{said}
	}
	return said
}

// write creates the kubeconfig. servers are the servers of the cluster's authorized endpoint, by the names of their
// nodes. It is nil if they are unknown.
func (o *kubeconfigOptions) write(way proxy.Proxied, cluster *provv1.Cluster, servers map[string]*clientcmdapi.Cluster,
	told io.Writer) (*clientcmdapi.Config, serverContexts, error) {
	var single serverContexts
	path, err := absolute("--kubeconfig", o.kubeconfig)
	if err != nil {
		return nil, single, err
	}
	name, context := cmp.Or(o.name, cluster.Name), o.asked(path)
	written := kubeconfig.Through(way, name, plugin(path, context))
	token, err := o.tokenArgs(cluster)
	if err != nil {
		return nil, single, err
	}
	forEndpoint := plugin(path, context, token...)
	if servers != nil {
		single.former, single.args = name+"-", forEndpoint.Exec.Args
	}
	for _, node := range slices.Sorted(maps.Keys(servers)) {
		single.names = append(single.names, name+"-"+node)
		kubeconfig.Add(written, name+"-"+node, servers[node], forEndpoint)
	}
	kubeconfig.AddNamed(written, name, cluster, forEndpoint)
	single.leaveOut(written, func(name string) string {
		if path == "" && name == context {
			return "the context of the management cluster"
		}
		return ""
	}, told)
	if _, taken := written.Contexts[context]; path == "" && taken {
		return nil, single, fmt.Errorf("context %q reaches the management cluster; use --name to set another name",
			context)
	}
	return written, single, nil
}

// asked is the context that reaches the management cluster. It is empty for the current context of a file.
func (o *kubeconfigOptions) asked(path string) string {
	if o.context != "" || path != "" {
		return o.context
	}
	// The result may be merged into the same kubeconfig. Its current context can be another one by the time it is used.
	raw, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// tokenArgs are the arguments with which drover token returns a token for this cluster only. Users that may write the
// Cluster choose the host of its endpoint. That host must not see the credential for the management cluster.
func (o *kubeconfigOptions) tokenArgs(cluster *provv1.Cluster) ([]string, error) {
	args := []string{kubeconfig.TokenOf(cluster)}
	if o.server == "" {
		return args, nil
	}
	args = append(args, "--server="+o.server)
	authority, err := absolute("--certificate-authority", o.authority)
	if err == nil && authority != "" {
		args = append(args, "--certificate-authority="+authority)
	}
	return args, err
}

// absolute returns the absolute path of a flag's file, or an empty string for an empty flag.
func absolute(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	from, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return from, nil
}
