// Package adopt has Drover take over clusters that somebody else has made, on a real API server.
package adopt
