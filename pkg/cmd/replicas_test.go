package cmd

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestReplicas: three replicas start, one stops normally, one is killed, and an unavailable API server changes no
// count.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logrus.New()
		log.SetOutput(io.Discard)
		client := fake.NewClientset()
		var down atomic.Bool
		client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return down.Load(), nil, errors.New("the API server is not available")
		})
		leases := client.CoordinationV1().Leases(leaseNamespace)
		begin := func(id, instance string) (*replicas, context.CancelFunc) {
			r := newReplicas(leases, id, instance, log)
			ctx, cancel := context.WithCancel(t.Context())
			go r.run(ctx)
			return r, cancel
		}
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		a, endA := begin("a", "ours")
		defer endA()
		if a.count() != 1 {
			t.Errorf("before the first count, there are %d replicas", a.count())
		}
		b, endB := begin("b", "ours")
		_, endOther := begin("x", "another program's")
		defer endOther()
		killed := newReplicas(leases, "c", "ours", log)
		if err := killed.renew(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		expect := func(when string, want int, of ...*replicas) {
			t.Helper()
			for _, r := range of {
				if r.count() != want {
					t.Errorf("%s: %s counts %d, want %d", when, r.id, r.count(), want)
				}
			}
		}
		pass(replicaRenewal + time.Second)
		expect("all three run", 3, a, b)
		pass(replicaDuration)
		expect("one has been killed", 2, a, b)
		down.Store(true)
		pass(3 * replicaDuration)
		expect("the API server is not available", 2, a, b)
		down.Store(false)
		pass(2 * replicaRenewal) // in the first period, a replica may be counted before it has renewed
		expect("the API server answers again", 2, a, b)
		endB()
		pass(replicaRenewal)
		expect("one has ended", 1, a)
		pass(replicaForgotten)
		left, err := leases.List(t.Context(), metav1.ListOptions{LabelSelector: replicaLabel + "=" + a.set})
		if err != nil || len(left.Items) != 1 || left.Items[0].Name != "drover-replica-a" {
			t.Errorf("remaining Leases: %v, error %v", left.Items, err)
		}
	})
}
