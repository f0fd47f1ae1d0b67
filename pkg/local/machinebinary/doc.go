// Package machinebinary contains the two programs of a machine pod. It is a separate module because rancher-machine
// brings the libraries of a dozen clouds and an old release of its command-line library. Programs that embed Drover
// must not inherit these.
//
//   - rancher-machine, the program of github.com/rancher/machine at the release that go.mod pins. scripts/build-machine
//     builds it from that module unchanged.
//   - machine-entrypoint (package entrypoint), which a machine image starts. It downloads the node driver, checks it
//     and runs rancher-machine.
//
// cmd/driverflags writes the flags of rancher-machine's built-in drivers to a table that the server embeds. The server
// then knows the flags without the program.
package machinebinary
