// Package server is Drover as a library: the command "drover server" is a thin layer over it, and a larger server embeds it.
//
//	s, err := server.New(server.Options{RESTConfig: config, InstanceID: "…", Elected: elected, Settings: …})
//	mux.Handle("/", s.Handler())        // endpoints for machines; server.Paths lists what to route
//	internal.Handle("/admission/", s.AdmissionHandler()) // where only the API server gets to; server.AdmissionPaths lists what to route
//	err = s.Start(ctx)                  // until ctx ends
//
// Two halves run apart. The endpoints run on every replica as soon as Start is called. The controllers run while the replica
// leads: from the moment Elected is closed, or, for a program that manages its own lease, for as long as it stays in Lead.
// Losing the lease ends the controllers and nothing else.
//
// The package takes no lease, handles no signal, reads no flag and no environment, and sets no process-wide logger. The one
// exception that is not ours to avoid: Cluster API's controllers, when they are embedded (CAPIEmbedded), use process-wide metrics.
//
// A host brings a rest.Config, and maybe its own lasso controller factory, whose scheme must hold Drover's Go types of the kinds it
// knows; New checks and names the kind. Kinds that the host's factory runs already are shared with it; others start with Drover
// and run until the context of Start ends.
package server
