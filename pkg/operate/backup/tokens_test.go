package backup

import (
	"cmp"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func TestRestore_WarnsAboutReplacedTokens(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		expires, purpose, secret, namespace string
		made                                bool // by Drover
		want                                bool
	}{
		"expired":                  {expires: "2026-11-22T12:00:00Z", want: true},
		"not expired yet":          {expires: "2026-11-22T12:00:01Z"},
		"without an end":           {},
		"for agents and hosts":     {expires: "2026-11-01T00:00:00Z", purpose: "-", want: true},
		"for hosts":                {expires: "2026-11-01T00:00:00Z", purpose: mgmtv3.TokenPurposeNode},
		"of another cluster":       {expires: "2026-11-01T00:00:00Z", namespace: "c-m-other"},
		"another kind":             {expires: "2026-11-01T00:00:00Z", secret: "default-token"},
		"of a provisioned cluster": {expires: "2026-11-01T00:00:00Z", made: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := ofProd()
			if c.made {
				_ = unstructured.SetNestedMap(b.Objects[3].Object, map[string]any{}, "spec", "rkeConfig")
			}
			space := in("", object("v1", "Namespace", "c-m-old", "o"))
			token := in(cmp.Or(c.namespace, "c-m-old"),
				object("v1", "Secret", cmp.Or(c.secret, "crt-token-default-token"), "t"))
			if c.purpose != "-" {
				token.SetLabels(
					map[string]string{mgmtv3.TokenPurposeLabel: cmp.Or(c.purpose, mgmtv3.TokenPurposeAgent)})
			}
			set(token, base64.StdEncoding.EncodeToString([]byte("precious")), "data", registration.KeyToken)
			set(token, base64.StdEncoding.EncodeToString([]byte(c.expires)), "data", registration.KeyExpiresAt)
			b.Objects = append(b.Objects, space, token)
			result, err := Restore(t.Context(), b, RestoreOptions{Client: client(t, memkube.New(memkube.Options{})),
				DryRun: true, Now: func() time.Time { return now }})
			check(t, err)
			said := strings.Join(result.Warnings, "\n")
			if got := strings.Contains(said, "Secret c-m-old/crt-token-default-token: ") &&
				strings.Contains(said, "ns/prod"); got != c.want || len(result.Warnings) > 1 ||
				strings.Contains(said, "precious") {
				t.Errorf("the warnings are %q", said)
			}
		})
	}
}
