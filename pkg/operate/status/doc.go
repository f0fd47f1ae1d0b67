// Package status describes clusters and machines as rows: their state, what they wait for, and since when. The command
// drover status and the web pages show the same rows.
//
// The package is pure: objects and the time come in as values.
package status
