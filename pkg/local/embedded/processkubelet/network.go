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

// Network is a network namespace of this machine, made by whoever starts the kubelet. One pod at a time has it.
type Network struct {
	// Path is where the namespace is, such as /run/netns/NAME.
	Path string `json:"path"`
	// Address is the IP address of the pod that has it.
	Address string `json:"address"`
}

func (n Network) check() error {
	if !filepath.IsAbs(n.Path) || n.Address == "" {
		return errors.New("needs the absolute path of a network namespace and the address of the pod in it")
	}
	return nil
}

// networkFile is the network of a pod, in its directory: the next kubelet must not give it to another.
const networkFile = "network.json"

// networks are those that pods have, by the paths of the namespaces.
type networks map[string]types.UID

// free returns the first of all that no pod has.
func (n networks) free(all []Network) (Network, bool) {
	for _, network := range all {
		if _, taken := n[network.Path]; !taken {
			return network, true
		}
	}
	return Network{}, false
}

// hasOwnNetwork tells whether a pod gets a network of its own, in place of the machine's.
func (k *kubelet) hasOwnNetwork(pod *corev1.Pod) bool {
	return len(k.config.Networks) > 0 && !pod.Spec.HostNetwork
}

// keepNetwork takes up the network that the pod has got from an earlier kubelet, if there is one.
func (w *worker) keepNetwork() {
	if !w.kubelet.hasOwnNetwork(w.pod) || readJSON(filepath.Join(w.dir, networkFile), &w.network) != nil {
		return
	}
	w.kubelet.mu.Lock()
	defer w.kubelet.mu.Unlock()
	w.kubelet.networks[w.network.Path] = w.pod.UID
}

// takeNetwork gives the pod a network, for which it waits as long as others have all of them.
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
		w.waitingAll(reasonNetwork, fmt.Sprintf("Other pods have all %d networks of this node", len(w.kubelet.config.Networks)))
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

// leaveNetwork lets others have the network of a pod of which nothing runs any more.
func (w *worker) leaveNetwork() {
	if w.network.Path == "" {
		return
	}
	if err := os.RemoveAll(filepath.Join(w.dir, networkFile)); err != nil {
		klog.ErrorS(err, "Letting go of the network of a finished pod", "pod", klog.KObj(w.pod))
		return
	}
	w.kubelet.mu.Lock()
	defer w.kubelet.mu.Unlock()
	delete(w.kubelet.networks, w.network.Path)
}

// node is what the pod learns about where it runs. Its address is not known before it has got a network.
func (w *worker) node() nodeFacts {
	facts := w.kubelet.node
	facts.PodAddress = facts.Address
	if w.kubelet.hasOwnNetwork(w.pod) {
		facts.PodAddress = w.network.Address
	}
	return facts
}

// address is the pod's, for those who do not run it.
func (w *worker) address() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node().PodAddress
}
