// Package managementplane runs a Kubernetes management plane on this machine as child processes. It always runs etcd
// and kube-apiserver. Optional are kube-controller-manager, kube-scheduler and a process kubelet, which runs pods as
// local processes. `drover server --embedded` uses it for users without a management cluster. The contract tests use it
// as a real API server.
//
//	plane, err := managementplane.New(managementplane.Config{Dir: dir, KubeBinary: "bin/drover-kube"})
//	…
//	if err := plane.Start(ctx); err != nil { … } // the error names the child and quotes its log
//	defer plane.Stop()
//	client, err := kubernetes.NewForConfig(plane.RESTConfig())
//
// All five are one program, drover-kube. scripts/build-kube builds it from the module pkg/local/embedded. This package
// imports none of it.
//
// Reading order: config.go has the options. Each component is a function from settings to a Component: a value with
// arguments, files and a ready check (etcd.go, apiserver.go, controllers.go, kubelet.go). Tests can therefore compare
// components without running them. plane.go makes certificates and files (package pki) and passes the components in
// order to a supervisor (package supervise).
//
// All files are below Config.Dir: pki/ (made once), etcd/ (the data), logs/, run/ (lock, records of processes, ports,
// generated files), kubelet/ and kubeconfig. The plane can be killed and restarted at any time without losing data.
// Several planes can run in parallel if their directories differ.
package managementplane
