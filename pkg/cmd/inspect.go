package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/table"
	"github.com/drover-io/drover/pkg/releases"
)

// defaultNamespace is the namespace of clusters if the user names none.
const defaultNamespace = provv1.DefaultWorkspaceNamespace

// Forms of output.
const (
	outputTable = "table"
	outputTree  = "tree"
	outputText  = "text"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

// inspectOptions are the flags of the commands that inspect clusters.
type inspectOptions struct {
	kubeconfig, context, namespace, output, releaseData string
	settings                                            controllers.Settings
	// formats are the output formats, the default first. Empty means table, json and yaml.
	formats []string
	// given applies the flags that the user set to settings.
	given func(*controllers.Settings)
	// config overrides the kubeconfig in tests.
	config *rest.Config
}

// Flags that override the server's published settings.
const (
	flagRegistry       = "system-default-registry"
	flagPullSecrets    = "system-default-registry-pull-secrets"
	flagInstallerImage = "system-agent-installer-image"
)

// checkRegistry refuses an invalid registry before machines would use it.
func checkRegistry(registry string) error {
	if registry == "" || naming.IsRegistry(registry) {
		return nil
	}
	return fmt.Errorf("--%s: %q %s", flagRegistry, redact.Address(registry), naming.RegistryForm)
}

// override returns a function that applies settings from flags or the environment.
func (o *inspectOptions) override(given func(flag string) bool) func(*controllers.Settings) {
	registry, secrets, image := given(flagRegistry), given(flagPullSecrets), given(flagInstallerImage)
	return func(s *controllers.Settings) {
		if registry {
			s.SystemDefaultRegistry = o.settings.SystemDefaultRegistry
		}
		if secrets {
			s.SystemDefaultRegistryPullSecrets = o.settings.SystemDefaultRegistryPullSecrets
		}
		if image {
			s.SystemAgentInstallerImage = o.settings.SystemAgentInstallerImage
		}
	}
}

func (o *inspectOptions) addFlags(cmd *cobra.Command, environ []string) {
	f, s := cmd.Flags(), &o.settings
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfigOrCluster)
	o.addNamespace(cmd, environ)
	f.StringVar(&o.releaseData, "release-data", "",
		"`file or URL` with facts about Kubernetes versions, as for the server")
	f.StringVar(&s.SystemDefaultRegistry, flagRegistry, "",
		"`registry` for images of clusters that name no registry, instead of the server's")
	f.StringSliceVar(&s.SystemDefaultRegistryPullSecrets, flagPullSecrets, nil,
		"`names` of Secrets for that registry, instead of the server's")
	f.StringVar(&s.SystemAgentInstallerImage, flagInstallerImage, "",
		"`prefix` of the distributions' installer images, instead of the server's")
}

// addNamespace adds the flag for the cluster's namespace.
func (o *inspectOptions) addNamespace(cmd *cobra.Command, environ []string) {
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of the cluster (default that of the "+
		"context, or "+defaultNamespace+")")
	_ = cmd.RegisterFlagCompletionFunc("namespace", completing(environ, o.namespaceNames))
}

// addOutput adds the flag for the output format.
func (o *inspectOptions) addOutput(cmd *cobra.Command) {
	if len(o.formats) == 0 {
		o.formats = []string{outputTable, outputJSON, outputYAML}
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", o.formats[0], "`format`: "+anyOf(o.formats))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats, cobra.ShellCompDirectiveNoFileComp))
}

// complete fills missing flags from the environment, as for the server, and checks them.
func (o *inspectOptions) complete(cmd *cobra.Command, environ []string) error {
	if err := fillFromEnvironment(cmd.Flags(), environ); err != nil {
		return err
	}
	if err := checkRegistry(o.settings.SystemDefaultRegistry); err != nil {
		return err
	}
	o.given = o.override(cmd.Flags().Changed)
	if !slices.Contains(o.formats, o.output) {
		return fmt.Errorf("--output: %q is unknown; use %s", o.output, anyOf(o.formats))
	}
	return nil
}

// anyOf is "a, b or c".
func anyOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// restConfig reaches the management cluster with the user's permissions.
func (o *inspectOptions) restConfig() (*rest.Config, error) {
	if o.config != nil {
		return o.config, nil
	}
	return findManagement(o.kubeconfig, o.context, adviceOfUsers)
}

// forReader returns the options of a Reader.
func (o *inspectOptions) forReader(ctx context.Context) (inspect.Options, error) {
	config, err := o.restConfig()
	if err != nil {
		return inspect.Options{}, err
	}
	facts, err := o.releases(ctx)
	if err != nil {
		return inspect.Options{}, err
	}
	return inspect.Options{Config: config, Version: Version, Override: o.given, Releases: facts}, nil
}

// releases loads the facts about Kubernetes versions.
func (o *inspectOptions) releases(ctx context.Context) (releases.Table, error) {
	facts, err := releases.Load(ctx, o.releaseData, releases.FromFileOrURL(&http.Client{Timeout: 30 * time.Second}))
	if err != nil {
		return facts, fmt.Errorf("--release-data: %w", err)
	}
	return facts, nil
}

// reader returns a Reader for the clusters of a namespace.
func (o *inspectOptions) reader(ctx context.Context, namespace string) (*inspect.Reader, error) {
	options, err := o.forReader(ctx)
	if err != nil {
		return nil, err
	}
	return inspect.New(ctx, options, namespace)
}

// plainReader returns a Reader without release data, for commands that do not need them.
func (o *inspectOptions) plainReader(ctx context.Context, namespace string) (*inspect.Reader, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	return inspect.New(ctx, inspect.Options{Config: config, Version: Version}, namespace)
}

// print writes a value as JSON or YAML, or as a table.
func (o *inspectOptions) print(out io.Writer, value any, fill func(w io.Writer)) error {
	switch o.output {
	case outputYAML:
		data, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		_, err = out.Write(data)
		return err
	case outputJSON:
		return inspect.WriteJSON(out, value)
	}
	return table.Print(out, fill)
}

// inNamespace returns the namespace of clusters: that of the flag, or else of the kubeconfig's context, or else the
// default of Drover. In a pod, the namespace of the pod has no meaning for clusters.
func (o *inspectOptions) inNamespace() string {
	if o.namespace != "" || o.config != nil {
		return cmp.Or(o.namespace, defaultNamespace)
	}
	raw, err := loader(o.kubeconfig, o.context).RawConfig()
	if err != nil {
		return defaultNamespace // the connection reports the error
	}
	if used := raw.Contexts[cmp.Or(o.context, raw.CurrentContext)]; used != nil && used.Namespace != "" {
		return used.Namespace
	}
	return defaultNamespace
}

func row(w io.Writer, cells ...string) { table.Row(w, cells...) }

func line(w io.Writer, cells ...string) { table.Line(w, cells...) }

func heading(w io.Writer, text string) { table.Heading(w, text) }

func readFile(path string, in io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(in)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return data, nil
}
