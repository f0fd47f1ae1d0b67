// Package ui tests the web UI in a browser.
//
//	Go test ── starts ──► management plane, Drover with its UI, simulated machines   (package stage)
//	   │
//	   └── runs ──► node browser/NAME.mjs ── playwright-core ──► Chromium ──► Drover's UI
//
// A script gets the address of the UI and tokens in its environment. It asks the Go test to act by a line on its
// standard output: a Cluster appears, a connection is cut. `make test-ui RUN=regex` runs single tests.
//
// TestUICreate has the quickstart's cloud and drover server in place of the stage, and so needs root.
package ui
