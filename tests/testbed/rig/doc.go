// Package rig puts the pieces together that make one real cluster on this machine: a lab (the cloud), the installer images of the
// stand-in distribution, the lab's API and its node driver, and "drover server --embedded" inside the lab's network. The quickstart and the
// end-to-end tests use the same rig, so what the tests show is what a person gets.
//
// Everything lives in one folder and one set of network namespaces named after the rig; Start goes on where an earlier run
// stopped or was killed, Stop keeps the data, Destroy removes everything.
package rig
