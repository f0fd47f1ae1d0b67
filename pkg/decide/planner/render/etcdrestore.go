package render

import (
	"cmp"
	_ "embed" // the scripts that nodes run
	"errors"
	"fmt"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
)

//go:embed scripts/wait_for_ready.sh
var waitForReadyScript string

//go:embed scripts/clean_up_nodes.sh
var cleanUpNodesScript string

// restoreKey names a restore in a node's records and directories. It is part of the wire format
// (docs/wire/planner.md#restore).
const restoreKey = "etcd-restore"

// Operations of the plans of a restore.
const (
	// OperationStop is the operation of a stopped node that forgot what ran on it. Nothing on it can be disrupted.
	OperationStop = "etcd-restore-stop"
	// OperationFind is the search for the snapshot before anything stops.
	OperationFind    = "etcd-restore-find"
	OperationRestore = "etcd-restore"
	OperationCleanup = "etcd-restore-cleanup"
)

// StopWork stops everything on a node and removes its etcd membership, so that it cannot continue with data from after
// the snapshot (docs/wire/planner.md#restore). All of it is idempotent. Records of earlier restores stay, because
// attempts distinguish them.
func (n Node) StopWork(roles Roles, attempt string) Work {
	work := Work{Operation: OperationStop, Attempt: attempt, Down: true}
	add := func(name string, command Command) {
		work.Instructions = append(work.Instructions, plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
			Name: name, Command: command.Name, Args: command.Args, Env: command.Env,
		}})
	}
	add("shutdown", n.killAll())
	if n.Server && n.Runtime == distro.RKE2 {
		add("remove server manifests", n.removeManifests())
	}
	if roles.ETCD {
		add("create-etcd-tombstone", Command{Name: "/bin/sh", Args: []string{"-c", fmt.Sprintf(
			"if [ -d %[1]s ]; then touch %[1]s/tombstone; fi", n.Dirs.Data+"/server/db/etcd")}})
	}
	if n.Server {
		add("remove-tls-directory", Command{Name: "rm", Args: []string{"-rf", n.Dirs.Data + "/server/tls"}})
		add("remove-cred-directory", Command{Name: "rm", Args: []string{"-rf", n.Dirs.Data + "/server/cred"}})
	}
	return work
}

// killAll stops the distribution and everything that it started. It does nothing on a node without the distribution.
func (n Node) killAll() Command {
	return Command{
		Name: "/bin/sh",
		Args: []string{"-c", fmt.Sprintf(
			"if ! command -v %[1]s && ! command -v %[2]s; then echo %[1]s is not installed; exit 0; fi; timeout "+
				"%[3]d %[2]s",
			n.Runtime.Command(), n.Runtime.KillAllScript(), commandSeconds)},
		Env: []string{n.dataDirEnv()},
	}
}

// dataDirEnv passes the data directory to commands that do not read the configuration: all but server, agent and
// etcd-snapshot.
func (n Node) dataDirEnv() string { return n.Runtime.EnvPrefix() + "_DATA_DIR=" + n.Dirs.Data }

// Source is a snapshot to restore.
type Source struct {
	// File is the name of the snapshot's file.
	File string
	// Folder is the machine's directory with the file, as the cluster lists it. `etcd-snapshot-dir` moves it. Empty
	// means the default.
	Folder string
	// S3 is the storage of the file, nil when the machine has it.
	S3 *rkev1.ETCDSnapshotS3
	// Size is the size of a file in S3 in bytes, 0 when it is not known.
	Size int64
}

// RestorePlan is the plan of the machine on which etcd starts with the restored data (docs/wire/planner.md#restore). It
// installs the desired version, which may differ from the former one, and starts nothing except the restore.
func (v Versions) RestorePlan(in Input, source Source, attempt string) (plan.NodePlan, error) {
	args, env, ca, err := s3Restore(in, source.S3)
	if err != nil {
		return plan.NodePlan{}, err
	}
	local := in
	if etcd := in.ControlPlane.Spec.ETCD; etcd != nil {
		// The destination of new snapshots must not affect the source of this one.
		own := *etcd
		own.S3 = nil
		local.ControlPlane.Spec.ETCD = &own
	}
	desired, _, err := v.Plan(local)
	if err != nil {
		return plan.NodePlan{}, err
	}
	node := NodeOf(in)
	work := Work{Operation: OperationRestore, Attempt: attempt, Down: true}
	var before []plan.OneTimeInstruction
	if source.S3 == nil {
		before = append(before, findSnapshot(node.fileOf(source)))
	}
	before = append(before, node.Idempotent(restoreKey+"/restore-kill-all", attempt, node.killAll()))
	if node.Runtime == distro.RKE2 {
		before = append(before, node.Idempotent(restoreKey+"/restore-manifest-removal", attempt,
			node.removeManifests()))
	}
	reset := []string{
		node.Runtime.Command(), "server", "--cluster-reset",
		fmt.Sprintf("--etcd-arg=advertise-client-urls=https://%s:2379", node.Loopback),
		"--etcd-disable-snapshots=false",
	}
	if source.S3 == nil {
		file := node.fileOf(source)
		reset = append(reset, "--cluster-reset-restore-path="+strings.TrimPrefix(file, node.Dirs.Data+"/server/"),
			"--etcd-s3=false")
	} else {
		reset = append(append(reset, "--cluster-reset-restore-path="+source.File), args...)
	}
	command := bounded(restoreSeconds, reset...)
	command.Env = env
	work.Instructions = []plan.OneTimeInstruction{
		node.Idempotent(restoreKey+"/clean-etcd-dir", attempt,
			Command{Name: "rm", Args: []string{"-rf", node.Dirs.Data + "/server/db/etcd"}}),
		node.Idempotent(restoreKey+"/restore", attempt, command),
	}
	if ca != nil && !slices.ContainsFunc(desired.Files, func(f plan.File) bool { return f.Path == ca.Path }) {
		desired.Files = append(slices.Clone(desired.Files), *ca)
	}
	desired.Instructions = slices.Concat(before, node.skipStart(desired))
	return node.Extend(desired, work), nil
}

// fileOf is the path of a snapshot on a machine.
func (n Node) fileOf(source Source) string {
	folder := source.Folder
	if folder == "" {
		folder = n.Dirs.Data + "/server/db/snapshots"
	}
	return folder + "/" + source.File
}

// findSnapshot fails when the file is missing, because the following instructions remove etcd's current data.
func findSnapshot(file string) plan.OneTimeInstruction {
	return plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name: "find-snapshot", Command: "/bin/sh",
		Args: []string{"-c", `test -f "$1" || { echo "snapshot $1 is not on this machine" >&2; exit 1; }`, "sh", file},
	}}
}

// skipStart returns the install instruction of a plan in the form that starts nothing
// (docs/wire/planner.md#the-install-instruction).
func (n Node) skipStart(p plan.NodePlan) []plan.OneTimeInstruction {
	var out []plan.OneTimeInstruction
	for _, instruction := range p.Instructions {
		if instruction.Name != InstallInstruction {
			continue
		}
		env := []string{"INSTALL_" + n.Runtime.EnvPrefix() + "_SKIP_START=true"}
		for _, entry := range instruction.Env {
			if !strings.HasPrefix(entry, envRestartStamp+"=") && !strings.HasPrefix(entry, envDrainHash+"=") {
				env = append(env, entry)
			}
		}
		instruction.Env = env
		out = append(out, instruction)
	}
	return out
}

// s3Restore returns the arguments with which a restore finds a snapshot in S3. The secret key is in the environment,
// because every user of the node can read arguments (docs/wire/secrets.md#s3-arguments).
func s3Restore(in Input, s3 *rkev1.ETCDSnapshotS3) (args, env []string, ca *plan.File, err error) {
	if s3 == nil {
		return nil, nil, nil, nil
	}
	m := newMachinePlan(in)
	storage, recorded := m.storageOf(s3)
	options, ca, err := m.s3Options(storage)
	switch {
	case err != nil:
		return nil, nil, nil, fmt.Errorf("the snapshot's storage: %w", err)
	case len(options) == 0:
		return nil, nil, nil, errors.New("the snapshot has no S3 storage")
	case recorded != "" && ca != nil && ca.Path != recorded:
		ca = nil // the snapshot has another authority
	}
	args, env = s3Arguments(options, recorded)
	return args, env, ca, nil
}

// s3Arguments turns configuration keys into arguments, except the secret key.
func s3Arguments(options []option, recorded string) (args, env []string) {
	for _, option := range options {
		switch {
		case option.key == "etcd-s3-secret-key":
			env = append(env, fmt.Sprintf("AWS_SECRET_ACCESS_KEY=%v", option.value))
		case option.key == "etcd-s3-endpoint-ca" && recorded != "":
		case option.value == true:
			args = append(args, "--"+option.key)
		default:
			args = append(args, fmt.Sprintf("--%s=%v", option.key, option.value))
		}
	}
	if recorded != "" {
		args = append(args, "--etcd-s3-endpoint-ca="+recorded)
	}
	return args, env
}

// storageOf completes a snapshot's storage with the cluster's own. recorded is the path of an authority on nodes, when
// the snapshot contains only that path.
func (m *machinePlan) storageOf(s3 *rkev1.ETCDSnapshotS3) (storage *rkev1.ETCDSnapshotS3, recorded string) {
	own, current := *s3, rkev1.ETCDSnapshotS3{}
	if m.spec.ETCD != nil && m.spec.ETCD.S3 != nil {
		current = *m.spec.ETCD.S3
	}
	own.Retention = 0
	own.CloudCredentialName = cmp.Or(own.CloudCredentialName, current.CloudCredentialName)
	if strings.HasSuffix(own.EndpointCA, ".crt") {
		recorded, own.EndpointCA = own.EndpointCA, current.EndpointCA
	}
	return &own, recorded
}

// podSelectors selects the pods that do not recover from restored data by themselves, as namespace:selector
// (docs/wire/planner.md#restore).
func (n Node) podSelectors(fleetNamespace string) []string {
	selectors := []string{"kube-system:k8s-app=kube-dns", "kube-system:k8s-app=kube-dns-autoscaler"}
	if n.Runtime == distro.RKE2 {
		selectors = append(selectors, "kube-system:app=rke2-metrics-server", "tigera-operator:k8s-app=tigera-operator",
			"calico-system:k8s-app=calico-node", "calico-system:k8s-app=calico-kube-controllers",
			"calico-system:k8s-app=calico-typha",
			"kube-system:k8s-app=canal", "kube-system:k8s-app=cilium", "kube-system:app=rke2-multus",
			"kube-system:app.kubernetes.io/name=rke2-ingress-nginx")
	}
	return append(selectors, "cattle-system:app=cattle-cluster-agent", "cattle-system:app=kube-api-auth",
		"cattle-system:app=rancher-webhook",
		"cattle-system:upgrade.cattle.io/controller=system-upgrade-controller",
		cmp.Or(fleetNamespace, "cattle-fleet-system")+":app=fleet-agent")
}

// PodCleanupWork removes pods that run according to the restored data (docs/wire/planner.md#restore). uids are the
// machines that run. Those in possible also run, but may have no node.
func (n Node) PodCleanupWork(uids, possible []string, attempt string) Work {
	list := n.script(restoreKey, "wait_for_pod_list.sh", waitForScript)
	ready := n.script(restoreKey, "wait_for_ready.sh", waitForReadyScript)
	kubectl, kubeconfig := n.Runtime.Kubectl(n.Dirs.Data), n.Runtime.AdminKubeconfig()
	work := Work{Operation: OperationCleanup, Attempt: attempt, Files: []plan.File{list, ready}}
	add := func(name string, command Command) {
		work.Instructions = append(work.Instructions, n.Idempotent(restoreKey+"/"+name, attempt, command))
	}
	add("pods-wait-for-podlist", Command{Name: "/bin/sh", Args: slices.Concat([]string{"-x", list.Path}, kubectl,
		[]string{"--kubeconfig", kubeconfig, "--request-timeout=20s", "get", "pods", "--all-namespaces"})})
	add("wait-for-desired-ready-nodes", Command{
		Name: "/bin/sh", Args: append([]string{"-x", ready.Path}, uids...),
		Env: append(n.kubectlEnv(), "POSSIBLE="+strings.Join(possible, " ")),
	})
	for i, selector := range n.podSelectors("") {
		namespace, labels, _ := strings.Cut(selector, ":")
		add(fmt.Sprintf("post-restore-cleanup-pods-%d", i), Command{Name: kubectl[0], Args: slices.Concat(kubectl[1:],
			[]string{"--kubeconfig", kubeconfig, "--request-timeout=60s", "delete", "pods", "-n", namespace, "-l",
				labels, "--wait=false"})})
	}
	return work
}

// NodeCleanupWork removes the nodes without a machine (docs/wire/planner.md#restore).
func (n Node) NodeCleanupWork(uids, nodeNames []string, attempt string) Work {
	clean := n.script(restoreKey, "clean_up_nodes.sh", cleanUpNodesScript)
	lines := func(list []string) string { return strings.Join(slices.Sorted(slices.Values(list)), "\n") + "\n" }
	id := naming.SHA256(attempt)[:10]
	machines := n.script(restoreKey, "machine-ids-"+id, lines(uids))
	names := n.script(restoreKey, "node-names-"+id, lines(nodeNames))
	return Work{
		Operation: OperationCleanup,
		Attempt:   attempt,
		Files:     []plan.File{clean, machines, names},
		Instructions: []plan.OneTimeInstruction{n.Idempotent(restoreKey+"/cleanup-nodes", attempt,
			Command{Name: "/bin/sh", Args: []string{"-x", clean.Path, machines.Path, names.Path},
				Env: n.kubectlEnv()})},
	}
}

// kubectlEnv tells a script how to start kubectl.
func (n Node) kubectlEnv() []string {
	kubectl := n.Runtime.Kubectl(n.Dirs.Data)
	return []string{"KUBECTL=" + kubectl[0], "KUBECTL_COMMAND=" + strings.Join(kubectl[1:], " "),
		"KUBECONFIG=" + n.Runtime.AdminKubeconfig()}
}
