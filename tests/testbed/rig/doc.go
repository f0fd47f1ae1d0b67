// Package rig runs everything for one real cluster on this machine: a lab (the cloud), the installer images of the
// stand-in distribution, the lab's API and its node driver, and "drover server --embedded" inside the lab's network.
// The quickstart and the end-to-end tests use the same rig, so the tests cover what users get.
//
// A rig can run real distributions instead of the stand-in (releases.go). It then keeps copies of them.
//
// All state is in one folder and one set of network namespaces named after the rig. Start continues after an earlier
// run that was stopped or killed. Stop keeps the data. Destroy removes everything.
package rig
