// Package registration registers the webhooks of package webhook, and the policies that need no webhook, with the API
// server. The objects are in files/. The chart installs the same ones. Install is for clusters without the chart.
package registration

import (
	"bytes"
	"context"
	_ "embed" // the objects are part of the program
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/admission/webhook"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Name is the name of both webhook configurations. Service is the Service in front of the chart's webhooks, in
// namespace drover-system.
const (
	Name    = "drover"
	Service = "drover-admission"
	// wordedWebhook is the webhook whose path ends with a word that only the API server knows. Objects that others
	// install have no path there. The path is Drover's own field, so an upgrade of the other fields neither resets it
	// nor conflicts.
	wordedWebhook = "reference.admission.drover.io"
)

//go:embed files/policies.yaml
var policies []byte

//go:embed files/webhooks.yaml
var webhooks []byte

// resources maps the kinds in the files to their resources.
var resources = map[string]string{
	"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"ValidatingWebhookConfiguration":   "validatingwebhookconfigurations",
	"MutatingWebhookConfiguration":     "mutatingwebhookconfigurations",
}

// Objects returns the policies and the webhook configurations, in the order of their creation.
func Objects() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, file := range [][]byte{policies, webhooks} {
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), len(file))
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read admission objects: %w", err)
			}
			out = append(out, object)
		}
	}
	return out, nil
}

// Install creates or updates the objects. The API server calls the webhooks at url, an https address without a path,
// and verifies it with the authorities in caCerts (PEM). word is the secret part of one path. The user of client may
// delete machines of protected clusters, like Drover's account in the chart.
func Install(ctx context.Context, client dynamic.Interface, url string, caCerts []byte, word string) error {
	objects, err := Objects()
	if err != nil {
		return err
	}
	own, err := whoami(ctx, client)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := admit(object, own); err != nil {
			return err
		}
		if err := direct(object, url, caCerts, word); err != nil {
			return err
		}
		object.SetLabels(map[string]string{rkev1.ManagedByLabel: rkev1.ManagedByDrover})
		resource := schema.GroupVersionResource{Group: admissionregistrationv1.GroupName, Version: "v1",
			Resource: resources[object.GetKind()]}
		if _, err := client.Resource(resource).Apply(ctx, object.GetName(), object,
			metav1.ApplyOptions{FieldManager: "drover", Force: true}); err != nil {
			return fmt.Errorf("install %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// whoami returns the user name that the API server sees. It is empty if the API server does not serve the review.
func whoami(ctx context.Context, client dynamic.Interface) (string, error) {
	version := authenticationv1.SchemeGroupVersion
	question := &unstructured.Unstructured{Object: map[string]any{}}
	question.SetGroupVersionKind(version.WithKind("SelfSubjectReview"))
	answer, err := client.Resource(version.WithResource("selfsubjectreviews")).Create(ctx, question,
		metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the user name of Drover: %w", err)
	}
	name, _, err := unstructured.NestedString(answer.Object, "status", "userInfo", "username")
	return name, err
}

// programs is the variable of a policy that lists the users that delete machines to scale, replace and repair.
const programs = "programs"

// admit adds a user to the programs of a policy, if it has any.
func admit(object *unstructured.Unstructured, user string) error {
	variables, found, err := unstructured.NestedSlice(object.Object, "spec", "variables")
	if err != nil || !found || user == "" {
		return err
	}
	name, err := json.Marshal(user) // a JSON string is a CEL literal, too
	if err != nil {
		return err
	}
	for _, item := range variables {
		if variable, _ := item.(map[string]any); variable["name"] == programs {
			list, _ := variable["expression"].(string)
			variable["expression"] = strings.TrimSuffix(list, "]") + ", " + string(name) + "]"
		}
	}
	return unstructured.SetNestedSlice(object.Object, variables, "spec", "variables")
}

// direct points the webhooks of a configuration to an address.
func direct(object *unstructured.Unstructured, url string, caCerts []byte, word string) error {
	list, found, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil || !found {
		return err
	}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		path, _, err := unstructured.NestedString(entry, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		if entry["name"] == wordedWebhook {
			path = webhook.GrantsPath + word
		}
		entry["clientConfig"] = map[string]any{"url": url + path,
			"caBundle": base64.StdEncoding.EncodeToString(caCerts)}
	}
	return unstructured.SetNestedSlice(object.Object, list, "webhooks")
}

// Fill completes the webhook configurations that were installed by others. It sets the authorities (PEM) that verify
// the webhooks, and the path that ends with the word. It writes only differences. Errors are those of the API, for
// example a missing configuration.
func Fill(ctx context.Context, client kubernetes.Interface, caCerts []byte, word string) error {
	registered := client.AdmissionregistrationV1()
	validating, err := registered.ValidatingWebhookConfigurations().Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", Name, err)
	}
	var missing []edit
	for i := range validating.Webhooks {
		missing = append(missing, differs(i, validating.Webhooks[i].Name, validating.Webhooks[i].ClientConfig, caCerts,
			word)...)
	}
	if err := write(missing, func(patch []byte) error {
		_, err := registered.ValidatingWebhookConfigurations().Patch(ctx, Name, types.JSONPatchType, patch,
			metav1.PatchOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("complete ValidatingWebhookConfiguration %s: %w", Name, err)
	}
	mutating, err := registered.MutatingWebhookConfigurations().Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", Name, err)
	}
	missing = nil
	for i := range mutating.Webhooks {
		missing = append(missing, differs(i, mutating.Webhooks[i].Name, mutating.Webhooks[i].ClientConfig, caCerts,
			word)...)
	}
	if err := write(missing, func(patch []byte) error {
		_, err := registered.MutatingWebhookConfigurations().Patch(ctx, Name, types.JSONPatchType, patch,
			metav1.PatchOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("complete MutatingWebhookConfiguration %s: %w", Name, err)
	}
	return nil
}

// edit is one operation of a JSON patch.
type edit struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// differs returns the edits that set the authorities of a webhook, and the path with the word where it belongs. The
// edits test the name first, because others may change the list in the meantime.
func differs(i int, name string, config admissionregistrationv1.WebhookClientConfig, caCerts []byte,
	word string) []edit {
	at := fmt.Sprintf("/webhooks/%d/", i)
	var edits []edit
	if !slices.Equal(config.CABundle, caCerts) {
		edits = append(edits, edit{"add", at + "clientConfig/caBundle", caCerts})
	}
	if path := webhook.GrantsPath + word; name == wordedWebhook && config.Service != nil &&
		(config.Service.Path == nil || *config.Service.Path != path) {
		edits = append(edits, edit{"add", at + "clientConfig/service/path", path})
	}
	if len(edits) == 0 {
		return nil
	}
	return append([]edit{{"test", at + "name", name}}, edits...)
}

func write(edits []edit, patch func([]byte) error) error {
	if len(edits) == 0 {
		return nil
	}
	data, err := json.Marshal(edits)
	if err != nil {
		return err
	}
	return patch(data)
}
