// Package driverprogram downloads the program of a node driver and asks it for its flags. Both run in the Job of
// package driverjob, in a container each, and not in the server.
//
// A driver is a program with the plugin protocol of docker-machine. It is third-party code, so it gets nothing of the
// environment of the process that starts it.
package driverprogram
