package managementplane_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/audit"
)

// helperDir makes the test program a parent that runs a plane in that directory until it is killed.
const helperDir = "MANAGEMENTPLANE_HELPER_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(helperDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	plane, err := managementplane.New(managementplane.Config{Dir: dir, KubeBinary: os.Getenv("HELPER_KUBE")})
	if err == nil {
		err = plane.Start(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "ready", plane.PID("etcd"), plane.PID("kube-apiserver"))
	<-time.After(time.Hour)
}

func TestServesItsVersion(t *testing.T) {
	t.Parallel()
	plane := start(t, configIn(t, t.TempDir()))
	version, err := client(t, plane).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != "v1.36.3" || version.Minor != "36" {
		t.Errorf("the API server has version %+v, want v1.36.3", version)
	}
	info, err := os.Stat(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig has mode %v, want 0600", info.Mode())
	}
	out, err := exec.CommandContext(t.Context(), kubeBinary(t), "kubectl", "--kubeconfig", plane.Kubeconfig(), "get",
		"namespace", "default", "-o", "name").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "namespace/default" {
		t.Errorf("kubectl prints %q, %v", out, err)
	}
}

func TestRestartKeepsObjectsAndAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, configIn(t, dir))
	host := first.RESTConfig().Host
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"},
		Data: map[string]string{"k": "v"}}
	before, err := client(t, first).CoreV1().ConfigMaps("default").Create(t.Context(), configMap,
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.Stop()

	second := start(t, configIn(t, dir))
	after, err := client(t, second).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the object came back as %s/%s, was %s/%s", after.UID, after.ResourceVersion, before.UID,
			before.ResourceVersion)
	}
	if got := second.RESTConfig().Host; got != host {
		t.Errorf("the restarted plane is at %s, was at %s", got, host)
	}
}

func TestKilledChildComesBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plane := start(t, configIn(t, t.TempDir()))
			c := client(t, plane)
			old := plane.PID(name)
			if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a new "+name+" takes a write", func() error {
				if pid := plane.PID(name); pid == 0 || pid == old {
					return errors.New("not restarted yet")
				}
				return writeOne(t.Context(), c)
			})
		})
	}
}

func writeOne(ctx context.Context, c kubernetes.Interface) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "written-", Namespace: "default"}}
	_, err := c.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
	return err
}

// After a kill of the parent, the next run must end its children before it uses their data.
func TestChildrenOfKilledRunAreEndedAndNothingIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), helperDir+"="+dir, "HELPER_KUBE="+kubeBinary(t))
	parent.Stderr = t.Output()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) != 3 {
		t.Fatalf("the parent printed %q, %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for _, field := range fields[1:] {
		if pid, _ := strconv.Atoi(field); syscall.Kill(pid, 0) != nil {
			t.Fatalf("process %s should have outlived its parent", field)
		}
	}

	plane := start(t, configIn(t, dir))
	for _, field := range fields[1:] {
		if pid, _ := strconv.Atoi(field); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			t.Errorf("process %s of the killed run still runs", field)
		}
	}
	if err := writeOne(t.Context(), client(t, plane)); err != nil {
		t.Error(err)
	}
}

func TestStartFailsClearly(t *testing.T) {
	t.Parallel()
	t.Run("port in use", func(t *testing.T) {
		t.Parallel()
		taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		config := configIn(t, t.TempDir())
		config.Ports.APIServer = taken.Addr().(*net.TCPAddr).Port
		plane, err := managementplane.New(config)
		if err != nil {
			t.Fatal(err)
		}
		err = plane.Start(t.Context())
		for _, want := range []string{"start kube-apiserver", "address already in use", "kube-apiserver.log"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v does not contain %q", err, want)
			}
		}
	})
	t.Run("data directory in use", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		start(t, configIn(t, dir))
		second, err := managementplane.New(configIn(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
			t.Errorf("error %v does not name the process that uses the directory", err)
		}
	})
	t.Run("program fails", func(t *testing.T) {
		t.Parallel()
		config := configIn(t, t.TempDir())
		config.KubeBinary = filepath.Join(t.TempDir(), "broken")
		if err := os.WriteFile(config.KubeBinary, []byte("#!/bin/sh\necho cannot find the stars >&2\nexit 7\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
		plane, err := managementplane.New(config)
		if err != nil {
			t.Fatal(err)
		}
		err = plane.Start(t.Context())
		for _, want := range []string{"start etcd", "exit status 7", "cannot find the stars"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v does not contain %q", err, want)
			}
		}
	})
}

func TestAuditLogCountsWritesByUserAgent(t *testing.T) {
	t.Parallel()
	config := configIn(t, t.TempDir())
	config.AuditLog = true
	plane := start(t, config)
	restConfig := plane.RESTConfig()
	restConfig.UserAgent = "counted/v7 (test)"
	c, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := c.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"},
		StringData: map[string]string{"password": "never-in-a-log"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Labels = map[string]string{"a": "b"}
	if _, err := c.CoreV1().Secrets("default").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Secrets("default").Delete(t.Context(), "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three writes in the log", func() error {
		writes, err := audit.ReadWrites(plane.AuditLog())
		if err != nil {
			return err
		}
		if got := audit.CountByAgent(writes)["counted"]; got != 3 {
			return fmt.Errorf("%d writes", got)
		}
		return nil
	})
	content, err := os.ReadFile(plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "never-in-a-log") {
		t.Error("the audit log has contents of a Secret")
	}
}

func TestControllersRun(t *testing.T) {
	t.Parallel()
	config := configIn(t, t.TempDir())
	config.Components = []string{managementplane.ControllerManager, managementplane.Scheduler}
	c := client(t, start(t, config))
	owner, err := c.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
	}}}
	if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().ConfigMaps("default").Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the garbage collector deletes the owner's objects", func() error {
		_, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), "owned", metav1.GetOptions{})
		if err == nil {
			return errors.New("still exists")
		}
		return nil
	})
}
