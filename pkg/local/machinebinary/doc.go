// Package machinebinary is the home of the two programs that a machine pod runs. It is a module of its own because
// rancher-machine brings the libraries of a dozen clouds, and an old release of its command-line library that nothing
// else could use; a program that embeds Drover must not inherit them.
//
//   - rancher-machine, the program of github.com/rancher/machine at the release that go.mod pins. It is built from that
//     module as it is; scripts/build-machine does so.
//   - machine-entrypoint (package entrypoint), what a machine image starts: it fetches the node driver, checks it and
//     hands over to rancher-machine.
//
// cmd/driverflags writes the flags of the drivers that are compiled into rancher-machine to a table that the server
// embeds, so that the server knows them without having the program.
package machinebinary
