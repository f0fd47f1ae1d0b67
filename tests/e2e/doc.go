// Package e2e contains the tests that run on real systemd machines: the lab of testbed/lab, real SSH, the real node
// agent, real etcd and Kubernetes API servers. They need root and the packages that scripts/deps installs.
package e2e
