package outside

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// TestEmbedHost: one host has its own Go types for Drover's kinds in the process-wide scheme of lasso and wrangler, and
// starts Drover next to its own factory. Another host lends Drover its factory.
func TestEmbedHost(t *testing.T) {
	testOutside(t, "embedhost", []string{
		"TestBesideAHostWithTypesOfItsOwn", "TestInAHostsFactory", "TestInAFactoryWithOtherTypes",
	}, "KUBECONFIG="+plane.Kubeconfig(t))
}

// TestFakes drives controllers with wrangler's generated fakes, through their exported API.
func TestFakes(t *testing.T) {
	testOutside(t, "fakes", []string{
		"TestProvisioningCluster", "TestRKECluster", "TestBootstrap", "TestMachineProvision", "TestDynamicSchema",
		"TestPlanner", "TestPlanSecret",
	})
}

// testOutside runs the tests of a module of testdata/ in a directory outside the repository. All of them must run and
// pass.
func testOutside(t *testing.T, module string, want []string, env ...string) {
	t.Helper()
	m := newModule(t, copyModule(t, module))
	m.env = append(m.env, env...)
	out := m.run(t, "go", "test", "-count=1", "-v", "-vet=off", "-timeout=10m", "./...")
	for _, name := range want {
		if !strings.Contains(out, "--- PASS: "+name+" ") {
			t.Errorf("%s did not run and pass", name)
		}
	}
	m.checkResolved(t)
}

// module is a Go module in a directory outside the repository. It gets Drover from a proxy.
type module struct {
	dir     string
	env     []string
	version string
}

// newModule makes the module in a directory require Drover.
func newModule(t *testing.T, dir string) *module {
	t.Helper()
	root := plane.Root(t)
	p := newProxy(t, root)
	// Drover's dependencies are checked against Drover's go.sum. Only Drover itself is in no checksum database.
	write(t, filepath.Join(dir, "go.sum"), read(t, filepath.Join(root, "go.sum")))
	m := &module{dir: dir, version: p.version, env: []string{
		"GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false " + os.Getenv("GOFLAGS"), "GOPROXY=" + p.url + "," +
			ambientProxy(t),
		"GOPRIVATE=", "GONOPROXY=none", "GONOSUMDB=" + mainModule,
	}}
	m.run(t, "go", "mod", "edit", "-require="+mainModule+"@"+p.version, "-require="+apisModule+"@"+p.version)
	return m
}

// checkResolved fails unless Drover comes from the proxy.
func (m *module) checkResolved(t *testing.T) {
	t.Helper()
	for _, resolved := range []string{mainModule, apisModule} {
		if got := m.run(t, "go", "list", "-m", resolved); strings.TrimSpace(got) != resolved+" "+m.version {
			t.Errorf("%s is resolved as %s, want version %s and no replacement", resolved, got, m.version)
		}
	}
}

func copyModule(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join("testdata", module)
	entries, err := os.ReadDir(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		write(t, filepath.Join(dir, strings.TrimSuffix(entry.Name(), ".txt")),
			read(t, filepath.Join(source, entry.Name())))
	}
	return dir
}

func ambientProxy(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatalf("read GOPROXY: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// run runs a command and logs its output. It fails the test if the command fails.
func (m *module) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = m.dir, append(os.Environ(), m.env...)
	command.Stdout, command.Stderr = &tee{&out, t}, t.Output()
	if err := command.Run(); err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out.String()
}

// tee stores and shows what is written to it.
type tee struct {
	kept *bytes.Buffer
	t    *testing.T
}

func (w *tee) Write(p []byte) (int, error) {
	w.kept.Write(p)
	return w.t.Output().Write(p)
}
