package driverschema_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

func loadCore(t *testing.T) driverschema.Core {
	t.Helper()
	core, err := driverschema.LoadCore()
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// TestLoadCore_KnowsEveryFlag compares the table with the answers of the plugin protocol for the pinned release.
func TestLoadCore_KnowsEveryFlag(t *testing.T) {
	core := loadCore(t)
	if core.Version != "v0.15.0-rancher145" {
		t.Errorf("the table is of release %s", core.Version)
	}
	want := map[string]int{
		"amazonec2": 39, "azure": 33, "digitalocean": 14, "exoscale": 12, "generic": 5, "google": 22, "noop": 1,
		"openstack": 45,
		"pod":       2, "rackspace": 10, "softlayer": 16, "vmwarevsphere": 33,
	}
	got := map[string]int{}
	for name, flags := range core.Drivers {
		got[name] = len(flags)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags per driver (-want +got):\n%s", diff)
	}
}

func TestFieldName(t *testing.T) {
	for flagName, want := range map[string]string{
		"amazonec2-ssh-keypath":        "sshKeypath",
		"amazonec2-http-protocol-ipv6": "httpProtocolIpv6",
		"vmwarevsphere-cloud-config":   "cloudConfig",
		"digitalocean-ipv6":            "ipv6",
		"sim-2fa-code":                 "2faCode",
		"sim-trailing-":                "trailing",
	} {
		if got, err := driverschema.FieldName(flagName); err != nil || got != want {
			t.Errorf("field of %s is %q (%v), want %q", flagName, got, err, want)
		}
	}
	for _, flagName := range []string{"url", "sim-", ""} {
		if got, err := driverschema.FieldName(flagName); err == nil {
			t.Errorf("field of %q is %q, want an error", flagName, got)
		}
	}
}

// seedSchema is the schema that a seeded driver gets.
func seedSchema(t *testing.T, name string) (driverschema.Metadata, map[string]mgmtv3.Field) {
	t.Helper()
	for _, seed := range driverschema.Seeds() {
		if seed.Name != name {
			continue
		}
		metadata, err := driverschema.ParseMetadata(seed.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := driverschema.Fields(loadCore(t).Drivers[name], metadata)
		if err != nil {
			t.Fatal(err)
		}
		return metadata, fields
	}
	t.Fatalf("%s is not seeded", name)
	return driverschema.Metadata{}, nil
}

func TestSeeds_AllBecomeKinds(t *testing.T) {
	for _, seed := range driverschema.Seeds() {
		t.Run(seed.Name, func(t *testing.T) {
			metadata, fields := seedSchema(t, seed.Name)
			names := slices.Concat(metadata.Public, metadata.Private, metadata.Passwords)
			for schemaField := range metadata.Aliases {
				names = append(names, schemaField)
			}
			for _, name := range names {
				if _, ok := fields[name]; !ok {
					t.Errorf("annotation names field %q, which the driver does not have", name)
				}
			}
			for _, crd := range driverschema.CRDs(seed.Name, mgmtv3.DynamicSchemaSpec{ResourceFields: fields}) {
				checkStructural(t, crd)
			}
		})
	}
}

// checkStructural applies the rules of the API server to a definition.
func checkStructural(t *testing.T, crd *apiextv1.CustomResourceDefinition) {
	t.Helper()
	var internal apiext.JSONSchemaProps
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatalf("%s is not structural: %v", crd.Name, err)
	}
	if errs := schema.ValidateStructural(nil, structural); len(errs) > 0 {
		t.Errorf("%s: %v", crd.Name, errs.ToAggregate())
	}
	if errs, err := defaulting.ValidateDefaults(t.Context(), nil, structural, true, true); err != nil || len(errs) > 0 {
		t.Errorf("%s: defaults: %v %v", crd.Name, errs.ToAggregate(), err)
	}
}

func TestCRDs_Golden(t *testing.T) {
	for _, name := range []string{"amazonec2", "vmwarevsphere"} {
		t.Run(name, func(t *testing.T) {
			_, fields := seedSchema(t, name)
			var out []string
			for _, crd := range driverschema.CRDs(name, mgmtv3.DynamicSchemaSpec{ResourceFields: fields}) {
				text, err := yaml.Marshal(crd)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, string(text))
			}
			golden.Check(t, "testdata/crds/"+name+".yaml", strings.Join(out, "---\n"))
		})
	}
}

func TestFields_Golden(t *testing.T) {
	for _, seed := range driverschema.Seeds() {
		metadata, fields := seedSchema(t, seed.Name)
		text, err := yaml.Marshal(map[string]any{
			"config": fields, "credential": driverschema.CredentialFields(seed.Name, fields, metadata),
			"hints": driverschema.UIHints(metadata.Aliases),
		})
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/fields/"+seed.Name+".yaml", string(text))
	}
}

func TestFields_Refuses(t *testing.T) {
	for name, test := range map[string]struct {
		flags   []driverschema.Flag
		wantErr string
	}{
		"a flag without a prefix": {[]driverschema.Flag{{Name: "url", Type: driverschema.FlagString}},
			`flag "url" has no driver prefix`},
		"an unknown type": {[]driverschema.Flag{{Name: "sim-x", Type: "float"}},
			`flag "sim-x" has the unknown type "float"`},
		"two flags for one field": {[]driverschema.Flag{{Name: "sim-a-b", Type: "string"},
			{Name: "sim-a--b", Type: "int"}}, `maps to field "aB"`},
		"an alias that hides a neighbor": {[]driverschema.Flag{{Name: "sim-path", Type: "string"},
			{Name: "sim-content", Type: "string"}}, `maps to field "content"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := driverschema.Fields(test.flags,
				driverschema.Metadata{Aliases: map[string]string{"content": "path"}})
			if err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("error is %v, want %q", err, test.wantErr)
			}
		})
	}
}

func TestParseMetadata(t *testing.T) {
	got, err := driverschema.ParseMetadata(map[string]string{
		mgmtv3.PublicCredentialFieldsAnnotation:   "user, host,",
		mgmtv3.PrivateCredentialFieldsAnnotation:  "token",
		mgmtv3.PasswordFieldsAnnotation:           "rootPass",
		mgmtv3.OptionalCredentialFieldsAnnotation: "host",
		mgmtv3.DefaultsAnnotation:                 "host:a:443",
		mgmtv3.FileToFieldAliasesAnnotation:       "key:keyPath,userdata:userdata",
	})
	want := driverschema.Metadata{
		Public: []string{"user", "host"}, Private: []string{"token"}, Passwords: []string{"rootPass"},
		Optional: []string{"host"},
		Defaults: map[string]string{"host": "a:443"},
		Aliases:  map[string]string{"key": "keyPath", "userdata": "userdata"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("metadata (-want +got), error %v:\n%s", err, diff)
	}
	for _, broken := range []string{"key", ":path", "key:", "a:b,c"} {
		_, err := driverschema.ParseMetadata(map[string]string{mgmtv3.FileToFieldAliasesAnnotation: broken})
		if err == nil || !strings.Contains(err.Error(), mgmtv3.FileToFieldAliasesAnnotation) {
			t.Errorf("alias %q: error is %v, want the name of the annotation", broken, err)
		}
	}
}

func TestBaseName(t *testing.T) {
	embedding, changed := driverschema.NodeTemplateConfigs.With(mgmtv3.DynamicSchemaSpec{},
		driverschema.ConfigField("myCloud"), "mycloudconfig", true)
	if !changed {
		t.Error("adding a driver must be a change")
	}
	if got, ok := driverschema.BaseName("mycloudconfig", embedding); !ok || got != "myCloud" {
		t.Errorf("base name is %q, %v; want the spelling of the embedded field, myCloud", got, ok)
	}
	for _, other := range []string{"mycloudcredentialconfig", "otherconfig", "nodetemplateconfig", "mycloud"} {
		if got, ok := driverschema.BaseName(other, embedding); ok {
			t.Errorf("%s has the base name %q, want none", other, got)
		}
	}
	if _, changed := driverschema.NodeTemplateConfigs.With(embedding, driverschema.ConfigField("myCloud"),
		"mycloudconfig", true); changed {
		t.Error("adding a driver twice must be no change")
	}
	without, changed := driverschema.NodeTemplateConfigs.With(embedding, driverschema.ConfigField("myCloud"),
		"mycloudconfig", false)
	if _, ok := driverschema.BaseName("mycloudconfig", without); ok || !changed {
		t.Error("a removed driver still has kinds")
	}
	if _, ok := embedding.ResourceFields["myCloudConfig"]; !ok {
		t.Error("the argument is modified")
	}
}

func TestDriverOf(t *testing.T) {
	for kind, want := range map[string]string{"Amazonec2Machine": "amazonec2", "SimMachine": "sim", "CustomMachine": "",
		"Machine": "", "SimMachineTemplate": ""} {
		got, ok := driverschema.DriverOf(kind)
		if got != want || ok != (want != "") {
			t.Errorf("driver of %s is %q, %v; want %q", kind, got, ok, want)
		}
	}
	if got := driverschema.MachineKind("sim"); got != "SimMachine" {
		t.Errorf("machine kind of sim is %s", got)
	}
}

func TestValidName(t *testing.T) {
	for name, wantOK := range map[string]bool{"sim": true, "myCloud2": true, "my-cloud": false, "2cloud": false,
		"": false, "a/b": false} {
		if err := driverschema.ValidName(name); (err == nil) != wantOK {
			t.Errorf("%q: %v, want valid %v", name, err, wantOK)
		}
	}
}

func TestReseed_KeepsTheAdministratorsChoice(t *testing.T) {
	seed := driverschema.Seeds()[0]
	stored := seed.DeepCopy()
	stored.Spec.Active, stored.Spec.Description = false, "ours"
	stored.Annotations["note"] = "mine"
	if _, changed := driverschema.Reseed(stored, seed); changed {
		t.Error("a deactivated driver is written again")
	}
	stored.Spec.URL = "https://example.org"
	delete(stored.Annotations, mgmtv3.PrivateCredentialFieldsAnnotation)
	got, changed := driverschema.Reseed(stored, seed)
	if !changed || got.Spec.URL != driverschema.LocalURL ||
		got.Annotations[mgmtv3.PrivateCredentialFieldsAnnotation] != "secretKey" {
		t.Errorf("changed %v, URL %s, annotations %v; want those of the seed", changed, got.Spec.URL, got.Annotations)
	}
	if got.Spec.Active || got.Annotations["note"] != "mine" || got.Spec.Description != "ours" {
		t.Errorf("the administrator's choice is lost: %+v", got)
	}
}

// Drover must be able to verify each vendor's driver, and must download none of them before it is activated.
func TestVendorSeeds(t *testing.T) {
	builtin := map[string]bool{}
	for _, seed := range driverschema.Seeds() {
		builtin[seed.Name] = true
	}
	for arch, want := range map[string]string{
		"amd64": "cloudca cloudscale harvester linode nutanix oci otc outscale packet pnap",
		"arm64": "harvester linode", "s390x": "",
	} {
		var names []string
		for _, driver := range driverschema.VendorSeeds(arch) {
			names = append(names, driver.Name)
			if err := driverschema.CheckSource(driver.Spec.URL, driver.Spec.Checksum); err != nil {
				t.Errorf("%s: %v", driver.Name, err)
			}
			if _, err := driverschema.ParseMetadata(driver.Annotations); err != nil {
				t.Errorf("%s: %v", driver.Name, err)
			}
			if driver.Spec.Active || driver.Spec.Builtin || driverschema.Wanted(driver) || builtin[driver.Name] {
				t.Errorf("%s would be installed: %+v", driver.Name, driver.Spec)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", arch, got, want)
		}
	}
}

func TestNamed(t *testing.T) {
	driver := func(name, shown string, active bool) *mgmtv3.NodeDriver {
		return &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: mgmtv3.NodeDriverSpec{DisplayName: shown, Active: active}}
	}
	inactive, active := driver("linode", "linode", false), driver("linode", "", true)
	own, second := driver("my-own", "Linode", true), driver("second", "linode", true)
	off := driver("off", "linode", false)
	other := driver("other", "other", true)
	for name, tc := range map[string]struct {
		drivers []*mgmtv3.NodeDriver
		want    *mgmtv3.NodeDriver
	}{
		"none":                       {[]*mgmtv3.NodeDriver{other}, nil},
		"an inactive one alone":      {[]*mgmtv3.NodeDriver{other, inactive}, inactive},
		"another name":               {[]*mgmtv3.NodeDriver{other, own}, own},
		"an inactive namesake":       {[]*mgmtv3.NodeDriver{inactive, own}, own},
		"both are active":            {[]*mgmtv3.NodeDriver{own, active}, active},
		"both are inactive":          {[]*mgmtv3.NodeDriver{off, inactive}, inactive},
		"the first of two by name":   {[]*mgmtv3.NodeDriver{second, own}, own},
		"an inactive one is skipped": {[]*mgmtv3.NodeDriver{off, second}, second},
	} {
		if got := driverschema.Named(tc.drivers, "linode"); got != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestCRDs_StatusMatchesTheGoType checks that the handwritten parts match the Go types of the controllers.
func TestCRDs_StatusMatchesTheGoType(t *testing.T) {
	machine := driverschema.CRDs("sim", mgmtv3.DynamicSchemaSpec{})[1].Spec.Versions[0].Schema.OpenAPIV3Schema
	compare(t, "status", machine.Properties["status"], reflect.TypeFor[rkev1.RKEMachineStatus]())
	compare(t, "spec.common", machine.Properties["spec"].Properties["common"],
		reflect.TypeFor[rkev1.RKECommonNodeConfig]())
}

func compare(t *testing.T, path string, got apiextv1.JSONSchemaProps, want reflect.Type) {
	t.Helper()
	var names []string
	for field := range want.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
		property, ok := got.Properties[name]
		if !ok {
			t.Errorf("%s.%s is missing", path, name)
			continue
		}
		elem := field.Type
		if property.Type == "array" && elem.Kind() == reflect.Slice {
			property, elem = *property.Items.Schema, elem.Elem()
		}
		if elem.Kind() == reflect.Struct && elem.PkgPath() != "k8s.io/apimachinery/pkg/apis/meta/v1" {
			compare(t, path+"."+name, property, elem)
		}
	}
	for name := range got.Properties {
		if !slices.Contains(names, name) {
			t.Errorf("%s.%s is only in the schema", path, name)
		}
	}
}

// TestCRDs_AnyFieldsAreStructural checks that the API server accepts the kinds of any flags, and that the same flags
// give the same definitions.
func TestCRDs_AnyFieldsAreStructural(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		word := rapid.StringMatching(`[a-z][a-z0-9]{0,5}`)
		types := rapid.SampledFrom([]driverschema.FlagType{driverschema.FlagString, driverschema.FlagInt,
			driverschema.FlagBool, driverschema.FlagList})
		flags := rapid.SliceOfNDistinct(rapid.Custom(func(r *rapid.T) driverschema.Flag {
			return driverschema.Flag{
				Name: "sim-" + strings.Join(rapid.SliceOfN(word, 1, 3).Draw(r, "words"), "-"),
				Type: types.Draw(r, "type"), Default: rapid.String().Draw(r, "default"),
				List: rapid.SliceOf(rapid.String()).Draw(r, "list"),
			}
		}), 0, 8, func(f driverschema.Flag) string {
			name, _ := driverschema.FieldName(f.Name)
			return strings.ToLower(name)
		}).Draw(r, "flags")
		fields, err := driverschema.Fields(flags, driverschema.Metadata{})
		if err != nil {
			r.Fatal(err)
		}
		first := driverschema.CRDs("sim", mgmtv3.DynamicSchemaSpec{ResourceFields: fields})
		for _, crd := range first {
			checkStructural(t, crd)
		}
		if diff := cmp.Diff(first,
			driverschema.CRDs("sim", mgmtv3.DynamicSchemaSpec{ResourceFields: fields})); diff != "" {
			r.Fatalf("not deterministic: %s", diff)
		}
	})
}

func TestCRDs_TranslateLimits(t *testing.T) {
	spec := mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{
		"choice":  {Type: "string", Options: []string{"a"}, Required: true},
		"name":    {Type: "string", MinLength: 1, MaxLength: 9, ValidChars: "a-z", InvalidChars: "0"},
		"other":   {Type: "enum", InvalidChars: "0"},
		"count":   {Type: "int", Min: 1, Max: 3, Default: mgmtv3.Values{IntValue: 2}},
		"ratio":   {Type: "float"},
		"extra":   {Type: "map[json]"},
		"port":    {Type: "intOrString"},
		"numbers": {Type: "array[int]"},
	}}
	crds := driverschema.CRDs("sim", spec)
	for _, crd := range crds {
		checkStructural(t, crd)
	}
	text, err := yaml.Marshal(crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/limits.yaml", string(text))
}
