// Package managementplane starts a Kubernetes management plane on this machine as child processes: etcd and
// kube-apiserver, and as asked kube-controller-manager, kube-scheduler and a process kubelet, which runs pods as local
// processes. `drover server --embedded` uses it for people who have no management cluster; the contract tests use it to
// have a real API server.
//
//	plane, err := managementplane.New(managementplane.Config{Dir: dir, KubeBinary: "bin/drover-kube"})
//	…
//	if err := plane.Start(ctx); err != nil { … } // the error names the child and quotes its log
//	defer plane.Stop()
//	client, err := kubernetes.NewForConfig(plane.RESTConfig())
//
// All five are one program, drover-kube, made by scripts/build-kube from the module pkg/local/embedded. This package imports
// none of it.
//
// Reading order: config.go says what can be asked for. Each component is a function from settings to a Component, a
// value with arguments, files and a ready check (etcd.go, apiserver.go, controllers.go, kubelet.go), so that what will
// run can be read and compared in tests without running it. plane.go makes certificates and files (package pki) and
// hands the components to a supervisor (package supervise), in order. audit.go counts writes from the audit log.
//
// Everything lives below Config.Dir: pki/ (made once), etcd/ (the data), logs/, run/ (lock, records of processes, ports,
// generated files), kubelet/ and kubeconfig. Killed at any moment and started again, the plane loses nothing. Several
// planes run side by side as long as their directories differ.
package managementplane
