package rig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// objectTimeout is the limit until a new kind is listed, and until a kubeconfig is written.
const objectTimeout = 20 * time.Second

// Apply applies the objects of a manifest as "kubectl apply --server-side" does.
func (r *Rig) Apply(ctx context.Context, manifest []byte) error {
	objects, err := dynamic.NewForConfig(r.Config)
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("decode manifest: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		kind := object.GroupVersionKind()
		mapping, err := r.mapping(ctx, kind)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
		}
		var resource dynamic.ResourceInterface = objects.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			resource = objects.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		if _, err := resource.Apply(ctx, object.GetName(), object,
			metav1.ApplyOptions{FieldManager: "kubectl", Force: true}); err != nil {
			return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
}

// KubectlApply applies a file with kubectl as a user does. A later "kubectl apply" of the edited file is then an
// ordinary change.
func (r *Rig) KubectlApply(ctx context.Context, forwarded *Forwarded, file string) error {
	kubectl := filepath.Join(r.Bin, "kubectl")
	arguments := []string{
		"--kubeconfig", forwarded.ManagementKubeconfig, "--cache-dir", filepath.Join(r.Dir, "kubectl-cache"), "apply",
		"-f", file,
	}
	kinds, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	var failure error
	if err := poll(kinds, func() (bool, error) {
		cmd := exec.CommandContext(ctx, kubectl, arguments...)
		cmd.Env = append(os.Environ(), "KUBECTL_KUBERC=false") // ignore the user's preferences, which root would follow
		out, err := cmd.CombinedOutput()
		if err == nil {
			return true, nil
		}
		failure = fmt.Errorf("kubectl apply -f %s: %w: %s", file, err, bytes.TrimSpace(out))
		if bytes.Contains(out, []byte("no matches for kind")) {
			return false, nil // Drover defines the kinds of a node driver shortly after it starts
		}
		return false, failure
	}); err != nil {
		return cmp.Or(failure, err)
	}
	return nil
}

// mapping finds the resource of a kind. It retries for a while, because a new kind may not be listed yet.
func (r *Rig) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	client, err := discovery.NewDiscoveryClientForConfig(r.Config)
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	var mapping *meta.RESTMapping
	var last error
	if poll(ctx, func() (bool, error) {
		var groups []*restmapper.APIGroupResources
		if groups, last = restmapper.GetAPIGroupResources(client); last == nil {
			mapping, last = restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
		}
		return last == nil, nil
	}) != nil {
		return nil, last
	}
	return mapping, nil
}
