// Package outside shows that Drover can be used from modules that are not in its repository.
//
// The modules are in testdata/, where the go command does not see them: embedhost starts Drover inside a program of its own,
// fakes drives single controllers with wrangler's generated fakes. Each is copied to a directory of its own and tested there. The program
// that docs/examples/embed shows is built in the same way, and makes a Cluster ready.
// Its go.mod has no replace lines; it gets Drover from a module proxy in a directory (package proxy), made of the work tree as
// `go get` would get it of a release: nested modules are modules of their own, and what the main module replaces by path is
// resolved by version.
//
// In testdata/, go.mod is named go.mod.txt: else the modules would count as modules of this repository.
package outside
