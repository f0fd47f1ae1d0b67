package distro

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// deployInterval is how soon a changed manifest is applied. The real distributions check every 15 seconds. A file that
// cannot be applied, for example because only the real distributions have its kinds, is retried with a growing pause up
// to longestDeployPause.
const (
	deployInterval     = 2 * time.Second
	longestDeployPause = time.Minute
)

// deployer applies the files in a server's folder of manifests. As in the real distributions, it applies a file once,
// and again after a change or a failure. Unlike them, it keeps objects that a file no longer contains.
type deployer struct {
	folder  string
	objects dynamic.Interface
	kinds   meta.ResettableRESTMapper
	log     io.Writer
	// applied are the digests of applied files. failed are the failures of other files.
	applied map[string][sha256.Size]byte
	failed  map[string]failure
}

// failure records why a file could not be applied.
type failure struct {
	digest [sha256.Size]byte
	said   string
	pause  time.Duration
	again  time.Time
}

// deploy runs until ctx ends.
func (r *run) deploy(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", r.layout.cred("admin.kubeconfig"))
	if err != nil {
		return fmt.Errorf("read admin kubeconfig: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client for manifests: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make client for manifests: %w", err)
	}
	d := &deployer{
		folder: r.layout.manifests(), objects: objects,
		kinds: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds)), log: r.Log,
		applied: map[string][sha256.Size]byte{}, failed: map[string]failure{},
	}
	return every(ctx, deployInterval, func() error { return d.look(ctx) })
}

// look applies every file that needs it. It logs each failure once, and a failure does not delay other files.
func (d *deployer) look(ctx context.Context) error {
	err := filepath.WalkDir(d.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		digest := sha256.Sum256(content)
		before := d.failed[path]
		if d.applied[path] == digest || before.digest == digest && time.Now().Before(before.again) {
			return nil
		}
		if err := d.apply(ctx, content); err != nil {
			d.fail(path, digest, err)
			return nil
		}
		d.applied[path] = digest
		delete(d.failed, path)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fail records the failure of a file, and logs it if it is new.
func (d *deployer) fail(path string, digest [sha256.Size]byte, err error) {
	last := d.failed[path]
	if last.digest != digest {
		last = failure{digest: digest}
	}
	if last.said != err.Error() {
		last.said = err.Error()
		fmt.Fprintf(d.log, "manifest %s is not applied yet: %v\n", path, err)
	}
	last.pause = min(max(2*last.pause, deployInterval), longestDeployPause)
	last.again = time.Now().Add(last.pause)
	d.failed[path] = last
}

// apply applies the documents of a manifest in order. A failure does not stop the documents after it.
func (d *deployer) apply(ctx context.Context, content []byte) error {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var problems []error
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return errors.Join(problems...)
		}
		if err != nil {
			return errors.Join(append(problems, fmt.Errorf("read manifest: %w", err))...)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := d.applyObject(ctx, object); err != nil {
			problems = append(problems, err)
		}
	}
}

func (d *deployer) applyObject(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := d.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		d.kinds.Reset() // its kind may have been defined since
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
	}
	var target dynamic.ResourceInterface = d.objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		target = d.objects.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	if _, err := target.Apply(ctx, object.GetName(), object,
		metav1.ApplyOptions{FieldManager: "deploy", Force: true}); err != nil {
		return fmt.Errorf("%s %s/%s: %w", kind.Kind, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}
