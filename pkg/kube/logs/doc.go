// Package logs writes the log of the program: its own lines and those of every library in one format, to one place.
//
// A line has its time, level and msg. Where known, it also has controller, namespace, cluster and machine, whichever
// component wrote it.
package logs
