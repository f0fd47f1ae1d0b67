// Package thrifty runs clusters with a Cluster API core that writes less (--core-writes=thrifty), also with watches
// that lag. The core must then do the same as with its own pace.
package thrifty
