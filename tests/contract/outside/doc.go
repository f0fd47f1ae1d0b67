// Package outside checks that modules outside Drover's repository can use it.
//
// The modules are in testdata/, which the go command ignores. The module embedhost starts Drover inside another
// program, and fakes drives single controllers with wrangler's generated fakes. The tests copy each module to a
// temporary directory and run it there. The tests also build the program in docs/examples/embed this way, and it makes
// a Cluster ready. Its go.mod has no replace lines. It gets Drover from a module proxy in a directory (package proxy),
// which is built from the work tree. As after `go get` of a release, nested modules are separate modules. Modules that
// the main module replaces by path are resolved by version.
//
// In testdata/, go.mod is named go.mod.txt. Otherwise the modules would count as modules of this repository.
package outside
