//go:build !race

package server

// points is how many kills a story is told with, besides the one after the first write.
const points = 5
