//go:build race

package crashpoints

// Raced is true in tests that run with the race detector.
const Raced = true
