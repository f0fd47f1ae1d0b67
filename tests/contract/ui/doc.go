// Package ui tests the API of the web UI on a real API server: who may sign in, whose rights count, and what a stream
// sends. The unit tests of pkg/ui have all cases; here are those that depend on the API server.
package ui
