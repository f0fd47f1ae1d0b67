// Package operation decides what a request for an operation on a cluster contains, and whether it makes sense: an etcd
// snapshot, a restore, a rotation of certificates or of encryption keys.
//
//	Scene (Cluster, RKEControlPlane) ── Place(Order) ──► the Wish to write with its generation, or a Refusal
//	                                                       │ Edited: the Cluster with the request, for a preview
//
// A request is a field of the Cluster's spec. Its generation is larger than that of all earlier requests, because the
// planner starts each generation once.
package operation
