// Package entrypoint is what the container of a provisioning Job runs: it prepares the node driver and then becomes
// rancher-machine.
//
// The contract is that of the image rancher/machine, which any other image of this ecosystem keeps too, so the Job that
// Drover renders runs in either (docs/wire/machines.md#command-line):
//
//   - "--driver-download-url=" and "--driver-hash=" are taken off the command line. With a URL, the driver is downloaded,
//     its SHA-256 compared with the hash (none given checks nothing), unpacked if it is a zip or a gzipped tar, and put on
//     the PATH as docker-machine-driver-NAME.
//   - every other "--flag=value" becomes two words, because rancher-machine's command line needs them apart.
//   - all output is copied to the termination log, of which the kubelet keeps the end: that is the message a user sees
//     when a machine could not be made.
//   - the exit status is rancher-machine's; 1 when the driver could not be prepared.
//
// Beyond that contract, an API server that is being restarted fails no Job: rancher-machine reads and saves its state through a
// relay, which repeats what was lost.
package entrypoint
