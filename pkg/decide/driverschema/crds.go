package driverschema

import (
	"fmt"
	"regexp"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// The API groups of drivers' kinds, and their version.
const (
	ConfigGroup  = "rke-machine-config.cattle.io"
	MachineGroup = "rke-machine.cattle.io"
	Version      = "v1"
)

const (
	configSuffix   = "Config"
	machineSuffix  = "Machine"
	templateSuffix = "MachineTemplate"

	// contractLabel maps a version of Cluster API's contract to the kind's version that implements it. There is no
	// label for an older contract, because it would promise fields that Drover does not write.
	contractLabel = "cluster.x-k8s.io/v1beta2"

	// vsphere is the driver whose config kind has always had the fields common and providerID. Stored objects contain
	// them.
	vsphere = "vmwarevsphere"
	osField = "os"
)

// kindName matches the valid names of a driver. The kinds' names and plurals contain the name.
var kindName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// ValidName returns an error that says what is wrong with a driver's name.
func ValidName(driver string) error {
	if !kindName.MatchString(driver) {
		return fmt.Errorf(
			"driver name %q: want letters and digits only, a letter first, because kinds are named after it", driver)
	}
	return nil
}

// BaseName is the name of the driver whose configuration a DynamicSchema describes, in the spelling of its kinds. It is
// known only while the embedding of node templates lists the driver, that is, while the driver is active.
func BaseName(schema string, nodeTemplateConfigs mgmtv3.DynamicSchemaSpec) (string, bool) {
	if !strings.HasSuffix(schema, strings.ToLower(configSuffix)) {
		return "", false
	}
	for field := range nodeTemplateConfigs.ResourceFields {
		if base, ok := strings.CutSuffix(field, configSuffix); ok && strings.EqualFold(field, schema) && base != "" {
			return base, true
		}
	}
	return "", false
}

// MachineKind is the kind of a driver's machines: "Amazonec2Machine".
func MachineKind(driver string) string { return upperFirst(driver) + machineSuffix }

// DriverOf is the driver of a machine kind. CustomMachine and kinds of other forms have none.
func DriverOf(machineKind string) (string, bool) {
	base, ok := strings.CutSuffix(machineKind, machineSuffix)
	if !ok || base == "" || base == "Custom" {
		return "", false
	}
	return strings.ToLower(base), true
}

// Stem is the common part of a driver's kinds, in lower case: SimConfig, SimMachine and SimMachineTemplate have sim.
// For any other kind, it is the whole kind.
func Stem(kind string) string {
	for _, suffix := range []string{templateSuffix, machineSuffix, configSuffix} {
		if base, ok := strings.CutSuffix(kind, suffix); ok {
			return strings.ToLower(base)
		}
	}
	return strings.ToLower(kind)
}

// CRDs returns a driver's three definitions from the fields of its schema: config, machine and machine template.
func CRDs(driver string, spec mgmtv3.DynamicSchemaSpec) []*apiextv1.CustomResourceDefinition {
	base := upperFirst(driver)
	return []*apiextv1.CustomResourceDefinition{
		definition(ConfigGroup, base+configSuffix, configSchema(driver, spec), false),
		definition(MachineGroup, base+machineSuffix, machineSchema(spec), true),
		definition(MachineGroup, base+templateSuffix, templateSchema(spec), false),
	}
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func definition(group, kind string, schema apiextv1.JSONSchemaProps, status bool) *apiextv1.CustomResourceDefinition {
	singular := strings.ToLower(kind)
	version := apiextv1.CustomResourceDefinitionVersion{
		Name: Version, Served: true, Storage: true,
		Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
	}
	if status {
		version.Subresources = &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}}
	}
	return &apiextv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{
			Name: singular + "s." + group,
			Labels: map[string]string{
				contractLabel: Version, rkev1.ClusterIndexedLabel: "true", rkev1.BackupLabel: "true",
				rkev1.ClusterctlLabel: "",
			},
		},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{
				Kind: kind, ListKind: kind + "List", Plural: singular + "s", Singular: singular,
			},
			Versions: []apiextv1.CustomResourceDefinitionVersion{version},
		},
	}
}

func root(description string, properties map[string]apiextv1.JSONSchemaProps,
	required ...string) apiextv1.JSONSchemaProps {
	out := map[string]apiextv1.JSONSchemaProps{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"},
	}
	for name, property := range properties {
		if _, reserved := out[name]; !reserved {
			out[name] = property
		}
	}
	return object(description, out, required...)
}

// configSchema has the fields at the top level, without a spec.
func configSchema(driver string, spec mgmtv3.DynamicSchemaSpec) apiextv1.JSONSchemaProps {
	fields, required := properties(spec.ResourceFields, true)
	if driver == vsphere {
		fields["common"] = common()
		fields["providerID"] = providerID()
		if _, ok := fields[osField]; !ok {
			fields[osField] = text("OS of the machine.")
		}
	}
	return root("Configuration of machines that driver "+driver+" makes.", fields, required...)
}

func machineSpec(spec mgmtv3.DynamicSchemaSpec) apiextv1.JSONSchemaProps {
	fields, required := properties(spec.ResourceFields, false)
	fields["common"] = common()
	fields["providerID"] = providerID()
	return object("Spec is what is wanted.", fields, required...)
}

func machineSchema(spec mgmtv3.DynamicSchemaSpec) apiextv1.JSONSchemaProps {
	return root("One machine.", map[string]apiextv1.JSONSchemaProps{"spec": machineSpec(spec),
		"status": machineStatus()})
}

func templateSchema(spec mgmtv3.DynamicSchemaSpec) apiextv1.JSONSchemaProps {
	template := object("Template is what machines are cloned from.",
		map[string]apiextv1.JSONSchemaProps{"spec": machineSpec(spec)})
	return root("Template of machines.", map[string]apiextv1.JSONSchemaProps{
		"spec": object("Spec is the template.", map[string]apiextv1.JSONSchemaProps{
			"clusterName": text("ClusterName is the name of the Cluster API cluster."),
			"template":    template,
		}),
	})
}
