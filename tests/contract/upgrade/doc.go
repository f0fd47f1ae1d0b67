// Package upgrade tests that an upgrade of Drover, and its rollback, change nothing in existing clusters.
package upgrade
