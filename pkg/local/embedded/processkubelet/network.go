package processkubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Network is an existing network namespace of this machine. One pod at a time uses it.
type Network struct {
	// Path is the path of the namespace, such as /run/netns/NAME.
	Path string `json:"path"`
	// Address is the IP address of the pod that uses it.
	Address string `json:"address"`
}

func (n Network) check() error {
	if !filepath.IsAbs(n.Path) || n.Address == "" {
		return errors.New("must have the absolute path of a network namespace and the address of the pod in it")
	}
	return nil
}

// networkFile stores the network of a pod in its directory, so that the next kubelet does not give it to another pod.
const networkFile = "network.json"

// networks maps the paths of namespaces in use to the pods that use them.
type networks map[string]types.UID

// free returns the first network that no pod uses.
func (n networks) free(all []Network) (Network, bool) {
	for _, network := range all {
		if _, taken := n[network.Path]; !taken {
			return network, true
		}
	}
	return Network{}, false
}

// hasOwnNetwork reports whether a pod gets its own network instead of the machine's.
func (k *kubelet) hasOwnNetwork(pod *corev1.Pod) bool {
	return len(k.config.Networks) > 0 && !pod.Spec.HostNetwork
}

// keepNetwork restores the network that an earlier kubelet gave the pod, if any.
func (w *worker) keepNetwork() {
	if !w.kubelet.hasOwnNetwork(w.pod) || readJSON(filepath.Join(w.dir, networkFile), &w.network) != nil {
		return
	}
	w.kubelet.mu.Lock()
	defer w.kubelet.mu.Unlock()
	w.kubelet.networks[w.network.Path] = w.pod.UID
}

// takeNetwork gives the pod a network. It waits while other pods use all of them.
func (w *worker) takeNetwork(ctx context.Context) error {
	if !w.kubelet.hasOwnNetwork(w.pod) || w.network.Path != "" {
		return nil
	}
	for {
		network, found := w.kubelet.reserve(w.pod.UID)
		if found {
			w.mu.Lock()
			w.network = network
			w.mu.Unlock()
			return writeJSON(filepath.Join(w.dir, networkFile), network)
		}
		w.waitingAll(reasonNetwork, fmt.Sprintf("Other pods use all %d networks of this node",
			len(w.kubelet.config.Networks)))
		if err := w.pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

func (k *kubelet) reserve(pod types.UID) (Network, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	network, found := k.networks.free(k.config.Networks)
	if found {
		k.networks[network.Path] = pod
	}
	return network, found
}

// leaveNetwork frees the network of a pod that has no running process.
func (w *worker) leaveNetwork() {
	if w.network.Path == "" {
		return
	}
	if err := os.RemoveAll(filepath.Join(w.dir, networkFile)); err != nil {
		klog.ErrorS(err, "Cannot release the network of a finished pod", "pod", klog.KObj(w.pod))
		return
	}
	w.kubelet.mu.Lock()
	defer w.kubelet.mu.Unlock()
	delete(w.kubelet.networks, w.network.Path)
}

// node returns what the pod can read about its node. The pod's address is unknown until it has a network.
func (w *worker) node() nodeFacts {
	facts := w.kubelet.node
	facts.PodAddress = facts.Address
	if w.kubelet.hasOwnNetwork(w.pod) {
		facts.PodAddress = w.network.Address
	}
	return facts
}

// address returns the pod's address. It is safe for other goroutines.
func (w *worker) address() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node().PodAddress
}
