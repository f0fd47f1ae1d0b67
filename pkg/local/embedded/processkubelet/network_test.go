package processkubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// networkedKubelet returns a kubelet with two networks and the state of an earlier kubelet in dir.
func networkedKubelet(dir string) *kubelet {
	return &kubelet{
		config: Config{Dir: dir, Networks: []Network{{Path: "/run/netns/one", Address: "10.0.0.11"},
			{Path: "/run/netns/two", Address: "10.0.0.12"}}},
		node:     nodeFacts{Name: "n1", Address: "10.0.0.5"},
		networks: networks{},
	}
}

// arrive returns a new pod of the node, with a network if one is free.
func arrive(t *testing.T, k *kubelet, name string, hostNetwork bool) *worker {
	t.Helper()
	pod := podWith(corev1.Container{Name: "main"})
	pod.UID, pod.Spec.HostNetwork = types.UID(name), hostNetwork
	if err := os.MkdirAll(filepath.Join(k.podsDir(), name), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorker(k, pod)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // do not wait for a network
	if err := w.takeNetwork(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return w
}

func TestNetworks_EachPodHasItsOwn(t *testing.T) {
	k := networkedKubelet(t.TempDir())
	first, host, second, third := arrive(t, k, "first", false), arrive(t, k, "host", true),
		arrive(t, k, "second", false), arrive(t, k, "third", false)
	addresses := func(all ...*worker) (out []string) {
		for _, w := range all {
			out = append(out, w.address())
		}
		return out
	}
	if diff := cmp.Diff([]string{"10.0.0.11", "10.0.0.5", "10.0.0.12", ""},
		addresses(first, host, second, third)); diff != "" {
		t.Errorf("addresses of pods (-want +got):\n%s", diff)
	}
	if waiting := third.state.containers["main"].waiting; waiting == nil || waiting.Reason != reasonNetwork {
		t.Errorf("the pod without a network has status %+v, want a wait for a network", third.state.containers["main"])
	}
	if status := third.snapshot().Status; status.PodIP != "" || len(status.PodIPs) > 0 {
		t.Errorf("the pod without a network has the addresses %q, %v", status.PodIP, status.PodIPs)
	}

	// After a restart of the kubelet the pods keep their networks, in whatever order the pods are read.
	k = networkedKubelet(k.config.Dir)
	second = newWorker(k, second.pod)
	first = newWorker(k, first.pod)
	if diff := cmp.Diff([]string{"10.0.0.11", "10.0.0.12"}, addresses(first, second)); diff != "" {
		t.Errorf("addresses after a restart of the kubelet (-want +got):\n%s", diff)
	}
	if late := arrive(t, k, "fourth", false); late.address() != "" {
		t.Errorf("a pod got address %s of another pod", late.address())
	}

	// The next pod gets the network of an ended pod.
	second.leaveNetwork()
	if late := arrive(t, k, "fifth", false); late.address() != "10.0.0.12" {
		t.Errorf("a pod got the address %q, want the address of the ended pod", late.address())
	}
	k = networkedKubelet(k.config.Dir)
	if again := newWorker(k, second.pod); again.address() != "" {
		t.Errorf("the ended pod has address %s again", again.address())
	}
}

// The container, and commands that run in it, are in the namespace.
func TestNetwork_OfContainer(t *testing.T) {
	needRoot(t)
	made, leave := make(chan string), make(chan struct{})
	defer close(leave)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			close(made)
			return
		}
		made <- fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		<-leave
	}()
	path, ok := <-made
	if !ok {
		t.Skip("this machine does not allow network namespaces")
	}
	want, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	a, out := scriptAttempt(t, "readlink /proc/self/ns/net > /out/namespace", func(spec *containerSpec) {
		spec.Network = path
	})
	if exit := run(t, a); exit.ExitCode != 0 {
		t.Fatalf("ended as %+v", exit)
	}
	if got := content(t, filepath.Join(out, "namespace")); got != want+"\n" {
		t.Errorf("the container is in %q, want %q", got, want)
	}
}
