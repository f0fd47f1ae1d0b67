// Command drover-kube is a Kubernetes management plane in one program: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl and a kubelet whose pods are local processes.
//
// The name of the file selects the program: a symbolic link called kubectl behaves as kubectl. Under other names, the
// first argument selects it: `drover-kube kube-apiserver --help`.
//
// It is a separate module because k8s.io/kubernetes forces one replace line per staging module on every importer. No
// module imports this one. pkg/local/managementplane of the main module runs the program's parts as child processes.
package main
