// Package stories tests how controllers work together, on the API server in memory and in virtual time. A cluster is
// created, settles, is edited and is deleted. Tests kill the process after every single write and start it again.
//
// All code is in tests. They share the story and core. The story is a world with the cluster layer's controllers, which
// a test can stop and start. The type core simulates Cluster API's core controllers as far as these stories need them.
package stories
