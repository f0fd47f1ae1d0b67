package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/drover-io/drover/pkg/local/embedded/multicall"
	"github.com/drover-io/drover/pkg/local/embedded/processkubelet"

	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go reports its metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version as a metric
)

func programs() map[string]multicall.Program {
	return map[string]multicall.Program{
		"etcd":                    {Run: runEtcd},
		"kube-apiserver":          {Run: command(apiserver.NewAPIServerCommand)},
		"kube-controller-manager": {Run: command(controllermanager.NewControllerManagerCommand)},
		"kube-scheduler":          {Run: command(func() *cobra.Command { return scheduler.NewSchedulerCommand() })},
		"kubectl":                 {Run: runKubectl},
		"process-kubelet":         {Run: processkubelet.Main},

		processkubelet.ShimProgram: {Run: processkubelet.ShimMain, Internal: true},
		processkubelet.InitProgram: {Run: processkubelet.InitMain, Internal: true},
		processkubelet.ExecProgram: {Run: processkubelet.ExecMain, Internal: true},
	}
}

// command wraps a Kubernetes component, whose command reads os.Args when it runs.
func command(build func() *cobra.Command) func([]string) int {
	return func(args []string) int {
		os.Args = args
		cmd := build()
		cmd.SetArgs(args[1:])
		return cli.Run(cmd)
	}
}

// runKubectl runs kubectl, which prints errors and exits the process like the kubectl program.
func runKubectl(args []string) int {
	os.Args = args
	cmd := kubectl.NewDefaultKubectlCommand()
	cmd.SetArgs(args[1:])
	if err := cli.RunNoErrOutput(cmd); err != nil {
		kubectlutil.CheckErr(err)
		return 1
	}
	return 0
}
