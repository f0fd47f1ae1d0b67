package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// runEtcd runs etcd's own main, which exits the process. It takes the flags and the --config-file of the etcd program.
func runEtcd(args []string) int {
	os.Args = args
	etcdmain.Main(args)
	return 0
}
