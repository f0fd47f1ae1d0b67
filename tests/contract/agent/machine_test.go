package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
)

func TestMain(m *testing.M) {
	// The tests mostly wait, so many can run in parallel.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(plane.Main(m, plane.Options{
		WithoutCRDs: true, Components: []string{managementplane.ControllerManager},
		Controllers: []string{"serviceaccount-token-controller"},
	}))
}

const (
	agentBin   = "AGENT_BIN"
	secretName = "machine-plan"
	secretType = "rke.cattle.io/machine-plan"
	// soon is the time limit for immediate actions of an agent.
	soon = 20 * time.Second
)

// ours reports whether the agent under test is Drover's.
func ours() bool { return os.Getenv(agentBin) == "" }

// program returns the path of the agent under test, with its name on a node.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv(agentBin)
	if path == "" {
		var err error
		if path, err = plane.Binary("drover"); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "rancher-system-agent")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// machine is a node with an agent. It has a directory instead of a disk, and restarts the agent as systemd does.
type machine struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
	dir       string
	program   string
	token     string
	log       *safeBuffer

	mu      sync.Mutex
	cmd     *exec.Cmd
	exits   int
	stopped bool
	done    chan struct{}
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newMachine creates an empty plan Secret, its account, and the files of the install script. It does not start the
// agent.
func newMachine(t *testing.T) *machine {
	t.Helper()
	config := plane.Config(t, "agent-suite")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, client: client, namespace: plane.Namespace(t), dir: t.TempDir(), program: program(t),
		log: &safeBuffer{}}
	installPolicy(t)
	m.token = m.makeAccount()
	m.makeFiles()
	m.writeConnection(config.Host, config.CAData, m.token)
	t.Cleanup(func() {
		m.stop(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("log of the agent:\n%s", m.log)
			t.Logf("plan secret: %s", m.describe())
		}
	})
	return m
}

func (m *machine) makeAccount() (token string) {
	m.t.Helper()
	meta := metav1.ObjectMeta{Namespace: m.namespace, Name: secretName}
	ctx := m.t.Context()
	_, err := m.client.CoreV1().ServiceAccounts(m.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{})
	m.must(err)
	_, err = m.client.RbacV1().Roles(m.namespace).Create(ctx,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secretName},
			Verbs: []string{"get", "list", "watch", "update"},
		}}}, metav1.CreateOptions{})
	m.must(err)
	_, err = m.client.RbacV1().RoleBindings(m.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: secretName},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: m.namespace, Name: secretName}},
	}, metav1.CreateOptions{})
	m.must(err)
	_, err = m.client.CoreV1().Secrets(m.namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, Type: secretType},
		metav1.CreateOptions{})
	m.must(err)
	request, err := m.client.CoreV1().ServiceAccounts(m.namespace).CreateToken(ctx, secretName,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	m.must(err)
	return request.Status.Token
}

func (m *machine) makeFiles() {
	m.t.Helper()
	for _, sub := range []string{"interlock", "images", "plans", "applied"} {
		m.must(os.Mkdir(filepath.Join(m.dir, sub), 0o700))
	}
	config := fmt.Sprintf(
		"workDirectory: %[1]s/work\nappliedPlanDirectory: %[1]s/applied\nlocalPlanDirectory: "+
			"%[1]s/plans\nlocalEnabled: false\nremoteEnabled: true\n"+
			"connectionInfoFile: %[1]s/connection.json\ninterlockDirectory: %[1]s/interlock\npreserveWorkDirectory: "+
			"false\nimagesDirectory: %[1]s/images\nagentRegistriesFile: %[1]s/registries.yaml\n", m.dir)
	m.must(os.WriteFile(filepath.Join(m.dir, "config.yaml"), []byte(config), 0o600))
}

func (m *machine) writeConnection(server string, ca []byte, token string) {
	m.t.Helper()
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"agent": {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"agent": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"agent": {Cluster: "agent", AuthInfo: "agent"}},
		CurrentContext: "agent",
	})
	m.must(err)
	data, err := json.Marshal(map[string]string{"kubeConfig": string(kubeconfig), "namespace": m.namespace,
		"secretName": secretName})
	m.must(err)
	m.must(os.WriteFile(filepath.Join(m.dir, "connection.json"), data, 0o600))
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// start runs the agent, and restarts it whenever it ends, as systemd does.
func (m *machine) start() {
	m.t.Helper()
	m.mu.Lock()
	m.stopped, m.done = false, make(chan struct{})
	m.mu.Unlock()
	m.must(m.launch())
	go func() {
		defer close(m.done)
		for {
			m.mu.Lock()
			cmd := m.cmd
			m.mu.Unlock()
			_ = cmd.Wait() // only its end matters
			m.mu.Lock()
			stopped := m.stopped
			m.exits++
			m.mu.Unlock()
			if stopped || m.launch() != nil {
				return
			}
		}
	}()
}

func (m *machine) launch() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return errors.New("stopped")
	}
	cmd := exec.Command(m.program, "sentinel")
	cmd.Env = append(os.Environ(), "CATTLE_AGENT_CONFIG="+filepath.Join(m.dir, "config.yaml"), "CATTLE_LOGLEVEL=debug",
		"CATTLE_AGENT_STRICT_VERIFY=true")
	cmd.Stdout, cmd.Stderr = m.log, m.log
	// The agent has a process group, as a unit has a control group, so that a test leaves no process behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.cmd = cmd
	return cmd.Start()
}

// stop ends the agent with a signal and waits for it. It does nothing if the agent was not started.
func (m *machine) stop(signal syscall.Signal) {
	m.mu.Lock()
	cmd, done, stopped := m.cmd, m.done, m.stopped
	m.stopped = true
	m.mu.Unlock()
	if cmd == nil || stopped {
		return
	}
	_ = cmd.Process.Signal(signal) // it may have ended by itself
	select {
	case <-done:
	case <-time.After(soon):
		_ = cmd.Process.Kill()
		m.t.Errorf("the agent did not end after %v", signal)
		<-done
	}
}

// ended returns how often the agent ended by itself.
func (m *machine) ended() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.exits
}

func (m *machine) secret() *corev1.Secret {
	m.t.Helper()
	secret, err := m.client.CoreV1().Secrets(m.namespace).Get(context.Background(), secretName, metav1.GetOptions{})
	m.must(err)
	return secret
}

func (m *machine) describe() string {
	secret, err := m.client.CoreV1().Secrets(m.namespace).Get(context.Background(), secretName, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for key, value := range secret.Data {
		if bytes.HasPrefix(value, []byte{0x1f, 0x8b}) {
			output, err := nodeplan.DecodeOutput(key, value)
			fmt.Fprintf(&b, "\n%s (compressed): %q %v", key, output, err)
			continue
		}
		fmt.Fprintf(&b, "\n%s: %q", key, value)
	}
	return b.String()
}

// state reads the Secret as the server does.
func (m *machine) state() nodeplan.State {
	m.t.Helper()
	state, err := nodeplan.Parse(m.namespace, m.secret().Data)
	m.must(err)
	return state
}

// patch changes data keys and annotations of the Secret without checking its version, like a careless server.
func (m *machine) patch(body map[string]any) {
	m.t.Helper()
	data, err := json.Marshal(body)
	m.must(err)
	_, err = m.client.CoreV1().Secrets(m.namespace).Patch(m.t.Context(), secretName, types.MergePatchType, data,
		metav1.PatchOptions{})
	m.must(err)
}

// deliver writes a plan as the server does, with additional data keys as texts. An empty text deletes the key.
func (m *machine) deliver(p plan.NodePlan, pairs ...string) {
	m.t.Helper()
	raw, err := nodeplan.Encode(p)
	m.must(err)
	m.deliverRaw(raw, pairs...)
}

func (m *machine) deliverRaw(raw []byte, pairs ...string) {
	m.t.Helper()
	data := map[string]any{nodeplan.KeyPlan: raw, nodeplan.KeyProbeStatuses: nil}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = []byte(pairs[i+1])
	}
	m.patch(map[string]any{"data": data})
}

// await waits until the Secret has the wanted state.
func (m *machine) await(what string, within time.Duration, done func(nodeplan.State) bool) nodeplan.State {
	m.t.Helper()
	deadline := time.Now().Add(within)
	for {
		state := m.state()
		if done(state) {
			return state
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("waited %v for: %s", within, what)
		}
		m.pause(50 * time.Millisecond)
	}
}

func (m *machine) awaitApplied() nodeplan.State {
	m.t.Helper()
	return m.await("the plan is applied", soon, func(s nodeplan.State) bool { return s.AppliedChecksum == s.Checksum })
}

func (m *machine) awaitFile(name string) string {
	m.t.Helper()
	deadline := time.Now().Add(soon)
	for {
		if data, err := os.ReadFile(m.path(name)); err == nil {
			return string(data)
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("waited for the file %s", name)
		}
		m.pause(20 * time.Millisecond)
	}
}

// never fails if something happens within a time in which it would normally happen.
func (m *machine) never(what string, within time.Duration, happened func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); m.pause(100 * time.Millisecond) {
		if happened() {
			m.t.Fatalf("this must not happen: %s", what)
		}
	}
}

func (m *machine) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.t.Context().Done():
	}
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// lines counts the lines of a file in which instructions count their runs.
func (m *machine) lines(name string) int {
	data, err := os.ReadFile(m.path(name))
	if err != nil {
		return 0
	}
	return bytes.Count(data, []byte("\n"))
}

// shell returns an instruction that runs a script. $M is the machine's directory.
func (m *machine) shell(name, script string) plan.OneTimeInstruction {
	return plan.OneTimeInstruction{SaveOutput: true, CommonInstruction: plan.CommonInstruction{
		Name: name, Command: "sh", Args: []string{"-c", script}, Env: []string{"M=" + m.dir},
	}}
}

func (m *machine) run(name, script string) plan.NodePlan {
	return plan.NodePlan{Instructions: []plan.OneTimeInstruction{m.shell(name, script)}}
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// alive reports whether a process runs. A zombie does not.
func alive(pid string) bool {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !bytes.Contains(data, []byte(") Z "))
}
