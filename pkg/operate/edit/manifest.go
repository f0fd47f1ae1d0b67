package edit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// NewCluster describes a cluster that does not exist yet.
type NewCluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version"`
	// CNI is the network of RKE2, empty for the default of the distribution.
	CNI string `json:"cni,omitempty"`
	// Driver is the node driver of all pools, empty for existing hosts.
	Driver     string    `json:"driver,omitempty"`
	Credential string    `json:"credential,omitempty"`
	Pools      []NewPool `json:"pools,omitempty"`
}

// NewPool is a pool of a NewCluster.
type NewPool struct {
	Name  string   `json:"name"`
	Size  int32    `json:"size"`
	Roles []string `json:"roles"`
	// Config has the values of each field of the machine config.
	Config map[string][]string `json:"config,omitempty"`
}

// Roles of pools.
const (
	roleAll          = "all"
	roleEtcd         = "etcd"
	roleControlPlane = "controlplane"
	roleWorker       = "worker"
)

// ParsePool reads a pool such as "workers=3,roles=worker,instanceType=t3.large". A field of a list is repeated.
func ParsePool(text string) (NewPool, error) {
	parts := strings.Split(text, ",")
	sizes, err := ParseSizes(parts[:1])
	if err != nil {
		return NewPool{}, err
	}
	pool := NewPool{Config: map[string][]string{}}
	for name, size := range sizes {
		pool.Name, pool.Size = name, size
	}
	for _, part := range parts[1:] {
		key, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || key == "":
			return pool, fmt.Errorf("pool %s: %q must be a field of the machine config and its value, for example "+
				"size=large",
				pool.Name, part)
		case key == "roles":
			pool.Roles, err = parseRoles(pool.Name, value)
			if err != nil {
				return pool, err
			}
		default:
			pool.Config[key] = append(pool.Config[key], value)
		}
	}
	if len(pool.Roles) == 0 {
		return pool, fmt.Errorf("pool %s has no roles: add roles=all, or roles=etcd+controlplane, or roles=worker",
			pool.Name)
	}
	return pool, nil
}

func parseRoles(pool, text string) ([]string, error) {
	if text == roleAll {
		return []string{roleEtcd, roleControlPlane, roleWorker}, nil
	}
	roles := strings.Split(text, "+")
	for _, role := range roles {
		if !slices.Contains([]string{roleEtcd, roleControlPlane, roleWorker}, role) {
			return nil, fmt.Errorf("pool %s: role %q is unknown; use all, or some of etcd, controlplane and worker, "+
				"joined by +",
				pool, role)
		}
	}
	return roles, nil
}

// Networks are the networks that RKE2 offers.
func Networks() []string { return []string{"calico", "canal", "cilium", "flannel", "none"} }

// Schema is the schema of the machine configs of a driver, nil if it is unknown.
func Schema(driver string, spec *mgmtv3.DynamicSchemaSpec) *apiextv1.JSONSchemaProps {
	if spec == nil {
		return nil
	}
	return driverschema.CRDs(driver, *spec)[0].Spec.Versions[0].Schema.OpenAPIV3Schema
}

// ConfigNames are the names of the kind of a driver's machine configs.
func ConfigNames(driver string) apiextv1.CustomResourceDefinitionNames {
	return driverschema.CRDs(driver, mgmtv3.DynamicSchemaSpec{})[0].Spec.Names
}

// Objects returns the machine configs and the Cluster. It checks the values as the server would, and the machine
// configs against the schema of the driver, which may be nil. The errors have the paths of fields of a NewCluster, such
// as pools[0].config.size. With errors, the objects lack what cannot be converted.
func (n NewCluster) Objects(schema *apiextv1.JSONSchemaProps, releases Releases) ([]*unstructured.Unstructured,
	field.ErrorList) {
	errs := n.check(releases)
	var out []*unstructured.Unstructured
	pools := []any{}
	for i, pool := range n.Pools {
		config, wrong := n.config(pool, schema, field.NewPath("pools").Index(i).Child("config"))
		errs = append(errs, wrong...)
		out = append(out, config)
		pools = append(pools, n.pool(pool, config))
	}
	rke := map[string]any{"machinePools": pools}
	if n.CNI != "" {
		rke["machineGlobalConfig"] = map[string]any{"cni": n.CNI}
	}
	spec := map[string]any{"kubernetesVersion": n.Version, "rkeConfig": rke}
	if n.Credential != "" {
		spec["cloudCredentialSecretName"] = n.Credential
	}
	cluster := n.object(provv1.SchemeGroupVersion.String(), "Cluster", n.Name)
	cluster.Object["spec"] = spec
	out = append(out, cluster)
	typed, err := Typed(cluster)
	if err != nil {
		return out, append(errs, field.InternalError(nil, err))
	}
	for _, invalid := range topology.ValidateAlone(topology.Input{Cluster: typed}) {
		invalid.Field = requestField(invalid.Field)
		isKnown := func(other *field.Error) bool { return other.Field == invalid.Field }
		if !slices.ContainsFunc(errs, isKnown) {
			errs = append(errs, invalid)
		}
	}
	return out, errs
}

var requestFields = strings.NewReplacer("metadata.", "", FieldVersion, fieldVersion,
	"spec.rkeConfig.machinePools", fieldPools, "spec.cloudCredentialSecretName", "credential",
	"spec.rkeConfig.machineGlobalConfig.cni", fieldCNI, ".quantity", ".size", ".machineConfigRef.name", ".name")

// requestField converts a field of a Cluster to that of a NewCluster.
func requestField(path string) string {
	path = requestFields.Replace(path)
	if strings.HasPrefix(path, fieldPools+"[") && strings.HasSuffix(path, "]") && !strings.Contains(path, ".") {
		return path + ".roles" // what a pool itself lacks
	}
	for _, role := range []string{".etcdRole", ".controlPlaneRole", ".workerRole"} {
		path = strings.Replace(path, role, ".roles", 1)
	}
	return path
}

// Fields of a NewCluster.
const (
	fieldVersion = "version"
	fieldCNI     = "cni"
	fieldDriver  = "driver"
	fieldPools   = "pools"
)

// wrong is a mistake in a value that the message describes.
func wrong(path *field.Path, err error) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, err.Error())
}

func (n NewCluster) check(releases Releases) field.ErrorList {
	var errs field.ErrorList
	if err := CheckRelease(n.Version, "", releases); err != nil {
		errs = append(errs, wrong(field.NewPath(fieldVersion), err))
	}
	cni := field.NewPath(fieldCNI)
	switch {
	case n.CNI == "":
	case distro.RuntimeOf(n.Version) != distro.RKE2:
		errs = append(errs, wrong(cni, fmt.Errorf("only RKE2 has this choice, and %s is a version of K3s", n.Version)))
	case !slices.Contains(Networks(), strings.TrimPrefix(n.CNI, "multus,")):
		errs = append(errs, wrong(cni, fmt.Errorf("%q is unknown; use one of %s", n.CNI,
			strings.Join(Networks(), ", "))))
	}
	driver := field.NewPath(fieldDriver)
	switch {
	case n.Driver != "":
		if err := driverschema.ValidName(n.Driver); err != nil {
			errs = append(errs, wrong(driver, err))
		}
	case len(n.Pools) > 0:
		errs = append(errs, wrong(driver, errors.New("machine pools need a driver")))
	}
	return append(errs, n.checkPools()...)
}

func (n NewCluster) checkPools() field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, pool := range n.Pools {
		at := field.NewPath(fieldPools).Index(i)
		if names[pool.Name] {
			errs = append(errs, wrong(at.Child("name"), fmt.Errorf("two pools have the name %s", pool.Name)))
		}
		names[pool.Name] = true
		for _, role := range pool.Roles {
			if !slices.Contains([]string{roleEtcd, roleControlPlane, roleWorker}, role) {
				errs = append(errs, wrong(at.Child("roles"), fmt.Errorf("role %q is unknown; use some of etcd, "+
					"controlplane and worker", role)))
			}
		}
	}
	return errs
}

func (n NewCluster) object(version, kind, name string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion(version)
	out.SetKind(kind)
	out.SetNamespace(n.Namespace)
	out.SetName(name)
	return out
}

func (n NewCluster) pool(pool NewPool, config *unstructured.Unstructured) map[string]any {
	out := map[string]any{"name": pool.Name, "quantity": int64(pool.Size),
		"machineConfigRef": map[string]any{"kind": config.GetKind(), "name": config.GetName()}}
	for role, field := range map[string]string{roleEtcd: "etcdRole", roleControlPlane: "controlPlaneRole",
		roleWorker: "workerRole"} {
		if slices.Contains(pool.Roles, role) {
			out[field] = true
		}
	}
	return out
}

// config returns the machine config of a pool.
func (n NewCluster) config(pool NewPool, schema *apiextv1.JSONSchemaProps, at *field.Path) (*unstructured.Unstructured,
	field.ErrorList) {
	out := n.object(topology.MachineConfigVersion, ConfigNames(n.Driver).Kind, n.Name+"-"+pool.Name)
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(pool.Config)) {
		value, err := valueOf(key, pool.Config[key], schema)
		if err != nil {
			errs = append(errs, wrong(at.Child(key), err))
			continue
		}
		out.Object[key] = value
	}
	return out, errs
}

// valueOf converts the texts of a field to its type.
func valueOf(key string, texts []string, schema *apiextv1.JSONSchemaProps) (any, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("field %s has no value", key)
	}
	kind, err := typeOf(key, texts, schema)
	if err != nil {
		return nil, err
	}
	if kind == "array" {
		list := make([]any, 0, len(texts))
		for _, text := range texts {
			list = append(list, text)
		}
		return list, nil
	}
	if len(texts) > 1 {
		return nil, fmt.Errorf("field %s has two values, and takes one", key)
	}
	return scalar(key, kind, texts[0])
}

// typeOf returns the type of a field. Without a schema, true and false are booleans, and repeated fields are lists.
func typeOf(key string, texts []string, schema *apiextv1.JSONSchemaProps) (string, error) {
	if schema != nil {
		if !slices.Contains(fieldsOf(schema), key) {
			return "", fmt.Errorf("the driver has no field %s; its fields are %s", key,
				strings.Join(fieldsOf(schema), ", "))
		}
		return schema.Properties[key].Type, nil
	}
	switch {
	case len(texts) > 1:
		return "array", nil
	case texts[0] == "true" || texts[0] == "false":
		return "boolean", nil
	}
	return "string", nil
}

func scalar(key, kind, text string) (any, error) {
	switch kind {
	case "boolean":
		value, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("field %s must be true or false, not %q", key, text)
		}
		return value, nil
	case "integer":
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("field %s must be a number, not %q", key, text)
		}
		return value, nil
	case "object":
		return nil, fmt.Errorf("field %s is an object: add it to the manifest", key)
	}
	return text, nil
}

func fieldsOf(schema *apiextv1.JSONSchemaProps) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(schema.Properties)), func(name string) bool {
		return slices.Contains([]string{"apiVersion", "kind", "metadata", "common", "providerID"}, name)
	})
}

// Manifest writes objects as YAML documents.
func Manifest(objects []*unstructured.Unstructured) ([]byte, error) {
	var out bytes.Buffer
	for i, object := range objects {
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(data)
	}
	return out.Bytes(), nil
}
