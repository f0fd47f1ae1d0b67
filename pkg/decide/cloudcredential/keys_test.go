package cloudcredential

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

func amazon() *Schema {
	return &Schema{
		Credential: map[string]mgmtv3.Field{"accessKey": {Required: true}, "secretKey": {Required: true},
			"defaultRegion": {}},
		Config: map[string]mgmtv3.Field{"accessKey": {}, "secretKey": {}, "sessionToken": {}, "region": {}},
	}
}

func TestProblems_NameWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	const access, secret = "amazonec2credentialConfig-accessKey", "amazonec2credentialConfig-secretKey"
	for name, tc := range map[string]struct {
		data   map[string]string
		schema *Schema
		want   []string
	}{
		"all required keys": {map[string]string{access: "a", secret: "s"}, amazon(), nil},
		"a mistyped key": {map[string]string{"amazonec2credentialConfig-acessKey": "a", secret: "s"}, amazon(),
			[]string{"key amazonec2credentialConfig-acessKey is unknown: driver amazonec2 has no field acessKey; did " +
				"you mean amazonec2credentialConfig-accessKey?",
				"key amazonec2credentialConfig-accessKey is missing: driver amazonec2 requires it"}},
		"a key of another cloud": {map[string]string{access: "a", secret: "s",
			"amazonec2credentialConfig-tenantId": "x"},
			amazon(), []string{"key amazonec2credentialConfig-tenantId is unknown: driver amazonec2 has no field " +
				"tenantId; its keys are amazonec2credentialConfig-accessKey, " +
				"amazonec2credentialConfig-defaultRegion, amazonec2credentialConfig-secretKey"}},
		"an empty value": {map[string]string{access: "a", secret: ""}, amazon(),
			[]string{"key amazonec2credentialConfig-secretKey is missing: driver amazonec2 requires it"}},
		"a key without the name of the driver": {map[string]string{"accessKey": "a", secret: "s"}, amazon(), nil},
		"another flag of the driver, which may authenticate in another way": {
			map[string]string{access: "a", "amazonec2credentialConfig-sessionToken": "t"}, amazon(), nil},
		"an unknown schema": {map[string]string{"amazonec2credentialConfig-x": "a"}, nil, nil},
		"a driver without fields of a credential": {map[string]string{"amazonec2credentialConfig-x": "a"},
			&Schema{Config: map[string]mgmtv3.Field{"size": {}}}, nil},
	} {
		data := map[string][]byte{}
		for key, value := range tc.data {
			data[key] = []byte(value)
		}
		var got []string
		for _, problem := range Problems(data, "amazonec2", tc.schema) {
			got = append(got, problem.String())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Such Secrets have always worked. Users of a machine config with the value need no key for it.
func TestProblems_WhatADriverDoesNotNeedIsNotMissing(t *testing.T) {
	t.Parallel()
	port := mgmtv3.Field{Default: mgmtv3.Values{StringValue: "443"}}
	vsphere := &Schema{
		Credential: map[string]mgmtv3.Field{"password": {Required: true}, "vcenter": {Required: true},
			"port": {Required: true, Default: port.Default}, "environment": {Required: true}},
		Config: map[string]mgmtv3.Field{"password": {}, "vcenter": {}, "port": port,
			"environment": {Default: mgmtv3.Values{StringValue: "Public"}}},
	}
	got := Problems(map[string][]byte{"vmwarevspherecredentialConfig-password": []byte("p")}, "vmwarevsphere", vsphere)
	if len(got) != 1 || got[0].Key != "vmwarevspherecredentialConfig-vcenter" || !got[0].Missing {
		t.Fatalf("problems %v", got)
	}
	if got[0].SolvedBy(map[string]any{"vcenter": ""}) || !got[0].SolvedBy(map[string]any{"vcenter": "vc.test"}) {
		t.Error("the machine config solves the problem if it has a value")
	}
	for name, tc := range map[string]struct {
		keys []string
		want int
	}{
		"the role of the machines": {[]string{"defaultBucket"}, 0},
		"both keys":                {[]string{"accessKey", "secretKey"}, 0}, "one key": {[]string{"accessKey"}, 1},
		"a mistyped key": {[]string{"acessKey"}, 1},
	} {
		data := map[string][]byte{}
		for _, key := range tc.keys {
			data["s3credentialConfig-"+key] = []byte("x")
		}
		if got := Problems(data, ForS3, S3Schema()); len(got) != tc.want {
			t.Errorf("S3 with %s: %v", name, got)
		}
	}
}

func TestDriverOf(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{Data: map[string][]byte{"other": nil, "vmwarevspherecredentialConfig-username": nil}}
	if driver := DriverOf(secret); driver != "vmwarevsphere" || !Is(secret) {
		t.Errorf("driver %q", driver)
	}
	if secret.Data = nil; Is(secret) {
		t.Error("a Secret without such keys is no credential")
	}
}
