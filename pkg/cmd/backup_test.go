package cmd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// keep runs drover backup or drover restore and returns its exit code and both outputs.
func keep(t *testing.T, api *memkube.Server, in string, args ...string) (code int, out, problems string) {
	t.Helper()
	var stdout, stderr printedBuffer
	root := NewCommand(nil)
	for _, cmd := range root.Commands() {
		if slices.Contains([]string{"backup", "restore"}, cmd.Name()) {
			root.RemoveCommand(cmd)
		}
	}
	o := inspectOptions{config: api.Config("keeper")}
	root.AddCommand(newBackupCommand(nil, &backupOptions{inspectOptions: o}),
		newRestoreCommand(nil, &backupOptions{inspectOptions: o}))
	root.SetIn(strings.NewReader(in))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = execute(context.Background(), root, args)
	return code, stdout.next(), stderr.next()
}

// kept is a Secret that belongs to a backup.
func kept(value string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: "kept",
			Labels: map[string]string{rkev1.BackupLabel: "true"}, UID: types.UID("kept")},
		Data: map[string][]byte{"key": []byte(value)},
	}
}

func TestBackup_WritesOneFileThatRestoreReads(t *testing.T) {
	api := provisioned(t)
	check(t, api.Add(kept("precious")))
	path := filepath.Join(t.TempDir(), "saved.tar.gz")
	code, out, problems := keep(t, api, "", "backup", "--output", path)
	if code != 0 || out != "" || !strings.Contains(problems, path+". It holds credentials in clear text") ||
		strings.Contains(problems, "precious") {
		t.Fatalf("exit code %d\n%s%s", code, out, problems)
	}
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %s", info.Mode())
	}
	before, err := os.ReadFile(path)
	check(t, err)
	if code, _, problems = keep(t, api, "", "backup", "-o", path); code != 1 || !strings.Contains(problems, "exists") {
		t.Errorf("the command overwrites a file: exit code %d, %s", code, problems)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed, error %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("there are %v, error %v", left, err)
	}

	other := memkube.New(memkube.Options{})
	code, out, problems = keep(t, other, "", "restore", "--dry-run", path)
	if code != 0 || !strings.Contains(out, "To create:") || len(other.Writes("drover-restore")) > 0 {
		t.Errorf("dry run: exit code %d, writes %v\n%s%s", code, other.Writes("drover-restore"), out, problems)
	}
	code, out, problems = keep(t, other, "", "restore", path)
	if code != 0 || !strings.Contains(out, "Created:") {
		t.Errorf("exit code %d\n%s%s", code, out, problems)
	}
	secret := kept("")
	if found, err := other.Get(secret); err != nil || !found || string(secret.Data["key"]) != "precious" {
		t.Errorf("the Secret was found %t with %q, error %v", found, secret.Data["key"], err)
	}
	other.ResetLog()
	if code, _, problems = keep(t, other, string(before), "restore", "-"); code != 0 ||
		len(other.Writes("drover-restore")) > 0 {
		t.Errorf("again, from the standard input: exit code %d, writes %v: %s", code, other.Writes("drover-restore"),
			problems)
	}
}

func TestBackup_WritesToStandardOutput(t *testing.T) {
	api := provisioned(t)
	code, out, _ := keep(t, api, "", "backup", "-o", "-")
	other := memkube.New(memkube.Options{})
	if again, _, problems := keep(t, other, out, "restore", "--dry-run", "-"); code != 0 || again != 0 {
		t.Errorf("exit codes %d and %d: %s", code, again, problems)
	}
}

func TestRestore_RefusesWithAnExitCode(t *testing.T) {
	api := provisioned(t)
	check(t, api.Add(kept("precious")))
	_, saved, _ := keep(t, api, "", "backup", "-o", "-")
	taken := memkube.New(memkube.Options{Namespaces: []string{defaultNamespace}})
	check(t, taken.Add(kept("another")))
	for name, c := range map[string]struct {
		in, want string
		args     []string
	}{
		"an existing object differs": {saved, "Secret " + defaultNamespace + "/kept", []string{"restore", "-"}},
		"no such namespace": {saved,
			"--namespace: the backup has no cluster in namespace \"team-b\"; it has no clusters",
			[]string{"restore", "-n", "team-b", "-"}},
		"not a backup":   {"a text", "not a backup of Drover", []string{"restore", "-"}},
		"a missing file": {"", "no such file", []string{"restore", filepath.Join(t.TempDir(), "none")}},
		"two files":      {"", `unexpected argument "b"; see 'drover restore --help'`, []string{"restore", "a", "b"}},
	} {
		code, _, problems := keep(t, taken, c.in, c.args...)
		if code != 1 || !strings.Contains(problems, c.want) || strings.Contains(problems, "precious") {
			t.Errorf("%s: exit code %d: %s", name, code, problems)
		}
	}
	if writes := taken.Writes("drover-restore"); len(writes) > 0 {
		t.Errorf("a refused restore wrote %v", writes)
	}
}
