// Package registries reads what a cluster's configuration refers to: credentials and certificates of image registries,
// files for machines, the credential for snapshots in S3, a cloud provider's configuration.
//
// It reads from caches only and decides nothing. Which objects a configuration refers to is known to package render
// ([render.References]), and so are the rules: types of Secrets, keys, and the annotations by which an object lets a cluster
// use it. An object that is missing or not authorised is therefore an error of the machines that need it, with the name of
// the field in it, and of no other machine.
//
// The second half of the package answers the opposite question, for wake-ups: which clusters may be waiting for this object?
// Two ways lead there. [AuthorizedClusters] reads the annotation on the object; [IndexKeys] indexes control planes by the
// objects they refer to, so that an edited credential reaches its clusters although nothing on it names them.
package registries
