// Package build makes the objects that tests start from. They are valid, small, and the same in every run. A test names
// only what it is about:
//
//	cluster := build.Cluster("demo", build.Pool("server", "ec", 3))
//	machine := build.Machine("demo", "server-1", "ec", build.WithNode("node-1"))
//
// All objects are in namespace fleet-default. Roles are a string of the letters e (etcd), c (control plane) and w
// (worker).
package build
