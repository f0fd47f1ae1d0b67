package connect

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// formerJWT is the machine's token from the previous management cluster.
const formerJWT = "jwt-of-the-former-management-cluster"

// asked requests the plan of machine m with a token.
func asked(t *testing.T, w *world, token string) *httptest.ResponseRecorder {
	t.Helper()
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/ns/secrets/b-machine-plan", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	return answer
}

// noted sets or removes the credential annotation of m's RKEBootstrap.
func noted(w *world, credential string) {
	change(w, w.boots, "b", func(b *rkev1.RKEBootstrap) {
		b.Annotations = nil
		if credential != "" {
			b.Annotations = map[string]string{rkev1.AgentCredentialAnnotation: credential}
		}
	})
}

// digestOf is the second half of the annotation.
func digestOf(token string) string { return strings.TrimPrefix(AgentCredential("", token), ":") }

// moved sets an annotation that was written for an RKEBootstrap of another management cluster.
func moved(w *world) { noted(w, AgentCredential("boot-uid-elsewhere", formerJWT)) }

func TestFormer_MovedAgentIsAdmitted(t *testing.T) {
	w := newWorld(t)
	moved(w)
	if answer := asked(t, w, formerJWT).Code; answer != http.StatusOK {
		t.Fatalf("the answer is %d", answer)
	}
	reached := w.reached()
	if len(reached) != 1 || reached[0].Header.Get("Authorization") != "Bearer "+planJWT {
		t.Errorf("the API server must see the token of the current account exactly once: %v", reached)
	}
	if strings.Contains(w.log.String(), formerJWT) || strings.Contains(w.log.String(), planJWT) {
		t.Error("a token is in the log")
	}
}

// The digest of the current token replaces that of the former one once the current token is used.
func TestFormer_CurrentTokenIsForwardedUnchanged(t *testing.T) {
	w := newWorld(t)
	moved(w)
	w.expectNote(planJWT, nil)
	if answer := asked(t, w, planJWT).Code; answer != http.StatusOK {
		t.Errorf("the answer is %d", answer)
	}
	if reached := w.reached(); len(reached) != 1 || reached[0].Header.Get("Authorization") != "Bearer "+planJWT {
		t.Errorf("the API server saw %v", reached)
	}
}

func TestFormer_CreatesAMissingToken(t *testing.T) {
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
	if answer := asked(t, w, formerJWT).Code; answer != http.StatusOK {
		t.Errorf("the answer is %d", answer)
	}
}

func TestFormer_GivesNoAccess(t *testing.T) {
	cases := map[string]func(*world){
		"in the original management cluster": func(w *world) { noted(w, AgentCredential("boot-uid", formerJWT)) },
		"when it was revoked":                func(w *world) { noted(w, "") },
		"recorded without a UID":             func(w *world) { noted(w, ":"+digestOf(formerJWT)) },
		"recorded without a colon":           func(w *world) { noted(w, digestOf(formerJWT)) },
		"recorded with a suffix": func(w *world) {
			noted(w, AgentCredential("boot-uid-elsewhere", formerJWT)+"0")
		},
		"recorded on the plan secret, which its node can write": func(w *world) {
			noted(w, "")
			change(w, w.secrets, "b-machine-plan", func(s *corev1.Secret) {
				s.Annotations = map[string]string{rkev1.AgentCredentialAnnotation: AgentCredential("boot-uid-elsewhere",
					formerJWT)}
			})
		},
		"recorded twice": func(w *world) {
			w.addMachine("n", "jwt-of-n")
			change(w, w.boots, "n", func(b *rkev1.RKEBootstrap) {
				b.Annotations = map[string]string{
					rkev1.AgentCredentialAnnotation: AgentCredential("n-boot-uid-elsewhere", formerJWT)}
			})
			w.addAccount("n-machine-plan", rkev1.ServiceAccountRolePlan, "n", "jwt-of-the-plan-account-of-n")
			change(w, w.accounts, "n-machine-plan", func(a *corev1.ServiceAccount) {
				a.OwnerReferences = owners("RKEBootstrap", "n", "n-boot-uid")
			})
		},
		"for an account of another RKEBootstrap": func(w *world) {
			w.addMachine("n", "jwt-of-n")
			change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
				a.OwnerReferences, a.Labels[rkev1.MachineNameLabel] = owners("RKEBootstrap", "n", "n-boot-uid"), "n"
			})
		},
		"for an account with another role": func(w *world) {
			change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
				a.Labels[rkev1.ServiceAccountRoleLabel] = rkev1.ServiceAccountRoleBootstrap
			})
		},
		"for an account of another plan": func(w *world) {
			change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
				a.Labels[rkev1.PlanSecretNameLabel] = "o-machine-plan"
			})
		},
		"for an account that is being deleted": func(w *world) {
			change(w, w.accounts, "b-machine-plan", func(a *corev1.ServiceAccount) {
				a.DeletionTimestamp = &metav1.Time{Time: noon}
			})
		},
		"when its RKEBootstrap is being deleted, and its machine is not": func(w *world) {
			change(w, w.boots, "b", func(b *rkev1.RKEBootstrap) { b.DeletionTimestamp = &metav1.Time{Time: noon} })
		},
		"when its machine was recreated": func(w *world) {
			change(w, w.machines, "m", func(m *clusterv1.Machine) { m.UID = "another" })
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			moved(w)
			prepare(w)
			if answer := asked(t, w, formerJWT).Code; answer != http.StatusUnauthorized {
				t.Errorf("the answer is %d", answer)
			}
			if reached := w.reached(); len(reached) > 0 {
				t.Errorf("the API server got requests: %v", reached)
			}
		})
	}
}

// A machine that is being deleted can still report its reset.
func TestFormer_GivesAccessToThePlanOfADeletedMachine(t *testing.T) {
	w := newWorld(t)
	moved(w)
	change(w, w.boots, "b", func(b *rkev1.RKEBootstrap) { b.DeletionTimestamp = &metav1.Time{Time: noon} })
	change(w, w.machines, "m", func(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: noon} })
	if answer := asked(t, w, formerJWT).Code; answer != http.StatusOK {
		t.Errorf("the answer is %d", answer)
	}
}

// Before adoption creates the account, the answer is 503, because agents give up after 401.
func TestFormer_RetriesUntilTheAccountExists(t *testing.T) {
	w := newWorld(t)
	moved(w)
	account, _, _ := w.accounts.GetByKey("ns/b-machine-plan")
	if err := w.accounts.Delete(account); err != nil {
		t.Fatal(err)
	}
	answer := asked(t, w, formerJWT)
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("the answer is %d, Retry-After %q", answer.Code, answer.Header().Get("Retry-After"))
	}
}

// The agent of an adopted cluster uses the token of another manager and never requests a connection here.
func TestPresent_IsRecordedAtItsFirstUse(t *testing.T) {
	w := newWorld(t)
	noted(w, "")
	w.expectNote(planJWT, nil)
	if answer := asked(t, w, planJWT).Code; answer != http.StatusOK {
		t.Fatalf("the answer is %d", answer)
	}
}

func TestPresent_IsRecordedOnce(t *testing.T) {
	w := newWorld(t) // has the annotation already
	if answer := asked(t, w, planJWT).Code; answer != http.StatusOK {
		t.Errorf("the answer is %d", answer)
	}
}

func TestPresent_IsAdmittedWhenTheRecordFails(t *testing.T) {
	w := newWorld(t)
	noted(w, "")
	w.expectNote(planJWT, errors.New("the API server is busy"))
	if answer := asked(t, w, planJWT).Code; answer != http.StatusOK {
		t.Errorf("the answer is %d", answer)
	}
	if !strings.Contains(w.log.String(), "the API server is busy") || strings.Contains(w.log.String(), planJWT) {
		t.Errorf("the log is %s", w.log)
	}
}

// expectNote expects one write of a token's digest, without the token itself.
func (w *world) expectNote(token string, err error) {
	w.bootClient.EXPECT().Patch("ns", "b", types.MergePatchType, gomock.Any()).DoAndReturn(
		func(_, _ string, _ types.PatchType, data []byte, _ ...string) (*rkev1.RKEBootstrap, error) {
			want := `{"metadata":{"annotations":{"drover.io/agent-credential":"` + AgentCredential("boot-uid", token) +
				`"},"uid":"boot-uid"}}`
			if string(data) != want {
				w.t.Errorf("the record is %s, want %s", data, want)
			}
			return &rkev1.RKEBootstrap{}, err
		})
}

func TestFormer_GivesAccessOnlyToThePlanOfItsMachine(t *testing.T) {
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

func TestConnectAgent_RecordsTheCredentialOfTheMachine(t *testing.T) {
	w := newWorld(t)
	w.bound("m", someID)
	change(w, w.secrets, "b-machine-bootstrap-token", func(s *corev1.Secret) {
		s.Annotations[rkev1.LastAccessAnnotation] = noon.Format("2006-01-02T15:04:05Z07:00")
	})
	noted(w, "")
	w.expectNote(planJWT, nil)
	handler, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, agentPath, nil)
	r.Header.Set("Authorization", "Bearer "+naming.TokenHash(bootstrapJWT))
	r.Header.Set(idHeader, someID)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		t.Fatalf("the answer is %d: %s", answer.Code, answer.Body)
	}
}
