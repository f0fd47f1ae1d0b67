// Command mutants shows that the tests of the planner, and of what is around it, can fail. It keeps one plausible fault for every
// invariant of the planner (I1 to I29) and for every weakness that is to be beaten (W1 to W35), and runs, for each of them, the tests that
// have to notice. The tables are therefore also the list of which test looks after what.
//
// A fault is a text in a file of the product and another one in its place. It is handed to the compiler as an overlay, so that no wrong
// code lies in the tree and none is ever written there. The text has to be in its file exactly once: a fault whose place has changed is an
// error, as is one that does not compile, and has to be written anew.
//
// Usage, in the directory tests:
//
//	go run ./mutants [-run regex] [-jobs n] [-v]
package main
