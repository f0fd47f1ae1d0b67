// Command image assembles Drover's container images without a container engine, and prepares the files that the
// Dockerfile copies where there is an engine. It is a separate module, because a program that embeds Drover needs no
// registry client.
//
//   - root (contents.go, sbom.go, certificates.go) writes the files of each image: programs, authorities, and a bill of
//     materials for each program. The Dockerfile's first stage and scripts/image run it.
//   - layout (dockerfile.go, tree.go, layout.go) executes the Dockerfile's last stages, so the Dockerfile is the only
//     description of users, entrypoints and labels. The result is an OCI image layout.
//   - push (push.go) copies layouts to a registry, together with the bills of materials that refer to them.
//
// The same commit and the same release of Go give the same digests. Times are the commit's, entries are sorted, and
// nothing depends on the machine.
package main
