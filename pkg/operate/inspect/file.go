package inspect

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// File is a manifest: one Cluster, optionally with its pools' machine configs.
type File struct {
	Cluster *provv1.Cluster
	// MachineConfigs by kind and name.
	MachineConfigs map[string]*unstructured.Unstructured
	// IsWhole means that the Cluster is all that would be stored. Otherwise the live Cluster adds what programs write
	// and the file omits.
	IsWhole bool
	// Ignored are the other objects in the file.
	Ignored []string
}

// ParseFile reads a manifest. An unknown or repeated field of the Cluster is an error that names its path.
func ParseFile(data []byte) (File, error) {
	out := File{MachineConfigs: map[string]*unstructured.Unstructured{}}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, fmt.Errorf("read the file: %w", err)
		}
		if err := out.add(document); err != nil {
			return out, err
		}
	}
	if out.Cluster == nil {
		return out, errors.New("the file has no Cluster of " + provv1.SchemeGroupVersion.String())
	}
	return out, nil
}

func (f *File) add(document []byte) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(document, &object.Object); err != nil {
		return fmt.Errorf("read the file: %w", err)
	}
	switch gvk := object.GroupVersionKind(); {
	case len(object.Object) == 0:
		return nil
	case gvk == provv1.SchemeGroupVersion.WithKind("Cluster") && f.Cluster != nil:
		return errors.New("the file has several Clusters; preview one at a time")
	case gvk == provv1.SchemeGroupVersion.WithKind("Cluster"):
		return f.decode(document)
	case gvk.Group == clients.MachineConfigGroup:
		f.MachineConfigs[gvk.Kind+"/"+object.GetName()] = object
	default:
		f.Ignored = append(f.Ignored, strings.TrimPrefix(gvk.Kind+" "+object.GetNamespace()+"/"+object.GetName(), " "))
	}
	return nil
}

func (f *File) decode(document []byte) error {
	scheme, err := clients.NewScheme()
	if err != nil {
		return err
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	cluster := &provv1.Cluster{}
	if _, _, err := strict.Decode(document, nil, cluster); err != nil {
		message := err.Error()
		if runtime.IsStrictDecodingError(err) {
			message = strings.TrimPrefix(message, "strict decoding error: ")
		}
		return errors.New("read the Cluster in the file: " + message)
	}
	f.Cluster = cluster
	return nil
}
