package planner

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

func TestNewTokens_AreInTheClusterStateSecret(t *testing.T) {
	cp := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo", UID: "u1"}}
	got, err := newTokens(cp, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tokens := readTokens(got)
	if !tokens.Exists || tokens.Values.Server == tokens.Values.Agent {
		t.Error("servers and workers must not share a token")
	}
	for key, token := range map[string]string{"server": tokens.Values.Server, "agent": tokens.Values.Agent} {
		if len(token) != 54 || strings.Trim(token, naming.RandomTokenAlphabet) != "" {
			t.Errorf("the %s token must have 54 characters of the alphabet, has %d", key, len(token))
		}
	}
	got.Data = nil
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: "demo-rke-state",
			Labels: map[string]string{"resources.cattle.io/backup": "true", "rke.cattle.io/cluster-name": "demo"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "rke.cattle.io/v1", Kind: "RKEControlPlane", Name: "demo", UID: "u1"},
			},
		},
		Type: "rke.cattle.io/cluster-state",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secret (-want +got):\n%s", diff)
	}
	if _, err := newTokens(cp, strings.NewReader("short")); err == nil {
		t.Error("a token needs randomness")
	}
	if _, err := newTokens(&rkev1.RKEControlPlane{}, rand.Reader); err == nil {
		t.Error("nothing would delete a secret without an owner")
	}
}

func TestReadTokens(t *testing.T) {
	const kind = "rke.cattle.io/cluster-state"
	data := map[string][]byte{"serverToken": []byte("s"), "agentToken": []byte("a")}
	for name, tc := range map[string]struct {
		secret  corev1.Secret
		want    planner.Tokens
		problem string
	}{
		"both tokens": {
			secret: corev1.Secret{Type: kind, Data: data},
			want:   planner.Tokens{Exists: true, Values: render.Tokens{Server: "s", Agent: "a"}},
		},
		"another type": {secret: corev1.Secret{Type: "Opaque", Data: data}, problem: "must have type " + kind},
		"one token": {
			secret:  corev1.Secret{Type: kind, Data: map[string][]byte{"serverToken": []byte("s")}},
			problem: "serverToken and agentToken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := readTokens(&tc.secret)
			if !strings.Contains(got.Problem, tc.problem) || (got.Problem == "") != (tc.problem == "") {
				t.Errorf("problem %q, want %q", got.Problem, tc.problem)
			}
			if got.Exists != tc.want.Exists || got.Values != tc.want.Values {
				t.Error("wrong tokens")
			}
		})
	}
}
