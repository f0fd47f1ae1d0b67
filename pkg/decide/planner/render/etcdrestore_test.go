package render_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// TestRestorePlan_FindsTheFileFirst checks that a plan with a wrong file name fails before it touches the machine's
// data.
func TestRestorePlan_FindsTheFileFirst(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.K3s, "init")
	data := t.TempDir()
	in.ControlPlane.Spec.DataDirectories.K8sDistro = data
	p, err := render.Versions{}.RestorePlan(in, render.Source{File: "it's $(touch here)"}, "1")
	if err != nil {
		t.Fatal(err)
	}
	find := p.Instructions[0]
	run := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), find.Command, find.Args...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	file := filepath.Join(data, "server/db/snapshots/it's $(touch here)")
	if out, err := run(); err == nil || !strings.Contains(out, "snapshot "+file+" is not on this machine") {
		t.Errorf("without the file: %v, %s", err, out)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err != nil {
		t.Errorf("with the file: %v, %s", err, out)
	}
}

func TestRestorePlan(t *testing.T) {
	t.Parallel()
	const clean = "etcd-restore/clean-etcd-dir"
	for name, tc := range map[string]struct {
		runtime  distro.Runtime
		folder   string
		s3       *rkev1.ETCDSnapshotS3
		current  *rkev1.ETCDSnapshotS3
		want     []string
		wantArgs string
		wantEnv  []string
		wantErr  string
	}{
		"a local file on RKE2": {
			runtime: distro.RKE2,
			want: []string{"find-snapshot", "etcd-restore/restore-kill-all", "etcd-restore/restore-manifest-removal",
				"install", clean, "etcd-restore/restore"},
			wantArgs: "3000 rke2 server --cluster-reset --etcd-arg=advertise-client-urls=https://localhost:2379 " +
				"--etcd-disable-snapshots=false " +
				"--cluster-reset-restore-path=db/snapshots/snap --etcd-s3=false",
		},
		"a local file in another folder": {
			runtime: distro.K3s, folder: "/mnt/backups",
			want: []string{"find-snapshot", "etcd-restore/restore-kill-all", "install", clean, "etcd-restore/restore"},
			wantArgs: "3000 k3s server --cluster-reset --etcd-arg=advertise-client-urls=https://localhost:2379 " +
				"--etcd-disable-snapshots=false " +
				"--cluster-reset-restore-path=/mnt/backups/snap --etcd-s3=false",
		},
		"a local file in the usual folder": {
			runtime: distro.K3s, folder: "/var/lib/rancher/k3s/server/db/snapshots",
			want: []string{"find-snapshot", "etcd-restore/restore-kill-all", "install", clean, "etcd-restore/restore"},
			wantArgs: "3000 k3s server --cluster-reset --etcd-arg=advertise-client-urls=https://localhost:2379 " +
				"--etcd-disable-snapshots=false " +
				"--cluster-reset-restore-path=db/snapshots/snap --etcd-s3=false",
		},
		"S3 on K3s, with the credential of the cluster": {
			runtime: distro.K3s, s3: &rkev1.ETCDSnapshotS3{Bucket: "b", Folder: "f", Retention: 7},
			current: &rkev1.ETCDSnapshotS3{CloudCredentialName: "cc", Bucket: "other"},
			want:    []string{"etcd-restore/restore-kill-all", "install", clean, "etcd-restore/restore"},
			wantArgs: "3000 k3s server --cluster-reset --etcd-arg=advertise-client-urls=https://localhost:2379 " +
				"--etcd-disable-snapshots=false " +
				"--cluster-reset-restore-path=snap --etcd-s3-bucket=b --etcd-s3-access-key=AK --etcd-s3-region=r " +
				"--etcd-s3-folder=f --etcd-s3",
			wantEnv: []string{"AWS_SECRET_ACCESS_KEY=S3CR3T"},
		},
		"S3 with an authority that is on the node": {
			runtime: distro.K3s, s3: &rkev1.ETCDSnapshotS3{Endpoint: "e", EndpointCA: "/etc/ca.crt"},
			want: []string{"etcd-restore/restore-kill-all", "install", clean, "etcd-restore/restore"},
			wantArgs: "3000 k3s server --cluster-reset --etcd-arg=advertise-client-urls=https://localhost:2379 " +
				"--etcd-disable-snapshots=false " +
				"--cluster-reset-restore-path=snap --etcd-s3-endpoint=e --etcd-s3 --etcd-s3-endpoint-ca=/etc/ca.crt",
		},
		"S3 without any settings": {runtime: distro.K3s, s3: &rkev1.ETCDSnapshotS3{}, wantErr: "has no S3 storage"},
		"a missing credential": {
			runtime: distro.K3s, s3: &rkev1.ETCDSnapshotS3{Bucket: "b", CloudCredentialName: "lost"}, wantErr: "lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := basicInput(tc.runtime, "init", credential)
			if tc.current != nil {
				in.ControlPlane.Spec.ETCD = &rkev1.ETCD{S3: tc.current, SnapshotRetention: 3}
			}
			got, err := render.Versions{}.RestorePlan(in, render.Source{File: "snap", Folder: tc.folder, S3: tc.s3},
				"1")
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names(got.Instructions)); diff != "" {
				t.Errorf("instructions (-want +got):\n%s", diff)
			}
			restore := got.Instructions[len(got.Instructions)-1]
			if diff := cmp.Diff(tc.wantArgs, strings.Join(restore.Args[7:], " ")); diff != "" {
				t.Errorf("arguments of the restore (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantEnv, restore.Env); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			for key := range configOf(t, got, tc.runtime) {
				if strings.HasPrefix(key, "etcd-s3") {
					t.Errorf("key %s would set the target of the restore", key)
				}
			}
			install := got.Instructions[slices.IndexFunc(got.Instructions, func(i plan.OneTimeInstruction) bool {
				return i.Name == "install"
			})]
			if install.Image == "" || !slices.Contains(install.Env, "INSTALL_"+tc.runtime.EnvPrefix()+
				"_SKIP_START=true") || render.StampsOf(got) != (render.Stamps{}) {
				t.Errorf("the installation must start nothing: %+v", install)
			}
			if len(got.Probes) > 0 || render.SameInstallation(got, mustPlan(t, in)) {
				t.Error("no instruction may follow the restore")
			}
		})
	}
}
