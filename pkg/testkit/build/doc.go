// Package build makes the objects that tests start from: valid, small, and the same in every run. A test says only what it is
// about:
//
//	cluster := build.Cluster("demo", build.Pool("server", "ec", 3))
//	machine := build.Machine("demo", "server-1", "ec", build.WithNode("node-1"))
//
// Everything is in namespace fleet-default. Roles are some of the letters e (etcd), c (control plane) and w (worker).
package build
