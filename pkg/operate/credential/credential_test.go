package credential

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

var simFields = map[string]mgmtv3.Field{
	"account": {Type: "string"}, "key": {Type: "password", Required: true},
	"zone": {Type: "string", Options: []string{"a", "b"}}, "insecure": {Type: "boolean"},
}

func TestProblems_NameTheFieldAndNoValue(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	good := map[string]string{"key": secret}
	for name, tc := range map[string]struct {
		request Request
		fields  map[string]mgmtv3.Field
		want    []string
	}{
		"nothing is wrong": {Request{DisplayName: "x", Driver: "sim", Values: good}, simFields, nil},
		"all fields": {Request{Name: "cc-1", DisplayName: "x", Driver: "sim", Values: map[string]string{"key": secret,
			"account": "me", "zone": "b", "insecure": "true"}}, simFields, nil},
		"an empty optional value": {Request{DisplayName: "x", Driver: "sim", Values: map[string]string{"key": secret,
			"zone": ""}}, simFields, nil},
		"without names": {Request{Values: good}, simFields, []string{"displayName", "driver"}},
		"bad names": {Request{Name: "CC", DisplayName: "a\nb", Driver: "s-im", Values: good}, simFields,
			[]string{"name", "displayName", "driver"}},
		"a long name": {Request{DisplayName: strings.Repeat("x", 251), Driver: "sim", Values: good}, simFields,
			[]string{"displayName"}},
		"an unknown value": {Request{DisplayName: "x", Driver: "sim", Values: map[string]string{"key": "k",
			"kee": secret}}, simFields, []string{"values.kee"}},
		"a missing value": {Request{DisplayName: "x", Driver: "sim", Values: map[string]string{"account": secret}},
			simFields, []string{"values.key"}},
		"an empty value": {Request{DisplayName: "x", Driver: "sim", Values: map[string]string{"key": ""}}, simFields,
			[]string{"values.key"}},
		"values of another form": {Request{DisplayName: "x", Driver: "sim", Values: map[string]string{"key": "a\x00",
			"zone": secret, "insecure": secret}}, simFields, []string{"values.insecure", "values.key", "values.zone"}},
		"an unknown schema": {Request{DisplayName: "x", Driver: "sim", Values: map[string]string{"any": secret}}, nil,
			nil},
		"a key that means another one": {Request{DisplayName: "x", Driver: "sim",
			Values: map[string]string{"a-key": secret}}, nil, []string{"values.a-key"}},
		"no values": {Request{DisplayName: "x", Driver: "sim", Values: map[string]string{"any": ""}}, nil,
			[]string{"values"}},
		"S3": {Request{DisplayName: "x", Driver: ForS3, Values: map[string]string{"accessKey": "a"}}, S3Fields(),
			[]string{"values.secretKey"}},
	} {
		var fields []string
		problems := tc.request.Problems(tc.fields)
		for _, problem := range problems {
			fields = append(fields, problem.Field)
		}
		if diff := cmp.Diff(tc.want, fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if text, _ := json.Marshal(problems); strings.Contains(string(text), secret) {
			t.Errorf("%s: %s shows a value", name, text)
		}
	}
}

func TestSecret_HasTheKeysOfTheDriver(t *testing.T) {
	t.Parallel()
	request := Request{DisplayName: " ours ", Driver: "sim", Values: map[string]string{"key": "k\n", "account": ""}}
	got := request.Secret("team", "cc-1")
	want := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cc-1", Annotations: map[string]string{
			"field.cattle.io/name": "ours", "provisioning.cattle.io/driver": "sim"}},
		Type: provv1.SecretTypeCloudCredential,
		Data: map[string][]byte{"simcredentialConfig-key": []byte("k\n")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if driver := DriverOf(got); driver != "sim" {
		t.Errorf("driver %q", driver)
	}
	got.Data = nil
	if driver := DriverOf(got); driver != "sim" {
		t.Errorf("driver %q of the annotation", driver)
	}
}

func TestReplaced_KeepsAllButTheValues(t *testing.T) {
	t.Parallel()
	live := Request{DisplayName: "ours", Driver: "sim", Values: map[string]string{"key": "old", "zone": "a"}}.
		Secret("team", "cc-1")
	live.ResourceVersion, live.Labels = "7", map[string]string{"l": "v"}
	live.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = `{"simcredentialConfig-key":"b2xk"}`
	got := Replaced(live, "sim", map[string]string{"key": "new"})
	want := live.DeepCopy()
	want.Data = map[string][]byte{"simcredentialConfig-key": []byte("new")}
	delete(want.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	missing := Check(LiveFields(live), map[string]string{"key": "new"})
	if len(missing) != 1 || missing[0].Field != "values.zone" {
		t.Errorf("got %v", missing)
	}
}

func TestHide(t *testing.T) {
	t.Parallel()
	values := map[string]string{"key": "hunter2-hunter2", "pin": "1234", "empty": ""}
	for text, want := range map[string]string{
		"webhook denied: hunter2-hunter2 is weak":        "webhook denied: *** is weak",
		"webhook denied: pin 1234":                       "refused",
		"secrets is forbidden: User a may not, id 91234": "secrets is forbidden: User a may not, id 91234",
	} {
		if got := Hide(text, values, "refused"); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := Hide("denied: aHVudGVyMi1odW50ZXIy", values, "refused"); strings.Contains(got, "aHVudGVyMi1odW50ZXIy") {
		t.Errorf("got %q", got)
	}
}
