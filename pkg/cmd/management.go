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

// Places of the kubeconfig if no flag names one.
const (
	fromKubeconfig          = "KUBECONFIG or ~/.kube/config"
	fromKubeconfigOrCluster = "KUBECONFIG, ~/.kube/config or the cluster this runs in"
)

// addManagement adds the flags that choose the management cluster. from describes the default.
func addManagement(cmd *cobra.Command, environ []string, kubeconfig, context *string, from string) {
	f := cmd.Flags()
	f.StringVar(kubeconfig, "kubeconfig", "", "`file` with the kubeconfig of the management cluster; empty uses "+from)
	f.StringVar(context, "context", "", "`name` of the context in the kubeconfig; empty uses the current context")
	_ = cmd.RegisterFlagCompletionFunc("context", completing(environ, contextNames(kubeconfig)))
}

// loader reads the kubeconfig as kubectl does. In a pod it can use the pod's API server.
func loader(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: context})
}

// findManagement returns the configuration for the management cluster. advice names the flags that help if there is
// none.
func findManagement(kubeconfig, context, advice string) (*rest.Config, error) {
	config, err := loader(kubeconfig, context).ClientConfig()
	if err != nil {
		return nil, unknownManagement(err, kubeconfig, advice)
	}
	return config, nil
}

// adviceOfUsers names the flags that help a user.
const adviceOfUsers = "--kubeconfig or --context"

func unknownManagement(err error, kubeconfig, advice string) error {
	return fmt.Errorf("find the management cluster; set %s: %w", advice, missingKubeconfig(err, kubeconfig))
}

// missingKubeconfig names the file and what it lacks. client-go's own error says only that the configuration is empty.
func missingKubeconfig(err error, kubeconfig string) error {
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
		return fmt.Errorf("%s selects no cluster; check its current-context, and the context of that name",
			strings.Join(files, " and "))
	case os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "":
		return fmt.Errorf("KUBECONFIG is not set, and there is no file %s", is)
	case isNothing:
		return fmt.Errorf("KUBECONFIG names %s, which does not exist", is)
	default:
		return fmt.Errorf("%w; KUBECONFIG names %s, which does not exist", err, is)
	}
}
