// Command image assembles Drover's container images where there is no container engine, and prepares what the Dockerfile copies
// where there is one. It is a module of its own because a program that embeds Drover needs no registry client.
//
//   - root (contents.go, sbom.go, certificates.go) lays out the files of each image: programs, authorities, a bill of materials for
//     each program. The Dockerfile's first stage runs it, and so does scripts/image.
//   - layout (dockerfile.go, tree.go, layout.go) does what the Dockerfile's last stages say, reading them from the Dockerfile itself,
//     so that there is one description of users, entrypoints and labels. The result is a layout of the OCI image format.
//   - push (push.go) copies layouts into a registry, together with the bills of materials that refer to them.
//
// The same commit and the same release of Go give the same digests: times are the commit's, entries are sorted, and nothing is taken
// from the machine.
package main
