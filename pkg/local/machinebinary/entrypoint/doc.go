// Package entrypoint is the program in the container of a provisioning Job. It installs the node driver and then runs
// rancher-machine.
//
// It follows the contract of the image rancher/machine, which other images of this ecosystem also follow. So the Job
// that Drover renders runs in any of them (docs/wire/machines.md#command-line):
//
//   - "--driver-download-url=" and "--driver-hash=" are removed from the command line. With a URL, the entrypoint
//     downloads the driver and compares its SHA-256 with the hash, if there is one. It unpacks a zip or a gzipped tar,
//     and puts the driver on the PATH as docker-machine-driver-NAME.
//   - Every other "--flag=value" becomes two words, because rancher-machine's command line requires that.
//   - All output is copied to the termination log. The kubelet keeps its end, which is the message that a user sees
//     when a machine could not be created.
//   - The exit status is rancher-machine's, or 1 when the driver could not be installed.
//
// In addition, a restart of the API server fails no Job. rancher-machine reads and saves its state through a relay,
// which repeats lost requests.
package entrypoint
