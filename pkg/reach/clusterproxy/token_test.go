package clusterproxy

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/naming"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func demoGrant() Grant {
	return Grant{Cluster: "c-m-demo", Principal: naming.ProvisioningPrincipal("fleet-default", "demo"),
		Expires: noon.Add(time.Hour)}
}

func lookupDemo(id string) (namespace, name string, ok bool) {
	if id == "c-m-demo" {
		return "fleet-default", "demo", true
	}
	return "", "", false
}

func TestIssue_TheTokenIsNotInItsSecret(t *testing.T) {
	drawn := bytes.Repeat([]byte{7}, 32)
	secret, bearer, err := Issue("drover-system", demoGrant(), bytes.NewReader(drawn))
	check(t, err)
	if !strings.HasPrefix(bearer, "drover-token-") || len(bearer) != len("drover-token-")+43 {
		t.Errorf("bearer is %q", bearer)
	}
	keys, err := TokenIndexer(secret)
	check(t, err)
	parts := append([]string{secret.Name}, keys...)
	for key, value := range secret.Data {
		parts = append(parts, key+"="+string(value))
	}
	text := strings.Join(parts, " ")
	if strings.Contains(text, strings.TrimPrefix(bearer, "drover-token-")) || strings.Contains(text, "BwcH") {
		t.Errorf("the token is in %s", text)
	}
	if len(keys) != 1 || keys[0] == string(secret.Data["digest"]) ||
		!strings.HasPrefix(keys[0], strings.TrimPrefix(secret.Name, "proxy-token-")) {
		t.Errorf("index keys %q of Secret %s", keys, secret.Name)
	}
	if secret.Type != "drover.io/proxy-token" || secret.Immutable == nil || !*secret.Immutable ||
		secret.Labels["drover.io/proxy-token-cluster"] != "c-m-demo" {
		t.Errorf("Secret is %+v", secret.ObjectMeta)
	}
}

func TestIssue_NamesTheInvalidField(t *testing.T) {
	for field, change := range map[string]func(*Grant){
		"Cluster is":                                 func(g *Grant) { g.Cluster = "Not/a/cluster" },
		"Cluster must have at most":                  func(g *Grant) { g.Cluster = strings.Repeat("a", 64) },
		"field Principal must":                       func(g *Grant) { g.Principal = "system://provisioning/demo" },
		"field Principal must be system://provision": func(g *Grant) { g.Principal = "user://" },
		"field Groups must":                          func(g *Grant) { g.Groups = []string{"a"} },
		"Expires must":                               func(g *Grant) { g.Expires = time.Time{} },
	} {
		grant := demoGrant()
		change(&grant)
		if _, _, err := Issue("drover-system", grant, rand.Reader); err == nil ||
			!strings.Contains(err.Error(), field) {
			t.Errorf("want an error about %q, got %v", field, err)
		}
	}
	if _, _, err := Issue("drover-system", demoGrant(), strings.NewReader("short")); err == nil {
		t.Error("a token was issued without random bytes")
	}
}

func TestVerify_SecretFormsOfAToken(t *testing.T) {
	machine := Caller{
		Identity: Identity{Name: "system:provisioning:fleet-default:demo",
			Groups: []string{"system:drover:cluster-admin", "system:authenticated"}}, Machine: true,
		Cluster: "c-m-demo",
	}
	for name, test := range map[string]struct {
		grant  func(*Grant)
		secret func(*corev1.Secret)
		bearer func(string) string
		now    time.Time
		want   *Caller
	}{
		"the machine identity": {want: &machine},
		"the machine identity, in the namespace of its Cluster": {secret: func(s *corev1.Secret) {
			s.Namespace = "fleet-default"
		}},
		"the machine identity, in another namespace": {secret: func(s *corev1.Secret) { s.Namespace = "tenant" }},
		"the machine identity of another Cluster": {
			secret: func(s *corev1.Secret) {
				s.Data["principal"] = []byte("system://provisioning/fleet-default/other")
			},
		},
		"the machine identity of a deleted Cluster": {secret: func(s *corev1.Secret) {
			s.Data["cluster"] = []byte("c-m-gone")
		}},
		"a user, in Drover's namespace": {
			grant: func(g *Grant) { g.Principal, g.Groups = "user://jane", []string{"developers"} },
			want: &Caller{Identity: Identity{Name: "jane", Groups: []string{"developers", "system:authenticated"}},
				Cluster: "c-m-demo"},
		},
		"a user, in the namespace of a Cluster": {
			grant: func(g *Grant) { g.Principal = "user://admin" }, secret: func(s *corev1.Secret) {
				s.Namespace = "fleet-default"
			},
		},
		"nobody":                    {grant: func(g *Grant) { g.Principal = "user://system:anonymous" }},
		"in its last second":        {now: noon.Add(time.Hour - time.Second), want: &machine},
		"expired":                   {now: noon.Add(time.Hour)},
		"without an expiry":         {secret: func(s *corev1.Secret) { delete(s.Data, "expires") }},
		"with an unreadable expiry": {secret: func(s *corev1.Secret) { s.Data["expires"] = []byte("tomorrow") }},
		"of another type":           {secret: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }},
		"being deleted": {secret: func(s *corev1.Secret) {
			s.DeletionTimestamp = new(metav1.NewTime(noon))
		}},
		"another token": {bearer: func(b string) string { return b[:len(b)-1] + "~" }},
		"its digest":    {bearer: naming.SHA256[string]},
		"nothing":       {bearer: func(string) string { return "" }},
		"without a digest": {secret: func(s *corev1.Secret) { delete(s.Data, "digest") }, bearer: func(string) string {
			return ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			grant := demoGrant()
			if test.grant != nil {
				test.grant(&grant)
			}
			secret, bearer, err := Issue("drover-system", grant, rand.Reader)
			check(t, err)
			if test.secret != nil {
				test.secret(secret)
			}
			if test.bearer != nil {
				bearer = test.bearer(bearer)
			}
			if test.now.IsZero() {
				test.now = noon
			}
			other, _, err := Issue("drover-system", demoGrant(), rand.Reader)
			check(t, err)
			got, ok := tokenRules{own: "drover-system", lookup: lookupDemo, now: test.now}.verify(bearer,
				[]*corev1.Secret{other, secret})
			if ok != (test.want != nil) {
				t.Fatalf("got %+v (%v)", got, ok)
			}
			if ok {
				if diff := cmp.Diff(*test.want, got); diff != "" {
					t.Errorf("caller (-want +got):\n%s", diff)
				}
			}
		})
	}
}
