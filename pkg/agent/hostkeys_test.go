package agent

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func writeKey(t *testing.T, dir, kind, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "ssh_host_"+kind+"_key.pub"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func countUpdates(client *fake.Clientset) int {
	updates := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "update" {
			updates++
		}
	}
	return updates
}

func TestRemote_ReportsHostKeysWhenTheyChange(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan))
	r.extras.hostKeys.dir = t.TempDir()
	for _, step := range []struct {
		name    string
		change  func()
		want    string
		updates int
	}{
		{"with the first report", func() {
			writeKey(t, r.extras.hostKeys.dir, "rsa", "ssh-rsa BBBB root@host\n")
			writeKey(t, r.extras.hostKeys.dir, "ed25519", "ssh-ed25519 AAAA root@host\n")
			writeKey(t, r.extras.hostKeys.dir, "ed25519_key-cert", "ssh-ed25519-cert CCCC\n")
			if err := os.Rename(filepath.Join(r.extras.hostKeys.dir, "ssh_host_ed25519_key-cert_key.pub"),
				filepath.Join(r.extras.hostKeys.dir, "ssh_host_ed25519_key-cert.pub")); err != nil {
				t.Fatal(err)
			}
		}, "ssh-ed25519 AAAA\nssh-rsa BBBB\n", 1},
		{"without a change", func() {}, "ssh-ed25519 AAAA\nssh-rsa BBBB\n", 1},
		{"with another comment", func() { writeKey(t, r.extras.hostKeys.dir, "rsa", "ssh-rsa BBBB new\n") },
			"ssh-ed25519 AAAA\nssh-rsa BBBB\n", 1},
		{"with a new key", func() { writeKey(t, r.extras.hostKeys.dir, "rsa", "ssh-rsa CCCC\n") },
			"ssh-ed25519 AAAA\nssh-rsa CCCC\n", 2},
		{"with a pipe in place of a key", func() {
			if err := syscall.Mkfifo(filepath.Join(r.extras.hostKeys.dir, "ssh_host_x_key.pub"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "ssh-ed25519 AAAA\nssh-rsa CCCC\n", 2},
		{"after the Secret lost them", func() { delete(r.current.Data, nodeplan.KeySSHHostKeys) },
			"ssh-ed25519 AAAA\nssh-rsa CCCC\n", 3},
		{"after the keys are gone", func() { r.extras.hostKeys.dir = t.TempDir() }, "", 4},
	} {
		step.change()
		r.pass(t.Context())
		if got := string(stored(t, client)[nodeplan.KeySSHHostKeys]); got != step.want ||
			countUpdates(client) != step.updates {
			t.Errorf("%s: the Secret has %q after %d updates, want %q after %d", step.name, got, countUpdates(client),
				step.want, step.updates)
		}
	}
}

// A former Drover drops the key, and an admission policy may refuse it. The rest of the report must arrive.
func TestRemote_ReportsWithoutHostKeysThatTheServerDoesNotKeep(t *testing.T) {
	for name, answer := range map[string]func(secret *corev1.Secret) error{
		"it drops them": func(secret *corev1.Secret) error {
			delete(secret.Data, nodeplan.KeySSHHostKeys)
			return nil
		},
		"it refuses them": func(secret *corev1.Secret) error {
			if _, ok := secret.Data[nodeplan.KeySSHHostKeys]; !ok {
				return nil
			}
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnprocessableEntity,
				Reason: metav1.StatusReasonInvalid, Message: "denied"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, client := newTestRemote(t, secretData(echoPlan))
			now := time.Now()
			r.now = func() time.Time { return now }
			r.extras.hostKeys.dir = t.TempDir()
			writeKey(t, r.extras.hostKeys.dir, "rsa", "ssh-rsa "+strings.Repeat("BBBB", 4)+"\n")
			offered := 0
			client.PrependReactor("update", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
				secret := action.(k8stesting.UpdateAction).GetObject().(*corev1.Secret)
				if _, ok := secret.Data[nodeplan.KeySSHHostKeys]; ok {
					offered++
				}
				err := answer(secret)
				return err != nil, nil, err
			})
			r.pass(t.Context())
			state, err := nodeplan.Parse("ns/p", stored(t, client))
			if err != nil || !state.InSync || string(state.Output["a"]) != "hi\n" {
				t.Fatalf("the report did not arrive: %+v, %v", state, err)
			}
			updates := countUpdates(client)
			r.pass(t.Context())
			if countUpdates(client) != updates || offered != 1 {
				t.Errorf("an idle pass wrote; the keys were sent %d times, want once", offered)
			}
			now = now.Add(extrasRetry)
			r.pass(t.Context())
			if offered != 2 {
				t.Errorf("the keys were sent %d times after an hour, want twice", offered)
			}
		})
	}
}
