// Command mutants checks that the tests of the planner, and of the packages around it, can fail. It has one plausible
// fault for every invariant of the planner (I1 to I33) and for every weakness to avoid (W1 to W38). For each fault it
// runs the tests that must detect it. The tables therefore also list which test covers what.
//
// A fault replaces a text in a file of the product. The compiler gets it as an overlay, so the tree never contains
// wrong code. The text must occur exactly once in its file. A fault whose text has changed is an error, and so is a
// fault that does not compile. Rewrite such a fault.
//
// Usage, in the directory tests:
//
//	go run ./mutants [-run regex] [-jobs n] [-v]
package main
