// Package processkubelet is a node whose pods are local processes.
//
// It registers a Node, takes the pods that the scheduler binds to it and runs each container as a process of this
// machine, in a mount namespace with a root file system of its own: a tmpfs with the machine's programs and libraries
// read-only, a minimal /etc and /dev, and the pod's volumes at their mount paths. A table says which program stands for an
// image, or in which directory of the machine the image itself is, as a layout of the OCI image format: then its files are
// the root file system, in place of the machine's programs, and its configuration says what runs. Nothing is fetched: a pod
// with an image that is not in the table fails with that reason. Every pod has the machine's address, unless the configuration
// names network namespaces: then each pod has one of them, which somebody else has made, and its address.
//
// A container runs under a shim, a process that outlives the kubelet, writes the exit code to disk and ends whatever
// the container left running. The kubelet can therefore be killed and started again at any moment: it finds its pods on
// disk, takes the running ones up again and never runs a container twice (shim.go says how).
//
//	kubelet.go    node, pod controller, HTTP endpoints     config.go   configuration file
//	provider.go   what virtual-kubelet asks of us          images.go   image table
//	pod.go        one goroutine per pod                    env.go      environment of a container
//	status.go     states of containers → status of a pod   volumes.go  content of volumes
//	layout.go     images from layouts                      unpack.go   their files
//	network.go    networks of pods                         probe.go    which of them are ready
//	shim.go init.go rootfs.go rootfs_image.go exec.go      the processes around a container
//
// What a real kubelet does and this one does not: probes (a running container is ready, and with a network
// of its own when the HTTP request of its readiness probe says so), resource limits, refreshing
// volumes of a running pod, side-car init containers, ports of pods.
package processkubelet
