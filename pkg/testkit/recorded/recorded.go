// Package recorded contains the objects of clusters made by other managers, as files. The files are written by hand
// from docs/wire/capi.md, docs/wire/names.md and docs/wire/plan.md. With them, tests adopt objects that Drover did not
// make.
package recorded

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

//go:embed *.yaml
var files embed.FS

// The clusters. Each is fleet-default/demo with driver pod.
const (
	// RancherOneServer has one machine with all roles.
	RancherOneServer = "rancher-one-server"
	// RancherThreeServersTwoWorkers has two pools.
	RancherThreeServersTwoWorkers = "rancher-three-servers-two-workers"
	// DroverOtherInstance has the mark of OtherInstance.
	DroverOtherInstance = "drover-other-instance"
)

// OtherInstance is the instance that manages DroverOtherInstance.
const OtherInstance = "instance-of-another"

// appliedAnnotation is plain text in the files, and compressed on objects.
const appliedAnnotation = "objectset.rio.cattle.io/applied"

// Load returns the objects of a cluster, in an order in which they can be created.
func Load(name string) ([]*unstructured.Unstructured, error) {
	data, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if err := complete(object); err != nil {
			return nil, fmt.Errorf("read %s: %s %s: %w", name, object.GetKind(), object.GetName(), err)
		}
		out = append(out, object)
	}
}

// complete converts a readable object into the real one. It encodes the data of Secrets and compresses the annotations
// of apply sets.
func complete(object *unstructured.Unstructured) error {
	texts, _, err := unstructured.NestedStringMap(object.Object, "stringData")
	if err != nil {
		return err
	}
	for key, text := range texts {
		if err := unstructured.SetNestedField(object.Object, base64.StdEncoding.EncodeToString([]byte(text)), "data",
			key); err != nil {
			return err
		}
	}
	delete(object.Object, "stringData")
	annotations := object.GetAnnotations()
	if applied := annotations[appliedAnnotation]; applied != "" {
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		if _, err := w.Write([]byte(applied)); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		annotations[appliedAnnotation] = base64.RawStdEncoding.EncodeToString(compressed.Bytes())
		object.SetAnnotations(annotations)
	}
	return nil
}

// Create creates the objects and adapts references between them to the new UIDs. It returns the created objects.
func Create(ctx context.Context, client dynamic.Interface,
	objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	uids := map[string]string{}
	var out []*unstructured.Unstructured
	for _, object := range objects {
		object = object.DeepCopy()
		was := string(object.GetUID())
		references := object.GetOwnerReferences()
		for i := range references {
			now, made := uids[string(references[i].UID)]
			if !made {
				return nil, fmt.Errorf("%s %s: its owner %s %s must come first",
					object.GetKind(), object.GetName(), references[i].Kind, references[i].Name)
			}
			references[i].UID = types.UID(now)
		}
		object.SetOwnerReferences(references)
		object.SetUID("")
		object.SetCreationTimestamp(metav1.Time{})
		made, err := create(ctx, client, object)
		if err != nil {
			return nil, fmt.Errorf("make %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		uids[was] = string(made.GetUID())
		out = append(out, made)
	}
	return out, nil
}

func create(ctx context.Context, client dynamic.Interface,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	gvk := object.GroupVersionKind()
	resource := client.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")).Namespace(
		object.GetNamespace())
	status := object.Object["status"]
	made, err := resource.Create(ctx, object, metav1.CreateOptions{})
	if err != nil || status == nil {
		return made, err
	}
	made.Object["status"] = status
	updated, err := resource.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return made, nil // the kind has no such subresource, and its content came with the object
	}
	return updated, err
}
