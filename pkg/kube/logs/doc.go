// Package logs writes the log of the program: its own lines and those of every library in one format, to one place.
//
// A line has its time, level and msg, and, where they are known, controller, namespace, cluster and machine, whoever wrote it.
package logs
