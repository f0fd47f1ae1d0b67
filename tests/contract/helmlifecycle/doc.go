// Package helmlifecycle installs, tests, upgrades and removes Drover with Helm, as docs/install.md tells, while clusters live.
package helmlifecycle
