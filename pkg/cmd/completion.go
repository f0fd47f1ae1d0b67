package cmd

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/operate/inspect"
)

// completionTimeout is how long a shell waits for a request after the user presses Tab.
const completionTimeout = 3 * time.Second

// completing fills in flags from the environment before it completes, because a shell completes without running the
// command's PreRun. It ignores errors, because the command itself reports them.
func completing(environ []string, complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		_ = fillFromEnvironment(cmd.Flags(), environ)
		return complete(cmd, args, word)
	}
}

// contextNames completes the name of a context of the kubeconfig.
func contextNames(kubeconfig *string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		raw, err := loader(*kubeconfig, "").RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(raw.Contexts)), cobra.ShellCompDirectiveNoFileComp
	}
}

// quick returns a configuration for completion: with a short timeout, and without prompts from plugins.
func (o *inspectOptions) quick() (*rest.Config, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	config = unasked(rest.CopyConfig(config))
	config.Timeout = completionTimeout
	return config, nil
}

// quickReader inspects clusters for completion. It has no release data, because they may need a download.
func (o *inspectOptions) quickReader(ctx context.Context) (*inspect.Reader, error) {
	config, err := o.quick()
	if err != nil {
		return nil, err
	}
	return inspect.New(ctx, inspect.Options{Config: config, Version: Version}, o.inNamespace())
}

// suggest completes a word with what ask reads.
func (o *inspectOptions) suggest(
	cmd *cobra.Command, ask func(r *inspect.Reader) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	r, err := o.quickReader(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer r.Close()
	words, err := ask(r)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// clusterNames completes the name of a cluster in a shell.
func (o *inspectOptions) clusterNames(cmd *cobra.Command, args []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.suggest(cmd, (*inspect.Reader).Names)
}

// namespaceNames completes a namespace of the management cluster, also in a list after commas. It returns nothing if
// the user may not list namespaces.
func (o *inspectOptions) namespaceNames(cmd *cobra.Command, _ []string, word string) ([]string,
	cobra.ShellCompDirective) {
	before := word[:strings.LastIndex(word, ",")+1]
	config, err := o.quick()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := client.CoreV1().Namespaces().List(cmd.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, before+list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
