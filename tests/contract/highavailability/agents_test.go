package highavailability

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
)

// reads is the interval at which an agent reads its Secret.
const reads = 250 * time.Millisecond

// agents are the agents of all machines. Each registers with its bootstrap token, watches its plan Secret, reads it
// periodically, and reports to it. All requests go through the balancer.
type agents struct {
	balancer *balancer
	upstream *rest.Config
	admin    kubernetes.Interface
	ctx      context.Context // the context of the streams, which live as long as the test
	group    sync.WaitGroup

	mu        sync.Mutex
	connected map[types.NamespacedName]*connection
}

// connection is the answer to a machine's bootstrap token.
type connection struct {
	KubeConfig string `json:"kubeConfig"`
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`

	secrets typedcorev1.SecretInterface
}

func newAgents(t *testing.T, b *balancer) *agents {
	t.Helper()
	config := plane.Config(t, "contract-tests")
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	a := &agents{balancer: b, upstream: config, admin: admin, ctx: ctx,
		connected: map[types.NamespacedName]*connection{}}
	t.Cleanup(func() { cancel(); a.group.Wait() })
	return a
}

// secrets returns the client with which the agent of a machine reports.
func (a *agents) secrets(ctx context.Context, machine types.NamespacedName) (typedcorev1.SecretInterface, error) {
	a.mu.Lock()
	known := a.connected[machine]
	a.mu.Unlock()
	if known != nil {
		return known.secrets, nil
	}
	made, err := a.connect(ctx, machine)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.connected[machine]; known != nil {
		return known.secrets, nil
	}
	a.connected[machine] = made
	a.group.Go(func() { a.watch(made) })
	a.group.Go(func() { a.read(made) })
	return made.secrets, nil
}

// connect exchanges the bootstrap token of a machine.
func (a *agents) connect(ctx context.Context, machine types.NamespacedName) (*connection, error) {
	token, err := a.bootstrapToken(ctx, machine)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+replica.ServerName+"/v3/connect/agent",
		http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Cattle-Id", "id-"+machine.Name)
	request.Header.Set("Authorization", "Bearer "+naming.TokenHash(token))
	response, err := a.balancer.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", response.Status)
	}
	made := &connection{}
	if err := json.NewDecoder(response.Body).Decode(made); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(made.KubeConfig))
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: config.Host, BearerToken: config.BearerToken, Transport: a.balancer, QPS: -1, UserAgent: "fakeagent",
	})
	if err != nil {
		return nil, err
	}
	made.secrets = client.CoreV1().Secrets(made.Namespace)
	return made, a.known(ctx, made, config.BearerToken)
}

// known waits until the API server accepts the token on every path. Real agents start seconds after the creation of
// their tokens.
func (a *agents) known(ctx context.Context, c *connection, token string) error {
	direct := rest.AnonymousClientConfig(a.upstream)
	direct.BearerToken = token
	client, err := kubernetes.NewForConfig(direct)
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, reads, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Secrets(c.Namespace).Get(ctx, c.SecretName, metav1.GetOptions{})
		return err == nil, nil
	})
}

// bootstrapToken returns the token that the install script on the machine has.
func (a *agents) bootstrapToken(ctx context.Context, machine types.NamespacedName) (string, error) {
	accounts, err := a.admin.CoreV1().ServiceAccounts(machine.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: rkev1.ServiceAccountRoleLabel + "=" + rkev1.ServiceAccountRoleBootstrap + "," +
			rkev1.MachineNameLabel + "=" + machine.Name,
	})
	if err != nil {
		return "", err
	}
	if len(accounts.Items) != 1 {
		return "", fmt.Errorf("machine %s has %d bootstrap accounts", machine.Name, len(accounts.Items))
	}
	tokens, err := a.admin.CoreV1().Secrets(machine.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)).String(),
	})
	if err != nil {
		return "", err
	}
	for i := range tokens.Items {
		token := &tokens.Items[i]
		if token.Annotations[corev1.ServiceAccountNameKey] == accounts.Items[0].Name &&
			token.Annotations[rkev1.BootstrapTokenAnnotation] == "true" {
			if len(token.Data[corev1.ServiceAccountTokenKey]) > 0 {
				return string(token.Data[corev1.ServiceAccountTokenKey]), nil
			}
		}
	}
	return "", fmt.Errorf("machine %s has no bootstrap token", machine.Name)
}

// watch watches the plan Secret, and restarts the watch when it ends.
func (a *agents) watch(c *connection) {
	for a.ctx.Err() == nil {
		stream, err := c.secrets.Watch(a.ctx,
			metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField,
				c.SecretName).String()})
		if err != nil {
			a.pause() // the balancer has recorded it
			continue
		}
		for range stream.ResultChan() {
		}
		stream.Stop()
	}
}

func (a *agents) read(c *connection) {
	for a.ctx.Err() == nil {
		_, _ = c.secrets.Get(a.ctx, c.SecretName, metav1.GetOptions{}) // the balancer records failures
		a.pause()
	}
}

func (a *agents) pause() {
	select {
	case <-time.After(reads):
	case <-a.ctx.Done():
	}
}
