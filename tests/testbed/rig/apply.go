package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

// kindTimeout is how long a kind may take to be listed.
const kindTimeout = 20 * time.Second

// Apply applies the objects of a manifest as "kubectl apply --server-side" does.
func (r *Rig) Apply(ctx context.Context, manifest []byte) error {
	objects, err := dynamic.NewForConfig(r.Config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
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
		if _, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "kubectl", Force: true}); err != nil {
			return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
}

// mapping finds the resource of a kind. A kind that was defined a moment ago may not be listed yet, so it asks for a while.
func (r *Rig) mapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	client, err := discovery.NewDiscoveryClientForConfig(r.Config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kindTimeout)
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
