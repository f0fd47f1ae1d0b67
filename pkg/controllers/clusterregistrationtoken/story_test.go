package clusterregistrationtoken_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/clusterregistrationtoken"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	instance = "instance-1"
	id       = "c-m-12345678"
	agent    = "drover/test"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller.
type world struct {
	*testing.T
	api      *memkube.Server
	user     *clients.Clients
	settings registration.Settings
	// script is the digest of the install script.
	script func() string
	log    *bytes.Buffer
	stop   func()
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}
}

// tell runs a test in virtual time, with one cluster of this instance.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inWorld(t, f)
}

// inWorld is tell for a test that runs several times in sequence.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, log: &bytes.Buffer{},
			settings: registration.Settings{ServerURL: "https://drover.example.com"}}
		w.api = memkube.New(memkube.Options{
			Scheme: scheme, CRDs: definitions, Namespaces: []string{"fleet-default", id},
			Permit: rights.Permit(t, "drover/test"),
		})
		must(t, w.api.Add(management(), cluster(instance)))
		w.user, err = clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

func management() *mgmtv3.Cluster {
	return &mgmtv3.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: id},
	}
}

func cluster(mark string) *provv1.Cluster {
	return &provv1.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo",
			Annotations: map[string]string{rkev1.InstanceAnnotation: mark}},
		Status: provv1.ClusterStatus{ClusterName: id},
	}
}

func registrationToken(name, purpose string) *mgmtv3.ClusterRegistrationToken {
	token := &mgmtv3.ClusterRegistrationToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{Namespace: id, Name: name},
		Spec:       mgmtv3.ClusterRegistrationTokenSpec{ClusterName: id},
	}
	if purpose != "" {
		token.Labels = map[string]string{mgmtv3.TokenPurposeLabel: purpose}
	}
	return token
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	log := logrus.New()
	log.SetOutput(w.log)
	must(w.T, clusterregistrationtoken.Register(c.HandlerContext(), clusterregistrationtoken.Deps{
		Tokens: c.Management.ClusterRegistrationToken(), ManagementClusters: c.Management.Cluster(),
		Clusters: c.Provisioning.Cluster(),
		Secrets:  c.Core.Secret(), InstanceID: instance, Settings: w.settings, Log: log,
		InstallScriptSHA256: w.script,
	}))
	workers, cancel := context.WithCancel(w.Context())
	if err := c.Start(workers); err != nil {
		w.Log("the controller did not start:", err) // it was killed while starting
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

// mark changes the instance that the cluster belongs to.
func (w *world) mark(instance string) {
	w.Helper()
	found, err := w.user.Provisioning.Cluster().Get("fleet-default", "demo", metav1.GetOptions{})
	must(w.T, err)
	found.Annotations[rkev1.InstanceAnnotation] = instance
	_, err = w.user.Provisioning.Cluster().Update(found)
	must(w.T, err)
}

// pass lets time d pass. If the controller was killed meanwhile, pass restarts it and lets d pass again.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil // kill once
		w.stop()
		w.api.Mend(agent)
		w.start()
		w.pass(d)
	default:
	}
}

// sleep lets time pass without the controller, because simulating weeks of its watches takes minutes.
func (w *world) sleep(d time.Duration) {
	w.Helper()
	w.stop()
	w.pass(d)
	w.start()
}

func (w *world) secret(token string) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: id, Name: "crt-token-" + token}}
	exists, err := w.api.Get(secret)
	must(w.T, err)
	if !exists {
		return nil
	}
	return secret
}

func (w *world) status(token string) mgmtv3.ClusterRegistrationTokenStatus {
	w.Helper()
	found := registrationToken(token, "")
	_, err := w.api.Get(found)
	must(w.T, err)
	return found.Status
}

// quiet fails if the controller writes anything within d.
func (w *world) quiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	w.pass(d)
	if writes := w.api.Writes(agent); len(writes) > 0 {
		w.Errorf("writes: %v", writes)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStory_TokenIsMadeReplacedAndForgotten(t *testing.T) {
	tell(t, func(w *world) {
		must(w.T, w.api.Add(registrationToken("default-token", mgmtv3.TokenPurposeNode)))
		w.pass(time.Second)
		made := w.secret("default-token")
		if made == nil || len(made.Data["token"]) < 43 ||
			made.Labels[mgmtv3.TokenPurposeLabel] != mgmtv3.TokenPurposeNode {
			t.Fatalf("Secret %v", made)
		}
		if status := w.status("default-token"); status.TokenSecretName != made.Name ||
			status.ExpiresAt != string(made.Data["expiresAt"]) ||
			!strings.Contains(status.NodeCommand, "{token}") || status.Command != "" {
			t.Errorf("status %+v", status)
		}
		if writes := w.api.Writes(agent); len(writes) != 2 {
			t.Errorf("writes: %v", writes)
		}
		w.quiet(24 * time.Hour)
		w.sleep(28 * 24 * time.Hour)
		w.quiet(time.Hour)

		expires, err := time.Parse(time.RFC3339, string(made.Data["expiresAt"]))
		must(w.T, err)
		w.pass(time.Until(expires) + time.Second)
		replaced := w.secret("default-token")
		if string(replaced.Data["previousToken"]) != string(made.Data["token"]) ||
			string(replaced.Data["token"]) == string(made.Data["token"]) {
			t.Fatal("the token is not new, or the former one is no longer valid")
		}
		if want := " --token " + string(replaced.Data["token"]); !strings.HasSuffix(
			string(replaced.Data["nodeCommand"]),
			want) {
			t.Error("the command in the Secret does not have the new token")
		}
		if w.status("default-token").GracePeriodExpiresAt == "" {
			t.Error("the status has no end of the former token")
		}
		w.pass(registration.DefaultGracePeriod)
		if left := w.secret("default-token").Data["previousToken"]; len(left) > 0 ||
			w.status("default-token").GracePeriodExpiresAt != "" {
			t.Error("the former token still exists")
		}
		w.quiet(24 * time.Hour)
		for _, secret := range []*corev1.Secret{made, replaced} {
			if strings.Contains(w.log.String(), string(secret.Data["token"])) {
				t.Error("a token is in the log")
			}
		}
	})
}

// Tokens of agents are replaced, but the old one stays valid until an agent has used the new one, even if that takes
// months.
func TestStory_TokensOfAgentsWaitForThem(t *testing.T) {
	tell(t, func(w *world) {
		w.stop()
		w.settings.AgentsFollow = true
		w.start()
		must(w.T, w.api.Add(registrationToken("system", mgmtv3.TokenPurposeAgent)))
		w.pass(time.Second)
		first := string(w.secret("system").Data["token"])
		for range 3 {
			w.sleep(35 * 24 * time.Hour)
			w.pass(time.Second)
			content := registration.Read(w.secret("system"))
			if accepted := content.Accepted(time.Now()); len(accepted) != 2 || accepted[1] != first ||
				accepted[0] == first {
				t.Fatalf("%d tokens are valid, and the disconnected agent has the first of them", len(accepted))
			}
		}
		second := w.secret("system")
		w.quiet(time.Hour)
		_, err := w.user.Core.Secret().Update(registration.Followed(second, string(second.Data["token"])))
		must(t, err)
		w.pass(25 * time.Hour)
		if slices.Contains(registration.Read(w.secret("system")).Accepted(time.Now()), first) {
			t.Error("the former token is still valid, although no agent needs it")
		}
	})
}

func TestStory_ReplacedWhileNobodyRuns(t *testing.T) {
	tell(t, func(w *world) {
		must(w.T, w.api.Add(registrationToken("default-token", mgmtv3.TokenPurposeNode)))
		w.pass(time.Second)
		before := w.secret("default-token")
		w.sleep(60 * 24 * time.Hour)
		w.pass(time.Second)
		after := w.secret("default-token")
		if string(after.Data["previousToken"]) != string(before.Data["token"]) {
			t.Error("the former token is refused")
		}
	})
}

func TestStory_DamageIsRepaired(t *testing.T) {
	tell(t, func(w *world) {
		must(w.T, w.api.Add(registrationToken("system", mgmtv3.TokenPurposeAgent)))
		w.pass(time.Second)
		made := w.secret("system")
		damaged := made.DeepCopy()
		damaged.Labels, damaged.OwnerReferences = nil, nil
		_, err := w.user.Core.Secret().Update(damaged)
		must(w.T, err)
		w.pass(time.Second)
		if got := w.secret("system"); got.Labels[mgmtv3.TokenPurposeLabel] != mgmtv3.TokenPurposeAgent ||
			len(got.OwnerReferences) != 1 ||
			string(got.Data["token"]) != string(made.Data["token"]) {
			t.Errorf("Secret has labels %v and owners %v", got.Labels, got.OwnerReferences)
		}
		must(w.T, w.user.Core.Secret().Delete(id, "crt-token-system", &metav1.DeleteOptions{}))
		w.pass(time.Second)
		if got := w.secret("system"); got == nil || string(got.Data["token"]) == string(made.Data["token"]) {
			t.Errorf("Secret %v", got)
		}
		w.sleep(400 * 24 * time.Hour)
		w.quiet(time.Hour) // no controller passes new tokens to agents
	})
}

func TestStory_OnlyTokensOfOurClustersAreKept(t *testing.T) {
	for name, edit := range map[string]func(w *world, token *mgmtv3.ClusterRegistrationToken){
		"another instance's cluster": func(w *world, _ *mgmtv3.ClusterRegistrationToken) { w.mark("instance-2") },
		"without a Cluster": func(w *world, _ *mgmtv3.ClusterRegistrationToken) {
			must(w.T, w.user.Provisioning.Cluster().Delete("fleet-default", "demo", &metav1.DeleteOptions{}))
		},
		"without a management cluster": func(w *world, _ *mgmtv3.ClusterRegistrationToken) {
			must(w.T, w.user.Management.Cluster().Delete(id, &metav1.DeleteOptions{}))
		},
		"a token with another cluster's name": func(_ *world, token *mgmtv3.ClusterRegistrationToken) {
			token.Spec.ClusterName = "c-m-other"
		},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				token := registrationToken("mine", "")
				edit(w, token)
				w.pass(time.Second)
				w.api.ResetLog()
				must(w.T, w.api.Add(token))
				w.pass(time.Minute)
				if secret := w.secret("mine"); secret != nil || len(w.api.Writes(agent)) > 0 {
					t.Errorf("Secret %v, writes %v", secret != nil, w.api.Writes(agent))
				}
			})
		})
	}
}

// A cluster that gets this instance's mark gets its tokens, and a change of the agents' environment reaches the
// commands.
func TestStory_WakeUps(t *testing.T) {
	tell(t, func(w *world) {
		w.mark("instance-2")
		w.pass(time.Second)
		must(w.T, w.api.Add(registrationToken("default-token", mgmtv3.TokenPurposeNode)))
		w.pass(time.Second)
		w.mark(instance)
		w.pass(time.Second)
		if w.secret("default-token") == nil {
			t.Fatal("no token")
		}
		edited, err := w.user.Management.Cluster().Get(id, metav1.GetOptions{})
		must(w.T, err)
		edited.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
		_, err = w.user.Management.Cluster().Update(edited)
		must(w.T, err)
		w.pass(time.Second)
		for _, command := range []string{w.status("default-token").NodeCommand,
			string(w.secret("default-token").Data["nodeCommand"])} {
			if !strings.HasPrefix(command, `HTTPS_PROXY="http://proxy" curl`) {
				t.Errorf("command %q", command)
			}
		}
		var verbs []string
		for _, write := range w.api.Writes(agent) {
			verbs = append(verbs, write.Verb+" "+write.Resource)
		}
		if want := []string{"create secrets", "update clusterregistrationtokens.management.cattle.io/status",
			"update secrets",
			"update clusterregistrationtokens.management.cattle.io/status"}; !slices.Equal(verbs, want) {
			t.Errorf("writes %v", verbs)
		}
		must(w.T, w.user.Management.ClusterRegistrationToken().Delete(id, "default-token", &metav1.DeleteOptions{}))
		w.pass(time.Minute)
		if w.secret("default-token") != nil {
			t.Error("the Secret is not deleted with its registration")
		}
	})
}

// The commands pin the script that hosts get now. The script changes with a file of the server, which has no events.
func TestStory_CommandsFollowTheInstallScript(t *testing.T) {
	tell(t, func(w *world) {
		w.stop()
		var digest atomic.Value
		digest.Store("1111")
		w.script = func() string { return digest.Load().(string) }
		w.start()
		for _, name := range []string{"default-token", "more"} {
			must(w.T, w.api.Add(registrationToken(name, mgmtv3.TokenPurposeNode)))
		}
		w.pass(time.Second)
		w.quiet(time.Hour)
		digest.Store("2222")
		w.pass(time.Minute + time.Second)
		for _, name := range []string{"default-token", "more"} {
			for _, command := range []string{w.status(name).InsecureNodeCommand,
				string(w.secret(name).Data["insecureNodeCommand"])} {
				if pinned := registration.PinnedScript(command); pinned != "2222" {
					t.Errorf("the command of %s pins %q", name, pinned)
				}
			}
		}
		if writes := w.api.Writes(agent); len(writes) != 4 {
			t.Errorf("writes: %v", writes)
		}
		w.quiet(time.Hour)
	})
}

// An agent of a Cluster from another management cluster connects with the token in the Secret that came with it, until
// that token is revoked here.
func TestStory_AnAgentKeepsTheTokenThatItWasGivenElsewhere(t *testing.T) {
	tell(t, func(w *world) {
		w.stop()
		w.settings.AgentsFollow = true
		w.start()
		brought := strings.Repeat("given-elsewhere-", 3)
		ours := cluster(instance)
		ours.Spec.RKEConfig = &provv1.RKEConfig{}
		must(t, w.api.Add(ours, &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo-cluster-agent"},
			Type:       rkev1.SecretTypeClusterAgent,
			Data:       map[string][]byte{rkev1.ClusterAgentTokenKey: []byte(brought)},
		}))
		w.pass(time.Second)
		must(t, w.api.Add(registrationToken("system", mgmtv3.TokenPurposeAgent),
			registrationToken("default-token", mgmtv3.TokenPurposeNode)))
		w.pass(time.Second)
		if got := string(w.secret("system").Data["token"]); got != brought {
			t.Errorf("the agent's token is %q", got)
		}
		if got := string(w.secret("default-token").Data["token"]); got == brought {
			t.Error("hosts get the token of the agent")
		}
		must(t, w.user.Core.Secret().Delete(id, "crt-token-system", &metav1.DeleteOptions{}))
		w.pass(time.Minute)
		if got := string(w.secret("system").Data["token"]); got == brought || got == "" {
			t.Errorf("a revoked token is valid again: %q", got)
		}
		if expires := w.status("system").ExpiresAt; expires != "" {
			t.Errorf("the agent's token is replaced at %v, although it is in the servers' plans", expires)
		}
	})
}

// A token of an earlier Cluster is not adopted, although its Secret may briefly exist while another Cluster has its
// name, and its hosts may still run.
func TestStory_ATokenOfAFormerClusterIsNotTakenOver(t *testing.T) {
	tell(t, func(w *world) {
		brought := strings.Repeat("of-the-former-one-", 3)
		ours := cluster(instance)
		ours.Spec.RKEConfig = &provv1.RKEConfig{}
		must(t, w.api.Add(ours, &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo-cluster-agent",
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster", Name: "demo", UID: "former"},
				}},
			Type: rkev1.SecretTypeClusterAgent, Data: map[string][]byte{rkev1.ClusterAgentTokenKey: []byte(brought)},
		}))
		w.pass(time.Second)
		must(t, w.api.Add(registrationToken("system", mgmtv3.TokenPurposeAgent)))
		w.pass(time.Second)
		if secret := w.secret("system"); secret == nil || string(secret.Data["token"]) == brought {
			t.Error("hosts of the former cluster could connect as the agent of this one")
		}
	})
}
