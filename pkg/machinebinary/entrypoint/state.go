package entrypoint

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// stateKey is where rancher-machine keeps its folder in the state Secret, as a gzipped tar (spec/03 §2.5).
	stateKey = "extractedConfig"
	// saveFor is how long to go on trying to save the state.
	saveFor = 2 * time.Minute
)

// rescueState saves what rancher-machine could not. It writes its folder first and then asks the API once: an API server
// that restarts in that moment makes the create fail with a machine in the cloud whose identity stands in this container
// alone, and which nobody could remove (spec/03 O1). The create stays failed; what removes its machine then finds it.
func rescueState(ctx context.Context, c Config, args []string, output io.Writer) {
	command := slices.Index(args, "create")
	if command < 0 {
		return
	}
	flags := args[:command]
	name, namespace := valueOf(flags, "--secret-name"), valueOf(flags, "--secret-namespace")
	folder := machinesFolder(flags, c.Environment)
	if name == "" || folder == "" {
		return
	}
	// A pod that is being stopped still has its grace period for this.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveFor)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", valueOf(flags, "--kubeconfig"))
	if err != nil {
		say(output, "save the state of the machine: "+err.Error())
		return
	}
	config.Timeout = 15 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		say(output, "save the state of the machine: "+err.Error())
		return
	}
	saved, err := saveUntilDone(ctx, client.CoreV1().Secrets(namespace), name, folder, c.RetryAfter)
	switch {
	case err != nil:
		say(output, "save the state of the machine: "+err.Error())
	case saved:
		say(output, "saved the state of the machine, which rancher-machine could not")
	}
}

// valueOf returns what follows a flag, "" when it is not there.
func valueOf(flags []string, name string) string {
	if at := slices.Index(flags, name); at >= 0 && at+1 < len(flags) {
		return flags[at+1]
	}
	return ""
}

// machinesFolder is where rancher-machine keeps its machines: flag, variable, home, in this order.
func machinesFolder(flags, environment []string) string {
	variables := map[string]string{}
	for _, entry := range environment {
		key, value, _ := strings.Cut(entry, "=")
		variables[key] = value
	}
	for _, base := range []string{valueOf(flags, "--storage-path"), valueOf(flags, "-s"), variables["MACHINE_STORAGE_PATH"]} {
		if base != "" {
			return filepath.Join(base, "machines")
		}
	}
	if home := variables["HOME"]; home != "" {
		return filepath.Join(home, ".docker", "machine", "machines")
	}
	return ""
}

// saveUntilDone tries until the Secret holds the folder, the Secret is gone, or ctx ends. It tells whether it wrote.
func saveUntilDone(ctx context.Context, secrets corev1client.SecretInterface, name, folder string, pause time.Duration) (bool, error) {
	local, archive, err := pack(folder)
	if err != nil || len(local) == 0 {
		return false, err
	}
	for {
		saved, err := save(ctx, secrets, name, local, archive)
		if err == nil || apierrors.IsNotFound(err) {
			return saved, err
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(pause):
		}
	}
}

// save writes the archive unless the Secret holds the same already, or a file that the folder does not have: then the
// folder was not read from this Secret whole, and knows less.
func save(ctx context.Context, secrets corev1client.SecretInterface, name string, local map[string][]byte, archive []byte) (bool, error) {
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	stored, err := storedFiles(secret)
	if err != nil {
		return false, err
	}
	if maps.EqualFunc(stored, local, bytes.Equal) {
		return false, nil
	}
	for path := range stored {
		if _, ok := local[path]; !ok {
			return false, nil
		}
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[stateKey] = archive
	_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	return err == nil, err
}

// pack reads the folder in the form in which rancher-machine stores it: absolute names, folders before their files, no
// images of disks. A folder that does not exist is empty.
func pack(folder string) (map[string][]byte, []byte, error) {
	files := map[string][]byte{}
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	writer := tar.NewWriter(compressed)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder || isImage(path) {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		header.Name = path
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files[path] = content
		_, err = writer.Write(content)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err := errors.Join(err, writer.Close(), compressed.Close()); err != nil {
		return nil, nil, fmt.Errorf("pack %s: %w", folder, err)
	}
	return files, archive.Bytes(), nil
}

func isImage(path string) bool {
	return slices.ContainsFunc([]string{".iso", ".tar.gz", ".vmdk", ".img"}, func(suffix string) bool { return strings.HasSuffix(path, suffix) })
}

// storedFiles returns the files that the state Secret holds.
func storedFiles(secret *corev1.Secret) (map[string][]byte, error) {
	archive := secret.Data[stateKey]
	if len(archive) == 0 {
		return nil, nil
	}
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("read stored state: %w", err)
	}
	files := map[string][]byte{}
	reader := tar.NewReader(compressed)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read stored state: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, fmt.Errorf("read stored state: %w", err)
		}
		files[header.Name] = content
	}
}
