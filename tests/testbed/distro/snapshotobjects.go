package distro

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

//go:embed etcdsnapshotfiles.yaml
var snapshotDefinition []byte

var (
	definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	snapshotFilesResource = schema.GroupVersionResource{Group: "k3s.cattle.io", Version: "v1",
		Resource: "etcdsnapshotfiles"}
)

func (r *run) dynamicClient() (dynamic.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", r.layout.cred("admin.kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("read admin kubeconfig: %w", err)
	}
	return dynamic.NewForConfig(config)
}

// installDefinition installs the CRD of snapshot files.
func (r *run) installDefinition(ctx context.Context) error {
	objects, err := r.dynamicClient()
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(snapshotDefinition, &definition.Object); err != nil {
		return fmt.Errorf("read definition of snapshot files: %w", err)
	}
	r.insist(ctx, "install definition of snapshot files", func() error {
		_, err := objects.Resource(definitionsResource).Apply(ctx, definition.GetName(), definition,
			metav1.ApplyOptions{FieldManager: string(r.Runtime), Force: true})
		return err
	})
	return nil
}

// insist calls do until it succeeds or ctx ends, and logs each new error.
func (r *run) insist(ctx context.Context, what string, do func() error) {
	last := ""
	poll(ctx, func() bool {
		err := do()
		if err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			fmt.Fprintf(r.Log, "%s: %v\n", what, err)
		}
		return err == nil
	})
}

// followFiles keeps the cluster's list of this server's snapshots equal to its files. It runs at the start, when
// restored data may differ from the files, and after every request.
func (s *snapshotter) followFiles(ctx context.Context) error {
	objects, err := s.dynamicClient()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
		s.insist(ctx, "list snapshots in the cluster", func() error {
			return s.reconcile(ctx, objects.Resource(snapshotFilesResource))
		})
		s.reconcileS3(ctx, objects.Resource(snapshotFilesResource))
	}
}

// reconcile creates objects for files without one, and deletes objects without a file. It does not touch objects of
// other servers.
func (s *snapshotter) reconcile(ctx context.Context, objects dynamic.ResourceInterface) error {
	files, err := s.folder.list()
	if err != nil {
		return err
	}
	return s.reconcileStorage(ctx, objects, s.node.Name, files)
}

// reconcileStorage makes the objects of one storage, a node or S3, equal to its files. Objects of failed snapshots, and
// new objects in S3, stay: another server may have uploaded them meanwhile.
func (s *snapshotter) reconcileStorage(ctx context.Context, objects dynamic.ResourceInterface, storage string,
	files []snapshotFile) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := objects.List(ctx, metav1.ListOptions{LabelSelector: s.annotation("snapshot-storage-node") + "=" +
		storage})
	if err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	ready := map[string]bool{}
	for i := range found.Items {
		object := &found.Items[i]
		_, failed, _ := unstructured.NestedMap(object.Object, "status", "error")
		if failed || storage == storageS3 && time.Since(object.GetCreationTimestamp().Time) < s3Settles {
			continue
		}
		ready[object.GetName()], _, _ = unstructured.NestedBool(object.Object, "status", "readyToUse")
	}
	wanted := map[string]bool{}
	for _, file := range files {
		object := s.object(file)
		wanted[object.GetName()] = true
		if ready[object.GetName()] {
			continue
		}
		if err := writeObject(ctx, objects, object); err != nil {
			return err
		}
	}
	for name := range ready {
		if wanted[name] {
			continue
		}
		if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete object: %w", err)
		}
	}
	return nil
}

// writeObject creates an object and then its status. The object may exist already without a status.
func writeObject(ctx context.Context, objects dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	status := object.Object["status"]
	made, err := objects.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = objects.Get(ctx, object.GetName(), metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("make object: %w", err)
	}
	made.Object["status"] = status
	if _, err := objects.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write status of object: %w", err)
	}
	return nil
}

// object returns the object for a file, in the format of the real distributions.
func (s *snapshotter) object(file snapshotFile) *unstructured.Unstructured {
	node, storage := cmp.Or(file.Node, s.node.Name), s.node.Name
	spec := map[string]any{"snapshotName": file.Name, "nodeName": node, "location": file.Location}
	if file.S3 != nil {
		storage = storageS3
		spec["s3"] = map[string]any{
			"endpoint": file.S3.Endpoint, "endpointCA": file.S3.EndpointCA, "skipSSLVerify": file.S3.SkipSSLVerify,
			"bucket": file.S3.Bucket, "region": file.S3.Region, "prefix": file.S3.Prefix, "insecure": file.S3.Insecure,
		}
	}
	if len(file.Metadata) > 0 {
		metadata := map[string]any{}
		for key, value := range file.Metadata {
			metadata[key] = value
		}
		spec["metadata"] = metadata
	}
	created := file.Created.UTC().Format(time.RFC3339)
	status := map[string]any{"size": resource.NewQuantity(file.Size, resource.DecimalSI).String(),
		"creationTime": created, "readyToUse": file.Failure == ""}
	if file.Failure != "" {
		status["error"] = map[string]any{"message": file.Failure, "time": created}
	}
	token := sha256.Sum256([]byte(s.config.Token))
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": snapshotFilesResource.GroupVersion().String(),
		"kind":       "ETCDSnapshotFile",
		"metadata": map[string]any{
			"name":        objectName(file, node),
			"labels":      map[string]any{s.annotation("snapshot-storage-node"): storage},
			"annotations": map[string]any{s.annotation("snapshot-token-hash"): hex.EncodeToString(token[:])[:12]},
		},
		"spec":   spec,
		"status": status,
	}}
}

// objectName returns the name of a file's object. If the file name is not a valid object name, it uses the node and the
// time.
func objectName(file snapshotFile, node string) string {
	sum := sha256.Sum256([]byte(node + file.Location))
	suffix, storage := "-"+hex.EncodeToString(sum[:])[:6], "local-"
	if file.S3 != nil {
		storage = "s3-"
	}
	name := storage + strings.ToLower(file.Name)
	if len(validation.IsDNS1123Subdomain(name+suffix)) > 0 {
		host, _, _ := strings.Cut(node, ".")
		name = fmt.Sprintf("%setcd-snapshot-%s-%d", storage, strings.ToLower(host), file.Created.Unix())
	}
	return name + suffix
}
