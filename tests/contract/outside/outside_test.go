package outside

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/tests/contract/plane"
)

func TestMain(m *testing.M) { os.Exit(plane.Main(m, plane.Options{WithoutCRDs: true})) }

// TestEmbedHost: a host has its own Go types for Drover's kinds in the scheme that lasso and wrangler share with the whole
// process, and starts Drover beside its own factory; another host lends Drover its factory.
func TestEmbedHost(t *testing.T) {
	testOutside(t, "embedhost", []string{
		"TestBesideAHostWithTypesOfItsOwn", "TestInAHostsFactory", "TestInAFactoryWithOtherTypes",
	}, "KUBECONFIG="+plane.Kubeconfig(t))
}

// TestFakes: controllers are driven with wrangler's generated fakes, through what they export.
func TestFakes(t *testing.T) {
	testOutside(t, "fakes", []string{
		"TestProvisioningCluster", "TestRKECluster", "TestBootstrap", "TestMachineProvision", "TestDynamicSchema", "TestPlanner", "TestPlanSecret",
	})
}

// testOutside runs the tests of a module of testdata/ in a directory outside the repository. All of them have to pass, and to
// have run.
func testOutside(t *testing.T, module string, want []string, env ...string) {
	t.Helper()
	root := plane.Root(t)
	p := newProxy(t, root)
	dir := copyModule(t, module)
	// What Drover needs is checked against the sums that Drover has; only Drover itself is in no database of sums.
	write(t, filepath.Join(dir, "go.sum"), read(t, filepath.Join(root, "go.sum")))
	env = append(env,
		"GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false "+os.Getenv("GOFLAGS"), "GOPROXY="+p.url+","+ambientProxy(t),
		"GOPRIVATE=", "GONOPROXY=none", "GONOSUMDB="+mainModule,
	)
	run(t, dir, env, "go", "mod", "edit", "-require="+mainModule+"@"+p.version, "-require="+apisModule+"@"+p.version)
	out := run(t, dir, env, "go", "test", "-count=1", "-v", "-vet=off", "-timeout=10m", "./...")
	for _, name := range want {
		if !strings.Contains(out, "--- PASS: "+name+" ") {
			t.Errorf("%s did not run and pass", name)
		}
	}
	for _, resolved := range []string{mainModule, apisModule} {
		if got := run(t, dir, env, "go", "list", "-m", resolved); strings.TrimSpace(got) != resolved+" "+p.version {
			t.Errorf("%s is resolved as %s, want version %s and no replacement", resolved, got, p.version)
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
		write(t, filepath.Join(dir, strings.TrimSuffix(entry.Name(), ".txt")), read(t, filepath.Join(source, entry.Name())))
	}
	return dir
}

func ambientProxy(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatalf("ask for GOPROXY: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// run runs a command, shows what it says in the log of the test, and fails the test when the command fails.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	command.Stdout, command.Stderr = &tee{&out, t}, t.Output()
	if err := command.Run(); err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out.String()
}

// tee keeps what it shows.
type tee struct {
	kept *bytes.Buffer
	t    *testing.T
}

func (w *tee) Write(p []byte) (int, error) {
	w.kept.Write(p)
	return w.t.Output().Write(p)
}
