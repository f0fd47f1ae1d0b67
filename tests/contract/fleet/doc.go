// Package fleet runs Drover next to a played Fleet: its CRDs, which come and go, and what Fleet writes into its
// objects.
package fleet
