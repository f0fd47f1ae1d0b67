package rig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The contexts of a rig in the user's kubeconfig. kubectl and drover find them there by name.

func (o Options) clusterContext() string    { return "drover-" + o.Name }
func (o Options) managementContext() string { return "drover-" + o.Name + "-management" }

// singleContext returns a kubeconfig with one cluster, one user and one context, all with the same name.
func singleContext(name string, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters[name], config.AuthInfos[name] = cluster, user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return config
}

// mergeContext adds the context of a kubeconfig to the user's (KUBECONFIG, or ~/.kube/config). It replaces a context
// with the same name and keeps the user's current context.
func (o Options) mergeContext(name string, from *clientcmdapi.Config) error {
	return o.editUserKubeconfig(func(config *clientcmdapi.Config) {
		config.Clusters[name], config.AuthInfos[name], config.Contexts[name] = from.Clusters[name],
			from.AuthInfos[name], from.Contexts[name]
	})
}

// RemoveContexts removes the contexts of a rig from the user's kubeconfig, with their clusters and users.
func RemoveContexts(o Options) error {
	return o.editUserKubeconfig(func(config *clientcmdapi.Config) {
		for _, name := range []string{o.clusterContext(), o.managementContext()} {
			delete(config.Clusters, name)
			delete(config.AuthInfos, name)
			delete(config.Contexts, name)
			if config.CurrentContext == name {
				config.CurrentContext = ""
			}
		}
	})
}

func (o Options) editUserKubeconfig(edit func(*clientcmdapi.Config)) error {
	access := clientcmd.NewDefaultPathOptions()
	config, err := access.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("read your kubeconfig: %w", err)
	}
	edit(config)
	file := access.GetDefaultFilename()
	made := missing(filepath.Dir(file), file)
	if err := clientcmd.ModifyConfig(access, *config, false); err != nil {
		return fmt.Errorf("write your kubeconfig: %w", err)
	}
	return o.Owner.take(made...)
}

// missing returns the paths that do not exist.
func missing(paths ...string) []string {
	var list []string
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			list = append(list, path)
		}
	}
	return list
}

// GiveToUser makes a file in the rig's folder belong to the user of the rig, who may edit it there.
func (o Options) GiveToUser(file string) error { return o.Owner.take(o.Dir, file) }

// take changes the owner of files and folders that this process created as root. It ignores paths that do not exist.
func (o *Owner) take(paths ...string) error {
	if o == nil {
		return nil
	}
	for _, path := range paths {
		if err := os.Lchown(path, o.UID, o.GID); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("give %s to its user: %w", path, err)
		}
	}
	return nil
}
