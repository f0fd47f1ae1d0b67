// Command drover-kube is a Kubernetes management plane in one program: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and a kubelet whose pods are local processes.
//
// Which of them runs is decided by the name the file was started under (a symbolic link called kubectl behaves as
// kubectl) or else by the first argument: `drover-kube kube-apiserver --help`.
//
// It is a module of its own because k8s.io/kubernetes forces one replace line per staging module on whoever imports
// it; nothing imports this module. pkg/local/managementplane of the main module starts the program's parts as child
// processes and keeps them running.
package main
