// Package adopt tests how Drover adopts clusters of other managers on a real API server.
package adopt
