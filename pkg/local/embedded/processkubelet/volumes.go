package processkubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// payload is one file of a volume.
type payload struct {
	content []byte
	mode    os.FileMode
}

// tokens requests tokens of a pod's service account.
type tokens interface {
	Token(ctx context.Context, pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) ([]byte, error)
}

// volumeFiles computes the files of a volume by relative path. emptyDir and hostPath volumes have none.
func volumeFiles(ctx context.Context, pod *corev1.Pod, volume corev1.Volume, node nodeFacts, from sources,
	issue tokens) (map[string]payload, error) {
	files := map[string]payload{}
	switch {
	case volume.Secret != nil:
		source := volume.Secret
		return files, addSecret(files, pod.Namespace, source.SecretName, source.Items, source.DefaultMode,
			source.Optional, from)
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		return files, addConfigMap(files, pod.Namespace, source.Name, source.Items, source.DefaultMode, source.Optional,
			from)
	case volume.DownwardAPI != nil:
		return files, addFields(files, pod, node, volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			if err := addProjection(ctx, files, pod, source, volume.Projected.DefaultMode, node, from,
				issue); err != nil {
				return nil, err
			}
		}
		return files, nil
	case volume.EmptyDir != nil, volume.HostPath != nil:
		return files, nil
	}
	return nil, fmt.Errorf("volume %s: %w", volume.Name, errUnsupportedVolume)
}

// errUnsupportedVolume is permanent: a retry cannot help.
var errUnsupportedVolume = errors.New("this node does not support its kind; use secret, configMap, projected, " +
	"downwardAPI, emptyDir or hostPath")

func addProjection(ctx context.Context, files map[string]payload, pod *corev1.Pod, source corev1.VolumeProjection,
	mode *int32, node nodeFacts,
	from sources, issue tokens,
) error {
	switch {
	case source.Secret != nil:
		return addSecret(files, pod.Namespace, source.Secret.Name, source.Secret.Items, mode, source.Secret.Optional,
			from)
	case source.ConfigMap != nil:
		return addConfigMap(files, pod.Namespace, source.ConfigMap.Name, source.ConfigMap.Items, mode,
			source.ConfigMap.Optional, from)
	case source.DownwardAPI != nil:
		return addFields(files, pod, node, source.DownwardAPI.Items, mode)
	case source.ServiceAccountToken != nil:
		token, err := issue.Token(ctx, pod, source.ServiceAccountToken)
		if err != nil {
			return err
		}
		files[source.ServiceAccountToken.Path] = payload{content: token, mode: fileMode(nil, mode)}
		return nil
	}
	return errUnsupportedVolume
}

func addSecret(files map[string]payload, namespace, name string, items []corev1.KeyToPath, mode *int32, optional *bool,
	from sources) error {
	secret, err := from.Secret(namespace, name)
	if err != nil {
		return missing(err, optional)
	}
	return addKeys(files, secret.Data, items, mode, optional, "Secret "+name)
}

func addConfigMap(files map[string]payload, namespace, name string, items []corev1.KeyToPath, mode *int32,
	optional *bool, from sources) error {
	configMap, err := from.ConfigMap(namespace, name)
	if err != nil {
		return missing(err, optional)
	}
	data := map[string][]byte{}
	for key, value := range configMap.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, configMap.BinaryData)
	return addKeys(files, data, items, mode, optional, "ConfigMap "+name)
}

// addKeys adds all keys, or the listed keys under the listed paths.
func addKeys(files map[string]payload, data map[string][]byte, items []corev1.KeyToPath, mode *int32, optional *bool,
	where string) error {
	if len(items) == 0 {
		for key, value := range data {
			files[key] = payload{content: value, mode: fileMode(nil, mode)}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("%s has no key %q", where, item.Key)
		}
		files[item.Path] = payload{content: value, mode: fileMode(item.Mode, mode)}
	}
	return nil
}

func addFields(files map[string]payload, pod *corev1.Pod, node nodeFacts, items []corev1.DownwardAPIVolumeFile,
	mode *int32) error {
	for _, item := range items {
		if item.FieldRef == nil {
			return fmt.Errorf("file %s: this node supports only fields of the pod", item.Path)
		}
		value, err := fieldValue(pod, node, item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		files[item.Path] = payload{content: []byte(value), mode: fileMode(item.Mode, mode)}
	}
	return nil
}

// fileMode returns the mode of one file: its own, the volume's, or 0644.
func fileMode(own, volume *int32) os.FileMode {
	if own != nil {
		return os.FileMode(*own)
	}
	if volume != nil {
		return os.FileMode(*volume)
	}
	return 0o644
}

// writeVolume creates the directory of a volume with its files. If fsGroup is not nil, that group owns the files and
// may read them.
func writeVolume(dir string, files map[string]payload, fsGroup *int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make volume: %w", err)
	}
	for path, file := range files {
		if !filepath.IsLocal(path) {
			return fmt.Errorf("make volume: path %q leads outside of the volume", path)
		}
		target := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("make volume: %w", err)
		}
		if err := writeOwned(target, file, fsGroup); err != nil {
			return fmt.Errorf("make volume: %w", err)
		}
	}
	return nil
}

func writeOwned(target string, file payload, fsGroup *int64) error {
	if err := os.WriteFile(target, file.content, 0o600); err != nil {
		return err
	}
	mode := file.mode
	if fsGroup != nil {
		mode |= 0o440
		if err := os.Chown(target, -1, int(*fsGroup)); err != nil {
			return err
		}
	}
	// The umask applies to WriteFile's mode, and an existing file keeps its mode. Chmod sets it in both cases.
	return os.Chmod(target, mode)
}

// subPath resolves a path inside a volume without following a link out of it.
func subPath(volumeDir, path string) (string, error) {
	if path == "" {
		return volumeDir, nil
	}
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("subPath %q leads outside of its volume", path)
	}
	joined := filepath.Join(volumeDir, path)
	if _, err := os.Lstat(joined); errors.Is(err, os.ErrNotExist) {
		root, err := os.OpenRoot(volumeDir)
		if err != nil {
			return "", fmt.Errorf("open volume: %w", err)
		}
		defer func() { _ = root.Close() }()
		if err := root.MkdirAll(path, 0o755); err != nil {
			return "", fmt.Errorf("make subPath %q: %w", path, err)
		}
	}
	resolved, err := filepath.EvalSymlinks(joined)
	if err != nil {
		return "", fmt.Errorf("find subPath %q: %w", path, err)
	}
	base, err := filepath.EvalSymlinks(volumeDir)
	if err != nil {
		return "", fmt.Errorf("find volume: %w", err)
	}
	if resolved != base && !strings.HasPrefix(resolved, base+string(filepath.Separator)) {
		return "", fmt.Errorf("subPath %q leads outside of its volume", path)
	}
	return resolved, nil
}
