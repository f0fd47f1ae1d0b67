package tokens

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

type creator func(*corev1.Secret) (*corev1.Secret, error)

func (c creator) Create(s *corev1.Secret) (*corev1.Secret, error) { return c(s) }

func controlPlane() *rkev1.RKEControlPlane {
	return &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo", UID: "u1"}}
}

func TestCreate_WritesTheSecretThatOthersKnow(t *testing.T) {
	var got *corev1.Secret
	created, err := Create(creator(func(s *corev1.Secret) (*corev1.Secret, error) { got = s; return s, nil }), controlPlane(), rand.Reader)
	if err != nil || created != got {
		t.Fatalf("created %v, error %v", created, err)
	}
	tokens, err := Read(got)
	if err != nil {
		t.Fatal(err)
	}
	if tokens.Server == tokens.Agent {
		t.Error("servers and workers must not share a token")
	}
	for key, token := range map[string]string{"server": tokens.Server, "agent": tokens.Agent} {
		if len(token) != 54 || strings.Trim(token, naming.RandomTokenAlphabet) != "" {
			t.Errorf("the %s token must have 54 characters of the alphabet, has %d", key, len(token))
		}
	}
	got.Data = nil
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: "demo-rke-state",
			Labels:          map[string]string{"resources.cattle.io/backup": "true", "rke.cattle.io/cluster-name": "demo"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "rke.cattle.io/v1", Kind: "RKEControlPlane", Name: "demo", UID: "u1"}},
		},
		Type: "rke.cattle.io/cluster-state",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secret (-want +got):\n%s", diff)
	}
}

func TestCreate_WhoeverWasFirstMadeTheTokens(t *testing.T) {
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "demo-rke-state")
	created, err := Create(creator(func(*corev1.Secret) (*corev1.Secret, error) { return nil, exists }), controlPlane(), rand.Reader)
	if created != nil || err != nil {
		t.Errorf("want no secret and no error, got %v and %v", created, err)
	}
}

func TestCreate_Errors(t *testing.T) {
	refused := errors.New("refused")
	if _, err := Create(creator(func(*corev1.Secret) (*corev1.Secret, error) { return nil, refused }), controlPlane(), rand.Reader); !errors.Is(err, refused) {
		t.Errorf("want the API's error, got %v", err)
	}
	never := creator(func(*corev1.Secret) (*corev1.Secret, error) { t.Error("must not be called"); return nil, nil })
	if _, err := Create(never, controlPlane(), strings.NewReader("short")); err == nil {
		t.Error("a token must never be made without randomness")
	}
	if _, err := Create(never, &rkev1.RKEControlPlane{}, rand.Reader); err == nil {
		t.Error("a secret without an owner would stay for ever")
	}
}

func TestRead(t *testing.T) {
	data := map[string][]byte{"serverToken": []byte("s"), "agentToken": []byte("a")}
	for name, tc := range map[string]struct {
		secret  corev1.Secret
		want    render.Tokens
		wantErr string
	}{
		"both tokens":         {secret: corev1.Secret{Type: "rke.cattle.io/cluster-state", Data: data}, want: render.Tokens{Server: "s", Agent: "a"}},
		"a foreign secret":    {secret: corev1.Secret{Type: "Opaque", Data: data}, wantErr: "must have type rke.cattle.io/cluster-state"},
		"a half empty secret": {secret: corev1.Secret{Type: "rke.cattle.io/cluster-state", Data: map[string][]byte{"serverToken": []byte("s")}}, wantErr: "serverToken and agentToken"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(&tc.secret)
			if got != tc.want {
				t.Error("wrong tokens")
			}
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error = %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestGenerate_EveryCharacterIsUsed(t *testing.T) {
	seen := map[rune]bool{}
	for range 100 {
		token, err := Generate(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range token {
			seen[r] = true
		}
	}
	if len(seen) != len(naming.RandomTokenAlphabet) {
		t.Errorf("%d of %d characters appear in 5400", len(seen), len(naming.RandomTokenAlphabet))
	}
}
