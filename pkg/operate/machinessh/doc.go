// Package machinessh connects a user to the host of a machine by SSH, with the key that the machine's driver made. The
// node agent has reported the keys of the host, and the connection ends unless the host has one of them.
//
//	connect.go   tries the addresses, and verifies the host
//	session.go   runs a command or a shell, and passes input, output, signals and the exit code
//	terminal.go  is the user's terminal
package machinessh
