package render_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// works are the operations that build on a node's plan.
func works(node render.Node, have plan.NodePlan, roles render.Roles, attempt string) map[string]render.Work {
	return map[string]render.Work{
		"snapshot":     node.SnapshotCreateWork(attempt, false),
		"S3 snapshot":  node.SnapshotCreateWork(attempt, true),
		"stop":         node.StopWork(roles, attempt),
		"certificates": node.RotateCertificatesWork(have, roles, nil, attempt),
		"key command":  node.SecretsEncryptWork("prepare", []string{"prepare"}, attempt),
		"key restart":  node.RestartForKeysWork(roles, "PostPrepareRestart", "prepare", attempt),
		"start":        node.StartWork(attempt),
	}
}

// TestOperation_KeepsWhatTheNodeHas checks that an operation changes neither configuration nor version, so that a
// comparison with the next plan shows the node's real state (W15).
func TestOperation_KeepsWhatTheNodeHas(t *testing.T) {
	t.Parallel()
	for _, runtime := range []distro.Runtime{distro.RKE2, distro.K3s} {
		for _, place := range []string{"init", "init-etcd", "server", "controlplane", "worker"} {
			in := basicInput(runtime, place)
			node, have := render.NodeOf(in), mustPlan(t, in)
			for name, work := range works(node, have, in.Machine.Roles, "1") {
				p := node.Operation(have, work)
				if diff := cmp.Diff(have.Files, p.Files[:len(have.Files)]); diff != "" {
					t.Errorf("%s on %s %s changes files (-have +got):\n%s", name, runtime, place, diff)
				}
				if render.StampsOf(p) != render.StampsOf(have) || !render.SameInstallation(p, have) {
					t.Errorf("%s on %s %s: the stamps are lost", name, runtime, place)
				}
				if render.OperationOf(p) != work.Operation || render.OperationOf(have) != "" {
					t.Errorf("%s on %s %s is not recognized", name, runtime, place)
				}
				for _, i := range p.Instructions {
					if i.Image != "" {
						t.Errorf("%s on %s %s needs image %s", name, runtime, place, i.Image)
					}
				}
				if err := nodeplan.Check(p); err != nil {
					t.Error(err)
				}
				if again := node.Operation(p, work); !nodeplan.Equal(p, again) {
					t.Errorf("%s on %s %s: the same operation on top of itself is another plan", name, runtime, place)
				}
			}
			changed := basicInput(runtime, place, global("selinux", true))
			if stop := node.Operation(have, node.StopWork(in.Machine.Roles, "1")); render.SameInstallation(stop,
				mustPlan(t, changed)) {
				t.Errorf("%s %s: a change of configuration is not recognized with an operation", runtime, place)
			}
		}
	}
}

func TestOperation_AttemptsAreDifferentPlans(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.RKE2, "server")
	node, have := render.NodeOf(in), mustPlan(t, in)
	second := works(node, have, in.Machine.Roles, "2")
	for name, work := range works(node, have, in.Machine.Roles, "1") {
		if nodeplan.Equal(node.Operation(have, work), node.Operation(have, second[name])) {
			t.Errorf("%s: the reports of two attempts must differ", name)
		}
	}
}

func names(p []plan.OneTimeInstruction) []string {
	var out []string
	for _, i := range p {
		name := i.Name
		if rest, ok := strings.CutPrefix(name, "idempotent-"); ok {
			name = rest[:len(rest)-130]
		}
		out = append(out, name)
	}
	return out
}

// TestRotateCertificatesWork checks the instructions, and that every command has a time limit.
// (docs/invariants.md#weaknesses, W24.)
func TestRotateCertificatesWork(t *testing.T) {
	t.Parallel()
	const key = "certificate-rotation/"
	for name, tc := range map[string]struct {
		runtime  distro.Runtime
		place    string
		services []string
		edit     func(*render.Input)
		want     []string
		wantArgs string
	}{
		"all services of an RKE2 server": {
			runtime: distro.RKE2, place: "server",
			want: []string{"etcd-healthy", "stop-stop", "rotate", "rm-kcm-cert", "rm-kcm-key", "rm-kcm-spm",
				"rm-ks-cert", "rm-ks-key", "rm-ks-spm",
				"manifest-removal", "restart-reset-failed", "restart-restart"},
			wantArgs: "600 rke2 certificate rotate",
		},
		"all services of a K3s control plane": {
			runtime: distro.K3s, place: "controlplane",
			want: []string{"stop-stop", "rotate", "rm-kcm-cert", "rm-kcm-key", "rm-ks-cert", "rm-ks-key",
				"restart-reset-failed", "restart-restart"},
			wantArgs: "600 k3s certificate rotate",
		},
		"some services": {
			runtime: distro.K3s, place: "controlplane", services: []string{"scheduler", "admin"},
			want: []string{"stop-stop", "rotate", "rm-ks-cert", "rm-ks-key", "restart-reset-failed",
				"restart-restart"},
			wantArgs: "600 k3s certificate rotate -s scheduler -s admin",
		},
		"the user's certificate is kept": {
			runtime: distro.K3s, place: "controlplane", services: []string{"scheduler"},
			edit:     global("kube-scheduler-arg", list("tls-cert-file=/c", "cert-dir=/d")),
			want:     []string{"stop-stop", "rotate", "restart-reset-failed", "restart-restart"},
			wantArgs: "600 k3s certificate rotate -s scheduler",
		},
		"a worker rotates its own": {
			runtime: distro.RKE2, place: "worker", services: []string{"api-server", "kubelet"},
			want:     []string{"stop-stop", "rotate", "restart-reset-failed", "restart-restart"},
			wantArgs: "600 rke2 certificate rotate -s kubelet",
		},
		"a worker without any of them is restarted": {
			runtime: distro.RKE2, place: "worker", services: []string{"api-server"},
			want: []string{"restart-reset-failed", "restart-restart"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := basicInput(tc.runtime, tc.place)
			if tc.edit != nil {
				tc.edit(&in)
			}
			work := render.NodeOf(in).RotateCertificatesWork(mustPlan(t, in), in.Machine.Roles, tc.services, "1")
			var want []string
			for _, w := range tc.want {
				want = append(want, key+w)
			}
			if diff := cmp.Diff(want, names(work.Instructions)); diff != "" {
				t.Errorf("instructions (-want +got):\n%s", diff)
			}
			for _, i := range work.Instructions {
				if strings.Contains(i.Name, key+"rotate-") {
					if got := strings.Join(i.Args[7:], " "); got != tc.wantArgs {
						t.Errorf("arguments of the rotation are %q, want %q", got, tc.wantArgs)
					}
				}
			}
		})
	}
}

// TestOperations_PassTheDataDirectory checks that operations pass the data directory. Commands that do not read the
// configuration would use the wrong directory on a node that was never a server.
func TestOperations_PassTheDataDirectory(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.RKE2, "init")
	in.ControlPlane.Spec.DataDirectories.K8sDistro = "/mnt/rke2"
	node, have := render.NodeOf(in), mustPlan(t, in)
	all := render.Roles{ETCD: true, ControlPlane: true}
	told := 0
	for name, work := range map[string]render.Work{
		"certificates":     node.RotateCertificatesWork(have, all, nil, "1"),
		"keys":             node.SecretsEncryptWork("prepare", nil, "1"),
		"restart for keys": node.RestartForKeysWork(all, "a", "prepare", "1"),
	} {
		for _, i := range work.Instructions {
			if !strings.Contains(i.Name, "/rotate") && !strings.Contains(i.Name, "/prepare") &&
				i.Name != render.SecretsEncryptStatus {
				continue
			}
			if told++; !slices.Contains(i.Env, "RKE2_DATA_DIR=/mnt/rke2") {
				t.Errorf("%s: %s has %v in its environment", name, i.Name, i.Env)
			}
		}
	}
	if told != 4 {
		t.Errorf("%d instructions were checked", told)
	}
}

func TestRotatesCertificates(t *testing.T) {
	t.Parallel()
	etcd, controlPlane, worker := render.Roles{ETCD: true}, render.Roles{ControlPlane: true}, render.Roles{Worker: true}
	for service, want := range map[string][3]bool{
		"":                   {true, true, true},
		"etcd":               {true, false, false},
		"kubelet":            {true, true, true},
		"api-server":         {false, true, true},
		"kube-proxy":         {false, true, true},
		"auth-proxy":         {false, true, true},
		"k3s-server":         {true, true, true},
		"rke2-server":        {true, true, true},
		"scheduler":          {false, true, false},
		"controller-manager": {false, true, false},
		"cloud-controller":   {false, true, false},
		"admin":              {false, true, false},
		"rke2-controller":    {false, true, false},
		"supervisor":         {true, true, false},
		"unknown":            {false, false, false},
	} {
		var services []string
		if service != "" {
			services = []string{service}
		}
		got := [3]bool{render.RotatesCertificates(etcd, services), render.RotatesCertificates(controlPlane, services),
			render.RotatesCertificates(worker, services)}
		if got != want {
			t.Errorf("%q concerns etcd, control plane, worker: %v, want %v", service, got, want)
		}
	}
	if render.RotatesCertificates(render.Roles{}, nil) {
		t.Error("a machine without roles has no certificates")
	}
}

func TestUnknownServices(t *testing.T) {
	t.Parallel()
	own := map[distro.Runtime][]string{distro.RKE2: {"rke2-server", "rke2-controller"},
		distro.K3s: {"k3s-server", "k3s-controller"}}
	both := []string{
		"admin", "api-server", "auth-proxy", "cloud-controller", "controller-manager", "etcd", "kube-proxy", "kubelet",
		"scheduler", "supervisor",
	}
	for runtime, other := range map[distro.Runtime]distro.Runtime{distro.RKE2: distro.K3s, distro.K3s: distro.RKE2} {
		if got := render.UnknownServices(runtime, append(own[runtime], both...)); len(got) > 0 {
			t.Errorf("%s does not know %v", runtime, got)
		}
		want := append(slices.Clone(own[other]), "kubelt")
		if diff := cmp.Diff(want, render.UnknownServices(runtime, append(slices.Clone(want), "etcd"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", runtime, diff)
		}
	}
}

func credential(in *render.Input) {
	in.Objects.Secrets[types.NamespacedName{Namespace: "fleet-default", Name: "cc"}] = render.Secret{
		Data: map[string][]byte{
			"s3credentialConfig-accessKey": []byte("AK"), "s3credentialConfig-secretKey": []byte("S3CR3T"),
			"s3credentialConfig-defaultRegion": []byte("r"),
		}}
}

// TestOperations_SecretsStayOutOfArguments checks that only files and the environment of the restore contain secrets.
func TestOperations_SecretsStayOutOfArguments(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.RKE2, "init", credential)
	in.Tokens = render.Tokens{Server: "S3CR3T", Agent: "S3CR3T"}
	p, err := render.Versions{}.RestorePlan(in,
		render.Source{File: "f", S3: &rkev1.ETCDSnapshotS3{Bucket: "b", CloudCredentialName: "cc"}}, "1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Instructions {
		p.Instructions[i].Env = nil
	}
	p.Files = nil
	text, err := json.Marshal(p)
	if err != nil || strings.Contains(string(text), "S3CR3T") {
		t.Errorf("a secret is visible (%v): %s", err, text)
	}
}

func TestRotationStage(t *testing.T) {
	t.Parallel()
	const output = "noise\nAttempt: 2\nEncryption Status: Enabled\nCurrent Rotation Stage: prepare\nServer " +
		"Encryption Hashes: All hashes match\n"
	for attempt, want := range map[string]string{"2": "prepare", "1": "", "": ""} {
		if got := render.RotationStage(output, attempt); got != want {
			t.Errorf("stage of attempt %q is %q, want %q", attempt, got, want)
		}
	}
	if got := render.RotationStage("Current Rotation Stage: prepare\n", "1"); got != "" {
		t.Errorf("output without an attempt has stage %q", got)
	}
}

// fakes is a directory of programs that precede all others in PATH. Sleeping takes no time.
func fakes(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	programs["sleep"] = "exit 0"
	for name, body := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// script writes a file of a work to disk and runs it.
func script(t *testing.T, work render.Work, name, dir string, env []string, args ...string) (code int, output string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	i := slices.IndexFunc(work.Files, func(f plan.File) bool { return strings.HasSuffix(f.Path, "/"+name) })
	if err := os.WriteFile(path, []byte(contentAt(t, plan.NodePlan{Files: work.Files}, work.Files[i].Path)),
		0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{path}, args...)...)
	cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "DIR=" + dir}, env...)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestScripts_GiveUpInTheEnd(t *testing.T) {
	t.Parallel()
	node := render.NodeOf(basicInput(distro.RKE2, "server"))
	dir := fakes(t, map[string]string{"rke2": "echo no; exit 1", "kubectl": "exit 1"})
	kubectl := []string{"KUBECTL=kubectl", "KUBECONFIG=/x"}
	for name, run := range map[string]func() (int, string){
		"wait_for_pod_list": func() (int, string) {
			return script(t, node.PodCleanupWork([]string{"u"}, nil, "1"), "wait_for_pod_list.sh", dir, nil, "false")
		},
		"wait_for_ready": func() (int, string) {
			return script(t, node.PodCleanupWork([]string{"u"}, nil, "1"), "wait_for_ready.sh", dir, kubectl, "u")
		},
		"wait_for_systemctl_status": func() (int, string) {
			return script(t, node.RestartForKeysWork(render.Roles{}, "p", "", "1"), "wait_for_systemctl_status.sh", dir,
				nil, "false")
		},
		"secrets_encrypt_status": func() (int, string) {
			return script(t, node.SecretsEncryptWork("prepare", nil, "1"), "secrets_encrypt_status.sh", dir, nil,
				"rke2", "1")
		},
	} {
		if code, out := run(); code != 1 {
			t.Errorf("%s exits with %d: %s", name, code, out)
		}
	}
}

func TestScripts_SecretsEncrypt(t *testing.T) {
	t.Parallel()
	node := render.NodeOf(basicInput(distro.RKE2, "server"))
	dir := fakes(t,
		map[string]string{
			"rke2": `echo "$@" >>$DIR/calls; [ "$2" = status ] && echo "Current Rotation Stage: $(cat $DIR/stage)" || echo prepare >$DIR/stage`})
	stage := func(s string) {
		if err := os.WriteFile(filepath.Join(dir, "stage"), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work := node.SecretsEncryptWork("prepare", []string{"prepare"}, "1")
	stage("start")
	for range 2 {
		if code, out := script(t, work, "secrets_encrypt_step.sh", dir, nil, "rke2", "prepare", "prepare"); code != 0 {
			t.Fatalf("the step exits with %d: %s", code, out)
		}
	}
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if got := strings.Count(string(calls), "secrets-encrypt prepare"); got != 1 {
		t.Errorf("a finished step runs again: %s", calls)
	}
	code, out := script(t, work, "secrets_encrypt_status.sh", dir, nil, "rke2", "7", "prepare")
	if code != 0 || render.RotationStage(out, "7") != "prepare" {
		t.Errorf("status exits with %d: %s", code, out)
	}
	if code, _ := script(t, work, "secrets_encrypt_status.sh", dir, nil, "rke2", "7", "rotate"); code != 1 {
		t.Error("a follower at another stage must fail")
	}
}

func TestScripts_CleanUpNodes(t *testing.T) {
	t.Parallel()
	node := render.NodeOf(basicInput(distro.RKE2, "server"))
	work := node.NodeCleanupWork([]string{"uid-1", "uid-2"}, []string{"renamed"}, "1")
	dir := fakes(t, map[string]string{"kubectl": `case "$2" in
get) printf 'a uid=uid-1\nb uid=uid-2\nold uid=uid-9\nrenamed uid=uid-8\nforeign uid=\n';;
delete) echo "$4" >>$DIR/deleted;;
esac`})
	lists := make([]string, 2)
	for i, part := range []string{"/machine-ids-", "/node-names-"} {
		at := slices.IndexFunc(work.Files, func(f plan.File) bool { return strings.Contains(f.Path, part) })
		lists[i] = filepath.Join(dir, filepath.Base(work.Files[at].Path))
		if err := os.WriteFile(lists[i], []byte(contentAt(t, plan.NodePlan{Files: work.Files}, work.Files[at].Path)),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"KUBECTL=kubectl"}
	if code, out := script(t, work, "clean_up_nodes.sh", dir, env, lists...); code != 0 {
		t.Fatalf("exits with %d: %s", code, out)
	}
	deleted, _ := os.ReadFile(filepath.Join(dir, "deleted"))
	if diff := cmp.Diff("old\nforeign\n", string(deleted)); diff != "" {
		t.Errorf("deleted nodes (-want +got):\n%s", diff)
	}
	if code, _ := script(t, work, "clean_up_nodes.sh", dir, env, lists...); code != 1 {
		t.Error("without a list no node may be deleted")
	}
}

func TestScripts_WaitForReady(t *testing.T) {
	t.Parallel()
	node := render.NodeOf(basicInput(distro.K3s, "server"))
	const countCalls = "n=$(cat $DIR/n 2>/dev/null || echo 0); echo $((n + 1)) >$DIR/n\n"
	for name, tc := range map[string]struct {
		kubectl  string
		possible []string
		want     string
	}{
		"the other node is gone": {
			`[ "$n" -gt 2 ] && printf 'u1 True\nu2 False\n' || printf 'u1 False\nu2 True\n'`, nil, "5"},
		"the other node is gone later": {
			`[ "$n" -gt 2 ] && printf 'u1 True\nu2 False\n' || printf 'u1 True\nu2 True\n'`, nil, "4"},
		"the other node is never gone":     {`printf 'u1 True\nu2 True\n'`, nil, "61"},
		"a running machine with a node":    {`printf 'u1 True\ne1 True\n'`, []string{"e1"}, "2"},
		"a running machine without a node": {`printf 'u1 True\n'`, []string{"e1"}, "2"},
		"a running machine and a removed machine": {
			`[ "$n" -gt 2 ] && printf 'u1 True\ne1 True\n' || printf 'u1 True\nu2 True\ne1 True\n'`, []string{"e1"},
			"4"},
		"the API server does not answer once": {`[ "$n" -ne 1 ] && printf 'u1 True\n'`, nil, "3"},
		"nodes without a machine are ignored": {`printf 'u1 True\n True\n'`, nil, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fakes(t, map[string]string{"k3s": `[ "$1" = kubectl ] || exit 1` + "\n" + countCalls + tc.kubectl})
			work := node.PodCleanupWork([]string{"u1"}, tc.possible, "1")
			at := slices.IndexFunc(work.Instructions, func(i plan.OneTimeInstruction) bool {
				return strings.Contains(i.Name, "wait-for-desired-ready-nodes")
			})
			env := work.Instructions[at].Env
			if code, out := script(t, work, "wait_for_ready.sh", dir, env, "u1"); code != 0 {
				t.Errorf("exits with %d: %s", code, out)
			}
			if asked, _ := os.ReadFile(filepath.Join(dir, "n")); strings.TrimSpace(string(asked)) != tc.want {
				t.Errorf("%s requests, want %s", strings.TrimSpace(string(asked)), tc.want)
			}
		})
	}
}
