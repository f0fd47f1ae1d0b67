package helmlifecycle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/stage"
)

const (
	// pause is the time between two requests of a client.
	pause = 100 * time.Millisecond
	// told is the maximum number of failures that the test logs.
	told = 5
)

// traffic is continuous requests of clients.
type traffic struct {
	t         *testing.T
	questions map[string]func(ctx context.Context) error
}

// newTraffic makes clients of both Services: machines, which call the server's address, and users, for whose requests
// the API server calls Drover.
func newTraffic(t *testing.T, st *stage.Stage, namespace string) *traffic {
	t.Helper()
	machine := newMachine(t, st)
	return &traffic{t: t, questions: map[string]func(context.Context) error{
		"the server": machine,
		"admission": func(ctx context.Context) error {
			return expectRefusal(st.Client.Create(ctx, badCluster(namespace), client.DryRunAll))
		},
	}}
}

// newMachine sends a new machine's first request: by the server's name, with the authority from its bootstrap data, on
// a new connection.
func newMachine(t *testing.T, st *stage.Stage) func(context.Context) error {
	t.Helper()
	authority := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: charts.SystemNamespace, Name: "drover-ca"}}
	check(t, st.Client.Get(t.Context(), client.ObjectKeyFromObject(authority), authority))
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Data[corev1.TLSCertKey]) {
		t.Fatal("Secret drover-ca has no certificate")
	}
	machine := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+serverName+"/ping", http.NoBody)
		if err != nil {
			return err
		}
		response, err := machine.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}

// badField is the invalid field of badCluster.
const badField = "spec.agentEnvVars[0].name"

// badCluster returns a Cluster that only Drover's webhook rejects, because no shell accepts such a variable.
func badCluster(namespace string) *unstructured.Unstructured {
	bad := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"kubernetesVersion": stage.RKE2, "rkeConfig": map[string]any{"machinePools": []any{}},
		"agentEnvVars": []any{map[string]any{"name": "a-b", "value": "c"}},
	}}}
	bad.SetAPIVersion("provisioning.cattle.io/v1")
	bad.SetKind("Cluster")
	bad.SetNamespace(namespace)
	bad.SetName("bad")
	return bad
}

// expectRefusal returns an error unless badCluster was rejected. The API server accepts it when it does not reach
// Drover.
func expectRefusal(err error) error {
	switch {
	case err == nil:
		return errors.New("the API server does not call Drover's webhook, and accepts a wrong Cluster")
	case !strings.Contains(err.Error(), "cluster.admission.drover.io") || !strings.Contains(err.Error(), badField):
		return fmt.Errorf("want a refusal by Drover's webhook that names %s: %w", badField, err)
	}
	return nil
}

// and returns these clients and one more.
func (tr *traffic) and(name string, ask func(context.Context) error) *traffic {
	all := maps.Clone(tr.questions)
	all[name] = ask
	return &traffic{t: tr.t, questions: all}
}

// during runs the clients while do runs. It fails the test for each client that needed more than two attempts.
func (tr *traffic) during(what string, do func()) {
	tr.t.Helper()
	ctx, cancel := context.WithCancel(tr.t.Context())
	var clients sync.WaitGroup
	stop := func() { cancel(); clients.Wait() }
	defer stop() // also if do ends the test
	for name, ask := range tr.questions {
		clients.Go(func() { tr.keepAsking(ctx, what+", "+name, ask) })
	}
	do()
}

func (tr *traffic) keepAsking(ctx context.Context, what string, ask func(context.Context) error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	asked, again, lost := 0, 0, 0
	for ctx.Err() == nil {
		// A request in flight completes: the end of the traffic is no failure.
		lasting := context.WithoutCancel(ctx)
		asked++
		if err := ask(lasting); err != nil {
			again++
			if second := ask(lasting); second != nil {
				lost++
				err = fmt.Errorf("%w; then: %w", err, second)
				tr.t.Fail()
			}
			if again <= told {
				tr.t.Logf("%s, request %d: %v", what, asked, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	tr.t.Logf("%s: %d requests, %d of them repeated, %d failed", what, asked, again, lost)
}
