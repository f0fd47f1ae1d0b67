package ui

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/operate/edit"
)

// typePassword is the type of a field that is hidden while it is typed.
const typePassword = "password"

// activeDriverBody is a node driver with which clusters can be made.
type activeDriverBody struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	// Schema is the JSON schema of the machine config. It is absent while the driver is not installed. Format password
	// marks secrets.
	Schema *apiextv1.JSONSchemaProps `json:"schema,omitempty"`
	// Credential are the fields of a cloud credential. It is absent for a driver without credentials.
	Credential []credentialFieldBody `json:"credential,omitempty"`
}

// credentialFieldBody is a value of a cloud credential.
type credentialFieldBody struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Secret      bool     `json:"secret"`
	Required    bool     `json:"required"`
	Description string   `json:"description,omitempty"`
	Default     string   `json:"default,omitempty"`
	Options     []string `json:"options,omitempty"`
}

func (u *ui) getDrivers(w http.ResponseWriter, r *http.Request, c *caller) error {
	writeJSON(w, http.StatusOK, u.activeDrivers(r.Context(), c))
	return nil
}

// activeDrivers lists the active drivers. If the caller may not read the schemas, the drivers lack them, and the part
// says why.
func (u *ui) activeDrivers(ctx context.Context, c *caller) part[activeDriverBody] {
	client, err := u.kinds.Client(c.config, mgmtv3.SchemeGroupVersion)
	if err != nil {
		return partOf[activeDriverBody](nil, err)
	}
	drivers, schemas := &mgmtv3.NodeDriverList{}, &mgmtv3.DynamicSchemaList{}
	if err := list(ctx, client, "", "nodedrivers", metav1.ListOptions{}, drivers); err != nil {
		return partOf[activeDriverBody](nil, err)
	}
	err = list(ctx, client, "", "dynamicschemas", metav1.ListOptions{}, schemas)
	specs := map[string]*mgmtv3.DynamicSchemaSpec{}
	for i := range schemas.Items {
		specs[schemas.Items[i].Name] = &schemas.Items[i].Spec
	}
	out := part[activeDriverBody]{Items: []activeDriverBody{}}
	if err != nil {
		known := failureOf(err)
		out.Error, out.Reason = known.message, known.reason
	}
	for i := range drivers.Items {
		driver := &drivers.Items[i]
		name := driverschema.DisplayName(driver)
		if !driver.Spec.Active || driver.DeletionTimestamp != nil || driverschema.ValidName(name) != nil {
			continue
		}
		out.Items = append(out.Items, activeDriverBody{name, driver.Spec.DisplayName,
			formSchema(name, specs[driverschema.ConfigSchema(name)]),
			credentialFields(specs[driverschema.CredentialSchema(name)])})
	}
	slices.SortFunc(out.Items, func(a, b activeDriverBody) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// formSchema is the schema of a driver's machine configs without the fields that no user fills in.
func formSchema(driver string, spec *mgmtv3.DynamicSchemaSpec) *apiextv1.JSONSchemaProps {
	schema := edit.Schema(driver, spec)
	if schema == nil {
		return nil
	}
	for _, name := range []string{"apiVersion", "kind", "metadata", "common", "providerID"} {
		if _, ofDriver := spec.ResourceFields[name]; !ofDriver {
			delete(schema.Properties, name)
		}
	}
	for name, property := range schema.Properties {
		if spec.ResourceFields[name].Type == typePassword {
			property.Format = typePassword
			schema.Properties[name] = property
		}
	}
	return schema
}

// credentialFields are the fields of a credential's schema, the required ones first.
func credentialFields(spec *mgmtv3.DynamicSchemaSpec) []credentialFieldBody {
	if spec == nil {
		return nil
	}
	var out []credentialFieldBody
	for _, name := range slices.Sorted(maps.Keys(spec.ResourceFields)) {
		field := spec.ResourceFields[name]
		out = append(out, credentialFieldBody{name, field.Type, field.Type == typePassword, field.Required,
			field.Description, field.Default.StringValue, field.Options})
	}
	slices.SortStableFunc(out, func(a, b credentialFieldBody) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return out
}
