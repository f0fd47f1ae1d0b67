package ui

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

func schemaObject(name string, fields map[string]mgmtv3.Field) *mgmtv3.DynamicSchema {
	return &mgmtv3.DynamicSchema{
		TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "DynamicSchema"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mgmtv3.DynamicSchemaSpec{ResourceFields: fields}}
}

func driverObject(name string, active bool) *mgmtv3.NodeDriver {
	return &mgmtv3.NodeDriver{TypeMeta: metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "NodeDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mgmtv3.NodeDriverSpec{DisplayName: name, Active: active}}
}

// sim is an active driver with a schema and a credential. young is not installed yet, and off is not active.
func sim() []runtime.Object {
	return []runtime.Object{driverObject("sim", true), driverObject("young", true), driverObject("off", false),
		schemaObject("simconfig", map[string]mgmtv3.Field{
			"size": {Type: "string", Description: "Size of the machine", Options: []string{"small", "large"},
				Default: mgmtv3.Values{StringValue: "small"}},
			"ports": {Type: "array[string]"}, "password": {Type: "password"},
			"region": {Type: "string", Required: true}}),
		schemaObject("simcredentialconfig", map[string]mgmtv3.Field{
			"account": {Type: "string"}, "key": {Type: "password", Required: true, Description: "Secret key"}}),
		schemaObject("offconfig", nil),
	}
}

func TestDrivers_AreTheActiveOnes(t *testing.T) {
	f := newFakeAPI(t, sim()...)
	p := signedIn(t, f)
	recorder := p.get("/ui/api/v1/drivers")
	got := decode[part[activeDriverBody]](t, recorder)
	if len(got.Items) != 2 || got.Items[0].Name != "sim" || got.Items[1].Name != "young" || got.Items[1].Schema != nil {
		t.Fatalf("got %s", recorder.Body)
	}
	want := []credentialFieldBody{
		{Name: "key", Type: "password", Secret: true, Required: true, Description: "Secret key"},
		{Name: "account", Type: "string"}}
	if diff := cmp.Diff(want, got.Items[0].Credential); diff != "" {
		t.Errorf("credential (-want +got):\n%s", diff)
	}
	schema := got.Items[0].Schema
	if len(schema.Properties) != 4 || string(schema.Properties["size"].Default.Raw) != `"small"` ||
		len(schema.Properties["size"].Enum) != 3 || schema.Properties["password"].Format != "password" ||
		schema.Properties["ports"].Type != "array" || strings.Join(schema.Required, ",") != "region" {
		t.Errorf("schema %s", recorder.Body)
	}
	// Some may read the drivers alone. Others may read neither.
	f.forbid("bob", "")
	f.permitKind("bob", "nodedrivers")
	p.signIn("token-of-bob")
	got = decode[part[activeDriverBody]](t, p.get("/ui/api/v1/drivers"))
	if len(got.Items) != 2 || got.Items[0].Schema != nil || got.Reason != reasonForbidden || got.Error == "" {
		t.Errorf("got %+v", got)
	}
	f.permitKind("bob", "nothing")
	recorder = p.get("/ui/api/v1/drivers")
	if body := recorder.Body.String(); recorder.Code != http.StatusOK || strings.Contains(body, "items") ||
		!strings.Contains(body, `"reason":"Forbidden"`) {
		t.Errorf("got %s", body)
	}
}
