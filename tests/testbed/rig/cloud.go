package rig

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// The objects with which an administrator registers a cloud: its driver, and a credential.
const (
	driverName          = "nspawn"
	credentialNamespace = "cattle-global-data"
	credentialName      = "cc-lab"
	clusterNamespace    = "fleet-default"
)

var nodeDrivers = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "nodedrivers"}

// prepareCloud registers the lab's node driver by URL and checksum and stores the lab's token as a cloud credential, as
// an administrator does with a third-party driver. Then it waits until machine configs of the driver can be created.
func (r *Rig) prepareCloud(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(r.Config)
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	for _, name := range []string{credentialNamespace, clusterNamespace} {
		_, err := clients.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the namespace: %w", err)
		}
	}
	secrets := clients.CoreV1().Secrets(credentialNamespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: credentialName, Namespace: credentialNamespace,
		Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: clusterNamespace + "/*"},
	}, StringData: map[string]string{
		"nspawncredentialConfig-url":   r.api.URL,
		"nspawncredentialConfig-token": r.api.Token,
		"nspawncredentialConfig-ca":    base64.StdEncoding.EncodeToString(r.api.CA),
	}}
	if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("store credential: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("store credential: %w", err)
	}
	objects, err := dynamic.NewForConfig(r.Config)
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	if _, err := objects.Resource(nodeDrivers).Apply(ctx, driverName, r.nodeDriver(),
		metav1.ApplyOptions{FieldManager: "lab", Force: true}); err != nil {
		return fmt.Errorf("register node driver: %w", err)
	}
	return r.awaitKind(ctx, objects)
}

func (r *Rig) nodeDriver() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "management.cattle.io/v3", "kind": "NodeDriver",
		"metadata": map[string]any{"name": driverName, "annotations": map[string]any{
			"publicCredentialFields": "url,ca", "privateCredentialFields": "token",
		}},
		"spec": map[string]any{
			"displayName": driverName, "url": r.api.DriverURL, "checksum": r.api.DriverSum,
			"active": true, "addCloudCredential": true, "builtin": false,
		},
	}}
}

// awaitKind waits until the API serves the driver's machine configs.
func (r *Rig) awaitKind(ctx context.Context, objects dynamic.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	configs := objects.Resource(schema.GroupVersionResource{Group: "rke-machine-config.cattle.io", Version: "v1",
		Resource: driverName + "configs"})
	var last error
	if err := poll(ctx, func() (bool, error) {
		_, last = configs.Namespace(clusterNamespace).List(ctx, metav1.ListOptions{Limit: 1})
		return last == nil, nil
	}); err != nil {
		driver, getErr := objects.Resource(nodeDrivers).Get(context.WithoutCancel(ctx), driverName, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("node driver %s has no kind of machine configs: %w", driverName, last)
		}
		conditions, _, _ := unstructured.NestedSlice(driver.Object, "status", "conditions")
		return fmt.Errorf("node driver %s has no kind of machine configs: %w; its conditions: %v", driverName, last,
			conditions)
	}
	return nil
}
