package cmd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/sshserver"
)

// machineState is a state as rancher-machine stores it, for a host with this address.
func machineState(t *testing.T, s *sshserver.Server, address string) []byte {
	t.Helper()
	config, err := json.Marshal(map[string]any{"DriverName": "pod", "Driver": map[string]any{
		"IPAddress": address, "SSHUser": s.User, "SSHPort": s.Address.Port,
		"SSHKeyPath": "/home/machine/.docker/machine/machines/m/id_rsa",
	}})
	check(t, err)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for name, content := range map[string][]byte{"config.json": config, "id_rsa": s.Key} {
		check(t, archive.WriteHeader(&tar.Header{Name: "/home/machine/.docker/machine/machines/m/" + name,
			Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content))}))
		_, err := archive.Write(content)
		check(t, err)
	}
	check(t, archive.Close())
	check(t, zipped.Close())
	return packed.Bytes()
}

func secretOf(name, key string, value []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: name},
		Data:       map[string][]byte{key: value},
	}
}

// withHosts adds Machines whose host is the server: good; stock, whose agent reports no keys; wrong, whose agent
// reported other keys; moved, whose address is only in the Machine; and others without a host.
func withHosts(t *testing.T, s *sshserver.Server) *memkube.Server {
	t.Helper()
	api := management(t)
	ip := s.Address.IP.String()
	keys := map[string][]byte{"good": sshserver.Lines(s.Hosts...), "stock": nil,
		"wrong": sshserver.Lines(sshserver.HostKey(t, "ed25519")), "moved": sshserver.Lines(s.Hosts...), "bare": nil,
		"young": nil, "custom": nil}
	for name, reported := range keys {
		machine := build.Machine("logged", name, "w", build.WithNode(name+"-node"))
		objects := []runtime.Object{machine}
		state := secretOf(name+"-machine-state", rkev1.MachineStateKey, machineState(t, s, ip))
		switch name {
		case "moved":
			state.Data[rkev1.MachineStateKey] = machineState(t, s, "")
			machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: ip},
				{Type: clusterv1.MachineHostName, Address: "elsewhere"}}
		case "young":
			state.Data = nil
		case "custom":
			machine.Spec.InfrastructureRef.APIGroup = "rke.cattle.io"
			machine.Spec.InfrastructureRef.Kind = "CustomMachine"
		}
		if name != "bare" && name != "custom" {
			objects = append(objects, state, secretOf(name+"-machine-plan", nodeplan.KeySSHHostKeys, reported))
		}
		for _, object := range objects {
			check(t, api.Add(object))
		}
	}
	return api
}

// sshTo runs drover ssh.
func sshTo(t *testing.T, api *memkube.Server, environ []string, in string, args ...string) (code int, out,
	problems string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := NewCommand(environ)
	for _, cmd := range root.Commands() {
		if cmd.Name() == "ssh" {
			root.RemoveCommand(cmd)
		}
	}
	o := &sshOptions{inspectOptions: inspectOptions{config: api.Config("looker")}}
	o.dial = (&net.Dialer{}).DialContext
	root.AddCommand(newSSHCommand(environ, o))
	root.SetIn(strings.NewReader(in))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = execute(t.Context(), root, args)
	return code, stdout.String(), stderr.String()
}

func TestSSH_Commands(t *testing.T) {
	s := sshserver.New(t, "rsa", "ed25519")
	api := withHosts(t, s)
	for name, tc := range map[string]struct {
		args      []string
		in        string
		code      int
		out, fail string
	}{
		"a command":          {args: []string{"good", "--", "both"}, out: "out", fail: "err"},
		"its exit code":      {args: []string{"good", "--", "7"}, code: 7},
		"a signal":           {args: []string{"good", "--", "killed"}, code: 137},
		"a shell":            {args: []string{"good"}, in: "typed", out: "typed"},
		"with a prefix":      {args: []string{"machine/good", "--", "0"}},
		"a node":             {args: []string{"logged/good-node", "--", "0"}},
		"an unknown node":    {args: []string{"logged/other"}, code: 255, fail: "no Machine of cluster logged"},
		"without a terminal": {args: []string{"good", "-t", "--", "0"}, fail: "gets no terminal"},
		"an address":         {args: []string{"good", "--address", "127.0.0.1", "--", "0"}},
		"a wrong port": {
			args: []string{"good", "-p", "1", "--", "0"}, code: 255, fail: "connect to 127.0.0.1:1",
		},
		"another user":          {args: []string{"good", "-l", "core"}, code: 255, fail: " as core: "},
		"the Machine's address": {args: []string{"moved", "--", "0"}},
		"an agent without keys": {args: []string{"stock"}, code: 255,
			fail: "machine stock: the node agent has not reported the SSH keys"},
		"an agent without keys, not verified": {args: []string{"stock", "--insecure-skip-host-key-check", "--", "0"},
			fail: "Warning: The host at " + s.Address.String() + " is not verified"},
		"another host":         {args: []string{"wrong", "--", "0"}, code: 255, fail: "another host answers"},
		"no state":             {args: []string{"bare"}, code: 255, fail: "bare-machine-state, which has the SSH key"},
		"no host yet":          {args: []string{"young"}, code: 255, fail: "the driver has created no host yet"},
		"a host of a user":     {args: []string{"custom"}, code: 255, fail: "no SSH key of the Machine"},
		"no machine":           {args: []string{"absent"}, code: 255, fail: "there is no Machine absent in namespace"},
		"no name":              {code: 1, fail: "MACHINE is missing"},
		"no name of a machine": {args: []string{"--", "ls"}, code: 1, fail: "MACHINE is missing"},
		"a command without --": {args: []string{"good", "ls"}, code: 1,
			fail: `unexpected argument "ls"; write -- before a command`},
		"the end before the command": {
			args: []string{"good", "--", "cut"}, code: 255, fail: "ended before the command",
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The environment is not allowed to change the connection.
			environ := []string{"DROVER_PORT=1", "DROVER_USER=core", "DROVER_INSECURE_SKIP_HOST_KEY_CHECK=true"}
			code, out, problems := sshTo(t, api, environ, tc.in, append([]string{"ssh"}, tc.args...)...)
			if code != tc.code || out != tc.out || !strings.Contains(problems, tc.fail) ||
				tc.fail == "" && problems != "" {
				t.Errorf("exit code %d, %q, %s", code, out, problems)
			}
			if strings.Contains(problems+out, "PRIVATE KEY") {
				t.Error("the output has the private key")
			}
		})
	}
	code, out, _ := sshTo(t, api, nil, "", "__complete", "ssh", "")
	if code != 0 || !strings.Contains(out, "good\n") || strings.Contains(out, "logged\n") {
		t.Errorf("completion: %s", out)
	}
}
