// Package machine tests the Jobs that create machines with the real programs. machine-entrypoint and rancher-machine
// get the command lines and Secrets that Drover renders, and download a node driver by URL. They run against a real API
// server, with only the rights of the Job's account.
package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/tests/contract/plane"
)

func TestMain(m *testing.M) { os.Exit(plane.Main(m, plane.Options{})) }

// host is where the pods of one machine run, one after the other, with the same home.
type host struct {
	*testing.T
	client     kubernetes.Interface
	input      machinejob.Input
	home       string
	kubeconfig string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newHost creates the objects that Drover creates before the Job.
func newHost(t *testing.T, spec map[string]any) *host {
	t.Helper()
	config := plane.Config(t, "tester")
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	h := &host{T: t, client: client, home: t.TempDir()}
	url, sum := serveDriver(t)
	h.input = machinejob.Input{
		Machine: machinejob.Machine{
			APIVersion: "rke-machine.cattle.io/v1", Kind: "SimMachine", Namespace: plane.Namespace(t), Name: "m1",
			UID: "1", Spec: spec,
		},
		Driver: machinejob.Driver{Name: "sim", URL: url, SHA256: sum,
			Aliases: map[string]string{"userdata": "userdata"}},
		BootstrapSecret: "m1-machine-bootstrap",
		Credential:      map[string][]byte{"simcredentialConfig-token": []byte("top-secret")},
	}
	objects := machinejob.RenderCreate(h.input)
	namespace := h.input.Machine.Namespace
	objects.State.OwnerReferences, objects.ServiceAccount.OwnerReferences = nil, nil
	_, err = client.CoreV1().Secrets(namespace).Create(t.Context(), objects.State, metav1.CreateOptions{})
	must(t, err)
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), objects.ServiceAccount,
		metav1.CreateOptions{})
	must(t, err)
	objects.Role.OwnerReferences, objects.RoleBindings[0].OwnerReferences = nil, nil
	_, err = client.RbacV1().Roles(namespace).Create(t.Context(), objects.Role, metav1.CreateOptions{})
	must(t, err)
	_, err = client.RbacV1().RoleBindings(namespace).Create(t.Context(), objects.RoleBindings[0],
		metav1.CreateOptions{})
	must(t, err)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), objects.ServiceAccount.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	h.kubeconfig = filepath.Join(h.home, "kubeconfig")
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: config.Host,
			CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "x",
	}, h.kubeconfig))
	return h
}

// serveDriver builds the driver of simulated machines and serves it like a vendor.
func serveDriver(t *testing.T) (url, sum string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "docker-machine-driver-sim-linux")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"github.com/drover-io/drover/tests/testbed/cmd/docker-machine-driver-sim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the driver: %v\n%s", err, output)
	}
	content, err := os.ReadFile(program)
	must(t, err)
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(program))))
	t.Cleanup(server.Close)
	digest := sha256.Sum256(content)
	return server.URL + "/" + filepath.Base(program), hex.EncodeToString(digest[:])
}

// pod runs the container of a Job with its command line, environment and mounts, in this host's home.
func (h *host) pod(objects machinejob.Objects) (int, string) {
	h.Helper()
	entrypoint, err := plane.Binary("machine-entrypoint")
	must(h.T, err)
	mounts := filepath.Join(h.home, "mounts")
	must(h.T, os.MkdirAll(mounts, 0o755))
	must(h.T, os.WriteFile(filepath.Join(mounts, "value"), []byte("#!/bin/sh\necho hello\n"), 0o644))
	if objects.Files != nil {
		for name, content := range objects.Files.Data {
			must(h.T, os.WriteFile(filepath.Join(mounts, name), content, 0o644))
		}
	}
	var args []string
	for _, arg := range objects.Job.Spec.Template.Spec.Containers[0].Args {
		arg = strings.ReplaceAll(arg, "/run/secrets/machine/", mounts+"/")
		args = append(args, strings.ReplaceAll(arg, "/path/to/machine/files/", mounts+"/"))
	}
	cmd := exec.CommandContext(h.Context(), entrypoint, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + h.home, "KUBECONFIG=" + h.kubeconfig}
	for name, value := range objects.Env.Data {
		cmd.Env = append(cmd.Env, name+"="+string(value))
	}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), output.String()
	}
	must(h.T, err)
	return 0, output.String()
}

func (h *host) state() (archive []byte, secret *corev1.Secret) {
	h.Helper()
	secret, err := h.client.CoreV1().Secrets(h.input.Machine.Namespace).Get(h.Context(), "m1-machine-state",
		metav1.GetOptions{})
	must(h.T, err)
	return secret.Data[rkev1.MachineStateKey], secret
}

// TestMachineIsCreatedAndRemoved also checks the exit statuses of repeated Jobs, on which Drover's decisions depend.
func TestMachineIsCreatedAndRemoved(t *testing.T) {
	h := newHost(t, map[string]any{"size": "large", "cpuCount": "4", "monitoring": true, "tags": []any{"a=1", "b=2"},
		"userdata": "#cloud-config\nusers: []\n"})
	if archive, _ := h.state(); len(archive) > 0 {
		t.Fatal("the state is not empty before the creation of the machine")
	}
	code, output := h.pod(machinejob.RenderCreate(h.input))
	archive, secret := h.state()
	if code != 0 || !machinejob.StateHolds(archive) {
		t.Fatalf("create: exit status %d, state holds a machine %v\n%s", code, machinejob.StateHolds(archive), output)
	}
	if secret.Labels[rkev1.BackupLabel] != "true" || secret.Type != rkev1.SecretTypeMachineState {
		t.Errorf("the program has changed the type or labels of its Secret: type %s, labels %v", secret.Type,
			secret.Labels)
	}
	if code, output = h.pod(machinejob.RenderCreate(h.input)); code != 1 ||
		!strings.Contains(output, "already exists") {
		t.Errorf("a second create: exit status %d, want 1: it must not create a second machine\n%s", code, output)
	}
	code, output = h.pod(machinejob.RenderRemove(h.input, 1))
	if archive, _ = h.state(); code != 0 || machinejob.StateHolds(archive) || len(archive) == 0 {
		t.Fatalf("remove: exit status %d, state of %d bytes holds a machine %v\n%s", code, len(archive),
			machinejob.StateHolds(archive), output)
	}
	if code, output = h.pod(machinejob.RenderRemove(h.input, 2)); code != 1 {
		t.Errorf("a second remove: exit status %d, want 1: only the state proves the removal\n%s", code, output)
	}
}

func TestMachineThatCannotBeCreated(t *testing.T) {
	for name, test := range map[string]struct {
		spec      map[string]any
		wantCode  int
		wantText  string
		wantHolds bool
	}{
		"the check before the creation fails: the state is empty": {map[string]any{"cpuCount": "0"}, 3,
			"want at least 1", false},
		"the cloud refuses: the state has the attempt": {map[string]any{"failCreate": "no quota"}, 1, "no quota", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, test.spec)
			code, output := h.pod(machinejob.RenderCreate(h.input))
			if code != test.wantCode || !strings.Contains(output, test.wantText) {
				t.Errorf("exit status %d, want %d with %q\n%s", code, test.wantCode, test.wantText, output)
			}
			archive, _ := h.state()
			if got := machinejob.StateHolds(archive); got != test.wantHolds {
				t.Errorf("state holds a machine %v, want %v", got, test.wantHolds)
			}
			if !test.wantHolds {
				return
			}
			if code, output = h.pod(machinejob.RenderRemove(h.input, 1)); code != 0 {
				t.Errorf("remove: exit status %d\n%s", code, output)
			}
		})
	}
}

// TestChangedDriver: the pod must download the same driver whose flags the server has read.
func TestChangedDriver(t *testing.T) {
	h := newHost(t, nil)
	h.input.Driver.SHA256 = strings.Repeat("0", 64)
	code, output := h.pod(machinejob.RenderCreate(h.input))
	if code != 1 || !strings.Contains(output, "the driver's SHA-256 is") {
		t.Errorf("exit status %d\n%s", code, output)
	}
	if archive, _ := h.state(); len(archive) > 0 {
		t.Error("the state has a machine")
	}
}
