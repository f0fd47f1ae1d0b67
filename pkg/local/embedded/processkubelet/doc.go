// Package processkubelet is a node whose pods are local processes.
//
// It registers a Node and runs each container of its pods as a process of this machine. Each container has a mount
// namespace with its own root file system. That is a tmpfs with the machine's programs and libraries read-only, a
// minimal /etc and /dev, and the pod's volumes at their mount paths. A table maps images to local programs, or to
// directories of this machine with an OCI image layout. The files of a layout replace the machine's programs, and its
// configuration determines what runs. The kubelet pulls no image: a pod with an image outside the table fails with that
// reason. Every pod has the machine's address, unless the configuration lists existing network namespaces. Then each
// pod gets one of them, with its address.
//
// A container runs under a shim. The shim outlives the kubelet, writes the exit code to disk and kills the container's
// remaining processes. The kubelet can therefore be killed and restarted at any time. It finds its pods on disk,
// resumes the running ones and never runs a container twice (shim.go explains how).
//
//	kubelet.go    node, pod controller, HTTP endpoints     config.go   configuration file
//	provider.go   what virtual-kubelet asks of us          images.go   image table
//	pod.go        one goroutine per pod                    env.go      environment of a container
//	status.go     states of containers → status of a pod   volumes.go  content of volumes
//	layout.go     images from layouts                      unpack.go   their files
//	network.go    networks of pods                         probe.go    readiness of containers
//	shim.go init.go rootfs.go rootfs_image.go exec.go      the processes around a container
//
// Unlike a real kubelet, it has no resource limits, no side-car init containers and no ports of pods. It does not
// refresh volumes of a running pod. It has no probes, except HTTP readiness probes of pods with their own network. Any
// other running container is ready.
package processkubelet
