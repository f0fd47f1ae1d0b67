package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/admission"
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/cloudcredential"
)

func TestDecide_ChecksTheKeysOfCredentials(t *testing.T) {
	t.Parallel()
	schema := &cloudcredential.Schema{Credential: map[string]mgmtv3.Field{"token": {Required: true}}}
	secret := func(keys ...string) *corev1.Secret {
		out := &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
		for _, key := range keys {
			out.Data["sim"+key] = []byte("hunter2")
		}
		return out
	}
	restored := secret("credentialConfig-tokem")
	restored.Annotations = map[string]string{"drover.io/restored-from": "backup"}
	const right, wrong = "credentialConfig-token", "credentialConfig-tokem"
	for name, tc := range map[string]struct {
		before, after *corev1.Secret
		schema        *cloudcredential.Schema
		want          []string
	}{
		"right keys": {nil, secret(right), schema, nil},
		"a mistyped key": {nil, secret(wrong), schema,
			[]string{"data[sim" + wrong + "]", "data[sim" + right + "]"}},
		"an added mistake": {secret(right), secret(right, wrong), schema,
			[]string{"data[sim" + wrong + "]"}},
		"a mistake that was there":       {secret(wrong), secret(wrong), schema, nil},
		"no credential":                  {nil, secret("-tokem"), schema, nil},
		"the driver's schema is unknown": {nil, secret(wrong), nil, nil},
		"a restored Secret":              {nil, restored, schema, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before any
			if tc.before != nil {
				before = tc.before
			}
			r := request(t, "", "secrets", facts(t, func(f *admission.Facts) { f.CredentialSchema = tc.schema }),
				before, tc.after)
			var got []string
			for _, err := range decide(t, r).Errors {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if driver := admission.NamedBy(r).Driver; tc.want != nil && driver != "sim" {
				t.Errorf("named driver %q", driver)
			}
		})
	}
}
