package cmd

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Where a kubeconfig is looked for that no flag names.
const (
	fromKubeconfig          = "KUBECONFIG or ~/.kube/config"
	fromKubeconfigOrCluster = "KUBECONFIG, ~/.kube/config or the cluster this runs in"
)

// addManagement adds the flags that choose the management cluster; from is where it is looked for without them.
func addManagement(cmd *cobra.Command, environ []string, kubeconfig, context *string, from string) {
	f := cmd.Flags()
	f.StringVar(kubeconfig, "kubeconfig", "", "`file` that reaches the management cluster; empty uses "+from)
	f.StringVar(context, "context", "", "`name` of the context in it; empty uses the current one")
	_ = cmd.RegisterFlagCompletionFunc("context", completing(environ, contextNames(kubeconfig)))
}

// loader reads the kubeconfig as kubectl does, and finds the API server of the pod that this may run in.
func loader(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// findManagement is how the management cluster is reached. advice is what helps when that is not known.
func findManagement(kubeconfig, context, advice string) (*rest.Config, error) {
	config, err := loader(kubeconfig, context).ClientConfig()
	if err != nil {
		return nil, unknownManagement(err, kubeconfig, advice)
	}
	return config, nil
}

// adviceOfUsers is what helps a user.
const adviceOfUsers = "--kubeconfig or --context"

func unknownManagement(err error, kubeconfig, advice string) error {
	return fmt.Errorf("find management cluster; give %s: %w", advice, unfound(err, kubeconfig))
}

// unfound says which file lacks what, where client-go says only that it knows nothing.
func unfound(err error, kubeconfig string) error {
	isNothing, files := clientcmd.IsEmptyConfig(err), []string{kubeconfig}
	if kubeconfig == "" {
		files = clientcmd.NewDefaultClientConfigLoadingRules().Precedence
	}
	missing := slices.DeleteFunc(slices.Clone(files), func(file string) bool {
		_, err := os.Stat(file)
		return !errors.Is(err, os.ErrNotExist)
	})
	is := strings.Join(missing, " and ")
	switch {
	case kubeconfig != "" && !isNothing, is == "" && !isNothing:
		return err
	case is == "":
		return fmt.Errorf("%s leads to no cluster; see its current-context, and the context of that name", strings.Join(files, " and "))
	case os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "":
		return fmt.Errorf("KUBECONFIG is not set, and there is no file %s", is)
	case isNothing:
		return fmt.Errorf("KUBECONFIG names %s, which does not exist", is)
	default:
		return fmt.Errorf("%w; KUBECONFIG names %s, which does not exist", err, is)
	}
}
