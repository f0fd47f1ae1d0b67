package cmd

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// Only one replica leads in a management cluster, across all instances. The lease names its instance, and a replica
// that waits for another instance logs that once.
func TestLease_TwoInstances(t *testing.T) {
	memkube.VirtualTime()
	synctest.Test(t, func(t *testing.T) {
		api := memkube.New(memkube.Options{Namespaces: []string{leaseNamespace}})
		published := controllers.Settings{}.ConfigMap("b")
		published.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		check(t, api.Add(published))
		replica := func(instance string) (log *test.Hook, stop func()) {
			logger, log := test.NewNullLogger()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				check(t, leadWhileHolding(ctx, api.Config(instance), instance, logger, func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				}))
			}()
			settle(time.Minute)
			return log, func() { cancel(); <-ended; settle(time.Minute) }
		}
		expect := func(when, leads string, logs map[*test.Hook]string) {
			t.Helper()
			if got := rival.InstanceOf(holderOf(t, api)); got != rival.Digest(leads) {
				t.Errorf("%s: the holder of the lease has the digest %q", when, got)
			}
			for log, want := range logs {
				if got := strings.Join(waitedFor(log), ", "); got != want {
					t.Errorf("%s: a replica logs that it waits for %q, want %q", when, got, want)
				}
			}
		}
		firstA, stopA := replica("a")
		firstB, stopB := replica("b")
		// Instance a has not published its settings, so b logs its digest.
		expect("a leads", "a", map[*test.Hook]string{firstA: "", firstB: "with digest " + rival.Digest("a")})
		stopA()
		expect("a is stopped", "b", map[*test.Hook]string{firstB: "with digest " + rival.Digest("a")})
		secondA, stopA := replica("a")
		secondB, stopSecondB := replica("b")
		expect("a is back", "b", map[*test.Hook]string{secondA: "b", secondB: ""})
		stopSecondB() // before the leader: either of two waiting replicas can lead next
		stopB()
		expect("b is stopped", "a", map[*test.Hook]string{secondA: "b"})
		// A replica that has led waits again, without reading the lease in between.
		rob(t, api, rival.Holder("host", "robber", "b"))
		settle(time.Minute)
		expect("b took the lease of a and went", "a", map[*test.Hook]string{secondA: "b, b"})
		stopA()
	})
}

// waitedFor returns the leading instances that a replica has logged.
func waitedFor(log *test.Hook) []string {
	var out []string
	for _, entry := range log.AllEntries() {
		if instance, ok := entry.Data["instance"].(string); ok && entry.Level == logrus.WarnLevel &&
			strings.Contains(entry.Message, "Another instance of Drover leads") {
			out = append(out, instance)
		}
	}
	return out
}

func TestOtherInstances_LogsChanges(t *testing.T) {
	const noHolder, unknownHolder = "", "unknown"
	of := func(instance string) string { return rival.Holder("host", "replica-of-"+instance, instance) }
	for name, tc := range map[string]struct{ holders, want []string }{
		"ours":                          {[]string{noHolder, of("ours"), of("ours")}, nil},
		"a replica of another instance": {[]string{of("a"), of("a")}, []string{"a"}},
		"two replicas of another instance, in turn": {[]string{of("a"), noHolder,
			rival.Holder("other", "replica", "a")}, []string{"a"}},
		"a third instance": {[]string{of("a"), noHolder, of("b")}, []string{"a", "b"}},
		"another instance, after one of our replicas": {[]string{of("a"), of("ours"), of("a")}, []string{"a", "a"}},
		"a replica without an instance": {[]string{unknownHolder, of("a"), unknownHolder, of("a")},
			[]string{"a"}},
		"an instance without published settings": {[]string{of("c")}, []string{"with digest " + rival.Digest("c")}},
	} {
		t.Run(name, func(t *testing.T) {
			logger, log := test.NewNullLogger()
			settings := controllers.Settings{}
			client := fake.NewClientset(settings.ConfigMap("a"), settings.ConfigMap("b"))
			others := &otherInstances{own: rival.Digest("ours"), client: client, log: logger}
			for _, holder := range tc.holders {
				others.seen(t.Context(), holder)
			}
			if diff := cmp.Diff(tc.want, waitedFor(log)); diff != "" {
				t.Errorf("logged (-want +got):\n%s", diff)
			}
		})
	}
}
