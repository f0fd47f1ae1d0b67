// Package ec2 answers the requests of Amazon EC2's API that a node driver sends. Its instances are machines of a lab.
// The unchanged amazonec2 driver of rancher-machine can therefore create real hosts without a cloud.
//
// A Cloud is one account with one network, one image, and any number of instances, key pairs and security groups. It
// serves two addresses, as EC2 does. Handler is the Query API, which drivers call. Metadata is the service from which
// the cloud-init of an instance reads its user data. Tests inject faults through a Cloud: refused requests, such as
// RequestLimitExceeded, and instances that vanish. They also read what the account holds.
//
// A Cloud keeps its objects in memory, so it does not survive the end of its process.
package ec2
