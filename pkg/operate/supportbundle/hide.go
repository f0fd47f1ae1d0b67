package supportbundle

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/redact"
)

const (
	kindSecret = "Secret"
	// settingsLabel marks ConfigMaps with the settings of servers, which hold no secrets.
	settingsLabel = "drover.io/settings"
)

// hider removes secrets from objects, and remembers them.
type hider struct {
	known *redact.Secrets
	// passwords are the hidden fields of drivers: driver and field.
	passwords map[[2]string]bool
	// described are the drivers with a readable schema. For other drivers the secret fields are unknown.
	described map[string]bool
	// undescribed are the flag prefixes of the other drivers that have objects here.
	undescribed []string
}

func newHider(objects []*unstructured.Unstructured) *hider {
	h := &hider{known: &redact.Secrets{}, passwords: map[[2]string]bool{}, described: map[string]bool{}}
	h.known.Except("default", "kube-system", "rancher", "cattle", "docker.io")
	for _, object := range objects {
		h.known.Except(object.GetName(), object.GetNamespace(), object.GetKind())
		switch object.GetKind() {
		case "DynamicSchema":
			h.learnSchema(object)
		case "NodeDriver":
			h.learnDriver(object)
		}
	}
	for _, object := range objects {
		if driver := driverschema.Stem(object.GetKind()); ofDriver(object) && !h.described[driver] {
			h.undescribed = append(h.undescribed, "--"+driver+"-")
		}
	}
	return h
}

// ofDriver reports whether an object holds the configuration of a driver.
func ofDriver(object *unstructured.Unstructured) bool {
	group := object.GroupVersionKind().Group
	return group == driverschema.ConfigGroup || group == driverschema.MachineGroup
}

// learnSchema records the password fields of a driver's configuration.
func (h *hider) learnSchema(object *unstructured.Unstructured) {
	driver := strings.TrimSuffix(object.GetName(), "config")
	h.described[strings.ToLower(driver)] = true
	fields, _, _ := unstructured.NestedMap(object.Object, "spec", "resourceFields") // no schema: no fields
	for name, described := range fields {
		if properties, ok := described.(map[string]any); ok && properties["type"] == "password" {
			h.private(driver, name)
		}
	}
}

// learnDriver records the secret fields that a driver's annotations name.
func (h *hider) learnDriver(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	for _, names := range []string{annotations[mgmtv3.PrivateCredentialFieldsAnnotation],
		annotations[mgmtv3.PasswordFieldsAnnotation]} {
		for name := range strings.SplitSeq(names, ",") {
			h.private(object.GetName(), strings.TrimSpace(name))
		}
	}
	aliases, err := driverschema.ParseAliases(annotations)
	if err != nil {
		return // an unreadable annotation names no fields
	}
	for name := range aliases {
		h.private(object.GetName(), name)
	}
}

func (h *hider) private(driver, field string) {
	h.passwords[[2]string{strings.ToLower(driver), field}] = true
}

// object returns a copy of an object without its secrets.
func (h *hider) object(object *unstructured.Unstructured) map[string]any {
	tree := object.DeepCopy().Object
	h.metadata(tree)
	group := object.GroupVersionKind().Group
	switch {
	case group == "" && object.GetKind() == kindSecret:
		h.secret(tree)
		return tree
	case group == "" && object.GetKind() == "ConfigMap":
		if object.GetLabels()[settingsLabel] != "true" {
			h.configMap(tree)
		}
		return tree
	case ofDriver(object):
		h.driver(object.GetKind(), tree)
	}
	for key, child := range tree {
		if key != "metadata" {
			tree[key] = h.walk(key, child)
		}
	}
	return tree
}

// keptAnnotations look like secrets by name, but hold none.
var keptAnnotations = []string{
	rkev1.AuthorizedObjectAnnotation, rkev1.AuthorizedSecretAnnotation, rkev1.AuthorizedSecretDeletesAnnotation,
	rkev1.BootstrapTokenAnnotation,
	rkev1.BootstrapTokenInvalidatedAnnotation, rkev1.ServiceAccountSecretRefAnnotation,
}

// metadata removes annotations with copies of objects, because the copies can contain secrets.
func (h *hider) metadata(tree map[string]any) {
	unstructured.RemoveNestedField(tree, "metadata", "managedFields")
	annotations, _, _ := unstructured.NestedMap(tree, "metadata", "annotations") // no annotations: nothing to hide
	for name, value := range annotations {
		text, _ := value.(string)
		switch {
		case strings.HasSuffix(name, "last-applied-configuration"),
			strings.HasPrefix(name, "objectset.rio.cattle.io/applied"):
			delete(annotations, name)
		case name == rkev1.ClusterSpecAnnotation:
			annotations[name] = hidden(len(text))
		case redact.Named(name) && !slices.Contains(keptAnnotations, name):
			annotations[name] = h.hide(text)
		}
	}
	if len(annotations) > 0 {
		_ = unstructured.SetNestedMap(tree, annotations, "metadata", "annotations") // annotations was read from there
	} else {
		unstructured.RemoveNestedField(tree, "metadata", "annotations")
	}
}

// unlearned are types of Secrets whose texts are not remembered. Plans contain many harmless texts, and the other types
// are archives.
var unlearned = []string{rkev1.SecretTypeMachinePlan, rkev1.SecretTypeMachineState, "helm.sh/release.v1"}

func (h *hider) secret(tree map[string]any) {
	if data := contents(tree, "data", true); !slices.Contains(unlearned, field(tree, "type")) {
		h.known.AddData(data)
	}
	delete(tree, "stringData")
}

// configMap hides the users' values in a ConfigMap.
func (h *hider) configMap(tree map[string]any) {
	for name, encoded := range map[string]bool{"data": false, "binaryData": true} {
		for key, value := range contents(tree, name, encoded) {
			h.named(key, string(value))
		}
	}
}

// contents returns the values of a Secret or ConfigMap, and replaces them by their sizes.
func contents(tree map[string]any, name string, encoded bool) map[string][]byte {
	values, _ := tree[name].(map[string]any)
	out := make(map[string][]byte, len(values))
	for key, value := range values {
		text, _ := value.(string)
		out[key] = []byte(text)
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil && encoded {
			out[key] = plain
		}
		values[key] = hidden(len(out[key]))
	}
	return out
}

// driver hides fields of a driver's configuration. The fields are at the top of a config, and in the spec of machines
// and templates.
func (h *hider) driver(kind string, tree map[string]any) {
	driver := driverschema.Stem(kind)
	fields := tree
	for _, into := range [][]string{{"spec"}, {"spec", "template", "spec"}} {
		below, _, _ := unstructured.NestedFieldNoCopy(tree, into...)
		if spec, ok := below.(map[string]any); ok {
			fields = spec
		}
	}
	for name, value := range fields {
		text, ok := value.(string)
		switch {
		case slices.Contains(everywhere, name):
		case !h.described[driver]:
			fields[name] = each(name, value, h.text)
		case ok && (h.passwords[[2]string{driver, name}] || isDocument(text)):
			fields[name] = h.hide(text)
		}
	}
}

// everywhere are fields of every driver's objects. They hold no secrets.
var everywhere = []string{"apiVersion", "kind", "metadata", "status", "providerID", "common"}

// words matches texts of words, numbers and short codes: names, hosts, paths, sentences.
var words = regexp.MustCompile(`^(?:(?:[A-Z]?[a-z]{1,14}|[A-Z]{1,14}|[0-9]{1,5}|[a-z0-9]{1,7})(?:[\s./:,_=-]+|$))+$`)

// hideFree hides a value with unknown content. It does not remember a text of plain words, because those words can
// occur elsewhere with another meaning.
func (h *hider) hideFree(text string) string {
	if words.MatchString(text) {
		return hidden(len(text))
	}
	return h.hide(text)
}

// hide remembers a value and returns its placeholder.
func (h *hider) hide(text string) string {
	if text == "" {
		return ""
	}
	h.known.AddText(text)
	return hidden(len(text))
}
