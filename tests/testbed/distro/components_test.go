package distro

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// K3s passes the certificates of controller manager and scheduler since 1.32.5 and 1.33.1, whatever the user's cert-dir
// is. A tls-cert-file of the user replaces it.
func TestComponents_ServingCertificates(t *testing.T) {
	const own = "--tls-cert-file=/var/lib/rancher/k3s/server/tls/kube-scheduler/kube-scheduler.crt"
	for name, test := range map[string]struct {
		runtime Runtime
		version string
		args    values
		want    []string
	}{
		"K3s":                      {K3s, "v1.36.2+k3s1", values{"cert-dir=/x"}, []string{own, "--cert-dir=/x"}},
		"the first of 1.32":        {K3s, "v1.32.5+k3s1", nil, []string{own}},
		"before it":                {K3s, "v1.32.4+k3s1", values{"cert-dir=/x"}, []string{"--cert-dir=/x"}},
		"the first of 1.33":        {K3s, "v1.33.1+k3s1", nil, []string{own}},
		"before the first of 1.33": {K3s, "v1.33.0+k3s1", nil, nil},
		"RKE2":                     {RKE2, "v1.36.2+rke2r1", values{"cert-dir=/x"}, []string{"--cert-dir=/x"}},
		"the user passes a certificate": {K3s, "v1.36.2+k3s1", values{"tls-cert-file=/x"},
			[]string{"--tls-cert-file=/x"}},
		"an unreadable version": {K3s, "latest", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			list := apiComponents(NewLayout(test.runtime, ""), Node{Name: "n1", IP: net.IPv4(192, 0, 2, 1)},
				Config{SchedulerArg: test.args}, makesCertificates(test.runtime, test.version))
			got := slices.DeleteFunc(list[len(list)-1].args, func(arg string) bool {
				return !strings.HasPrefix(arg, "--tls-cert-file=") && !strings.HasPrefix(arg, "--cert-dir=")
			})
			if diff := cmp.Diff(test.want, got, cmp.Transformer("text", func(s []string) string {
				return strings.Join(s, " ")
			})); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnsureComponentCerts_WritesWhereProbesRead(t *testing.T) {
	l := NewLayout(K3s, t.TempDir())
	if err := ensureComponentCerts(l); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if _, err := os.Stat(l.tls(name + "/" + name + ".crt")); err != nil {
			t.Error(err)
		}
	}
}

// The scheduler starts when the cloud controller has initialized a node, unless there is no cloud controller.
func TestOnceUntainted_WaitsForANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var started time.Time
		begin := time.Now()
		go func() {
			_ = onceUntainted(client, func(context.Context) error {
				started = time.Now()
				return nil
			})(t.Context())
		}()
		nodes := client.CoreV1().Nodes()
		time.Sleep(time.Minute)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: uninitialized}}}}
		if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		node.Spec.Taints = []corev1.Taint{{Key: "other"}}
		if _, err := nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if waited := started.Sub(begin); waited < 2*time.Minute || waited > 2*time.Minute+time.Second {
			t.Errorf("started after %s", waited)
		}
	})
	for disabled, want := range map[bool]bool{false: true, true: false} {
		c := scheduler(NewLayout(K3s, ""), Config{DisableCloudController: disabled}, true)
		if c.needsNode != want {
			t.Errorf("without a cloud controller: %v, the scheduler waits for a node: %v", disabled, c.needsNode)
		}
	}
}

func TestUnits_RestartAsTheRealOnes(t *testing.T) {
	for _, runtime := range []Runtime{K3s, RKE2} {
		for name, text := range units(runtime) {
			if !strings.Contains(text, "\nRestart=always\nRestartSec=5s\n") {
				t.Errorf("%s does not wait 5 seconds before a restart", name)
			}
		}
	}
}
