package connect

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// formerJWT is what the machine was given in the management cluster that it comes from.
const formerJWT = "jwt-of-the-former-management-cluster"

// asked asks for the plan of machine m with a token, and returns the status of the answer.
func asked(t *testing.T, w *world, token string) int {
	t.Helper()
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/ns/secrets/b-machine-plan", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	return answer.Code
}

// moved gives the plan secret of m the digest of a token that was written for an RKEBootstrap of another management cluster.
func moved(w *world) {
	change(w, w.secrets, "b-machine-plan", func(s *corev1.Secret) {
		s.Annotations[rkev1.AgentCredentialAnnotation] = AgentCredential("boot-uid-elsewhere", formerJWT)
	})
}

func TestFormer_AgentThatCameAlongIsLetIn(t *testing.T) {
	w := newWorld(t)
	moved(w)
	if answer := asked(t, w, formerJWT); answer != http.StatusOK {
		t.Fatalf("the answer is %d", answer)
	}
	reached := w.reached()
	if len(reached) != 1 || reached[0].Header.Get("Authorization") != "Bearer "+planJWT {
		t.Errorf("the API server must see the token of the present account, and once: %v", reached)
	}
	if strings.Contains(w.log.String(), formerJWT) || strings.Contains(w.log.String(), planJWT) {
		t.Error("a token is in the log")
	}
}

func TestFormer_PresentTokenGoesOnAsItIs(t *testing.T) {
	w := newWorld(t)
	moved(w)
	if answer := asked(t, w, planJWT); answer != http.StatusOK {
		t.Errorf("the answer is %d", answer)
	}
}

func TestFormer_MakesTheTokenThatIsMissing(t *testing.T) {
	w := newWorld(t)
	moved(w)
	key := "ns/b-machine-plan-token"
	token, _, _ := w.secrets.GetByKey(key)
	if err := w.secrets.Delete(token); err != nil {
		t.Fatal(err)
	}
	w.secretClient.EXPECT().Create(gomock.Any()).DoAndReturn(func(made *corev1.Secret) (*corev1.Secret, error) {
		w.add(w.secrets, token.(*corev1.Secret))
		return made, nil
	})
	if answer := asked(t, w, formerJWT); answer != http.StatusOK {
		t.Errorf("the answer is %d", answer)
	}
}

func TestFormer_OpensNothing(t *testing.T) {
	cases := map[string]func(*world){
		"in the management cluster that gave it": func(w *world) {
			change(w, w.secrets, "b-machine-plan", func(s *corev1.Secret) {
				s.Annotations[rkev1.AgentCredentialAnnotation] = AgentCredential("boot-uid", formerJWT)
			})
		},
		"when it was withdrawn": func(w *world) {
			change(w, w.secrets, "b-machine-plan", func(s *corev1.Secret) { s.Annotations = nil })
		},
		"on a Secret that is no plan": func(w *world) {
			change(w, w.secrets, "b-machine-plan", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
		},
		"on two plans": func(w *world) {
			w.addPlan("o-machine-plan", "boot-uid", AgentCredential("boot-uid-elsewhere", formerJWT))
		},
		"for a plan of another RKEBootstrap": func(w *world) {
			change(w, w.secrets, "b-machine-plan", func(s *corev1.Secret) { s.OwnerReferences[0].UID = "another" })
		},
		"for an account with another role": func(w *world) {
			change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
				a.Labels[rkev1.ServiceAccountRoleLabel] = rkev1.ServiceAccountRoleBootstrap
			})
		},
		"when its machine was made anew": func(w *world) {
			change(w, w.machines, "m", func(m *clusterv1.Machine) { m.UID = "another" })
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			moved(w)
			prepare(w)
			if answer := asked(t, w, formerJWT); answer != http.StatusUnauthorized {
				t.Errorf("the answer is %d", answer)
			}
			if reached := w.reached(); len(reached) > 0 {
				t.Errorf("the API server was asked: %v", reached)
			}
		})
	}
}

func TestFormer_OpensOnlyThePlanOfItsMachine(t *testing.T) {
	w := newWorld(t)
	moved(w)
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/ns/secrets/o-machine-plan", nil)
	r.Header.Set("Authorization", "Bearer "+formerJWT)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusForbidden || len(w.reached()) > 0 {
		t.Errorf("the answer is %d", answer.Code)
	}
}

func TestConnectAgent_NotesWhatTheMachineIsGiven(t *testing.T) {
	w := newWorld(t)
	w.bound("m", someID)
	change(w, w.secrets, "b-machine-bootstrap-token", func(s *corev1.Secret) {
		s.Annotations[rkev1.LastAccessAnnotation] = noon.Format("2006-01-02T15:04:05Z07:00")
	})
	change(w, w.secrets, "b-machine-plan", func(s *corev1.Secret) { s.Annotations = nil })
	var patches []string
	w.secretClient.EXPECT().Patch("ns", "b-machine-plan", types.MergePatchType, gomock.Any()).DoAndReturn(
		func(_, _ string, _ types.PatchType, data []byte, _ ...string) (*corev1.Secret, error) {
			patches = append(patches, string(data))
			return &corev1.Secret{}, nil
		})
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, agentPath, nil)
	r.Header.Set("Authorization", "Bearer "+BootstrapToken([]byte(bootstrapJWT)))
	r.Header.Set(idHeader, someID)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		t.Fatalf("the answer is %d: %s", answer.Code, answer.Body)
	}
	want := `{"metadata":{"annotations":{"drover.io/agent-credential":"` + AgentCredential("boot-uid", planJWT) + `"}}}`
	if len(patches) != 1 || patches[0] != want {
		t.Errorf("patches are %v, want %s", patches, want)
	}
	if strings.Contains(patches[0], planJWT) {
		t.Error("the token itself is on the plan secret")
	}
}
