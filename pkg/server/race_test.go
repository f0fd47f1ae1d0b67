//go:build race

package server

// points is how many kills a story is told with: the race detector makes each ten times as long.
const points = 1
