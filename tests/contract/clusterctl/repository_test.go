package clusterctl

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/drover-io/drover/tests/contract/plane"
)

// user is a person with clusterctl.
type user struct {
	t *testing.T
	// config is clusterctl's configuration, and repository the local repository of Drover's providers.
	config, repository string
	home               string
}

// newUser gives a person the local repositories of a version of Drover and of Cluster API's core.
func newUser(t *testing.T, version string) *user {
	t.Helper()
	release := makeRelease(t, version)
	config, err := os.ReadFile(filepath.Join(release, "clusterctl.yaml"))
	check(t, err)
	u := &user{t: t, config: filepath.Join(t.TempDir(), "clusterctl.yaml"),
		repository: filepath.Join(release, "repository"), home: t.TempDir()}
	config = fmt.Appendf(config, "  - name: cluster-api\n    type: CoreProvider\n    url: %s\n", coreRepository(t))
	check(t, os.WriteFile(u.config, config, 0o600))
	return u
}

// makeRelease runs scripts/release and returns the directory of its files.
func makeRelease(t *testing.T, version string) string {
	t.Helper()
	dist := t.TempDir()
	script := exec.CommandContext(t.Context(), filepath.Join(plane.Root(t), "scripts", "release"))
	script.Stderr, script.Env = t.Output(), append(os.Environ(), "DROVER_DIST="+dist, "DROVER_VERSION="+version)
	check(t, script.Run())
	return filepath.Join(dist, "release")
}

// publish adds a version to the local repository.
func (u *user) publish(version string) {
	u.t.Helper()
	release := makeRelease(u.t, version)
	check(u.t, os.CopyFS(u.repository, os.DirFS(filepath.Join(release, "repository"))))
}

// coreRepository writes a local repository with Cluster API's core in the version of clusterctl, and returns the path
// of its components.
func coreRepository(t *testing.T) string {
	t.Helper()
	const module = "sigs.k8s.io/cluster-api"
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", module)
	list.Stderr = t.Output()
	out, err := list.Output()
	check(t, err)
	source, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(source, "core", "config", "default"))
	check(t, err)
	text, err := built.AsYaml()
	check(t, err)
	metadata, err := os.ReadFile(filepath.Join(source, "metadata.yaml"))
	check(t, err)
	dir := filepath.Join(t.TempDir(), "cluster-api", version)
	check(t, os.MkdirAll(dir, 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o600))
	components := filepath.Join(dir, "core-components.yaml")
	check(t, os.WriteFile(components, text, 0o600))
	return components
}

// clusterctl runs the stock program with variables, and returns its output.
func (u *user) clusterctl(variables []string, args ...string) (string, error) {
	u.t.Helper()
	program, err := plane.Binary("clusterctl")
	check(u.t, err)
	command := exec.CommandContext(u.t.Context(), program, append(args, "--config="+u.config)...)
	command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "GOPROXY=off", "HOME="+u.home,
		"XDG_CONFIG_HOME="+u.home, "KUBECONFIG="+plane.Kubeconfig(u.t))
	command.Env = append(command.Env, variables...)
	var out, log bytes.Buffer
	command.Stdout, command.Stderr = &out, &log
	err = command.Run()
	u.t.Logf("clusterctl %s:\n%s", strings.Join(args, " "), log.String())
	if err != nil {
		return out.String(), fmt.Errorf("clusterctl %s: %w: %s", args[0], err, log.String())
	}
	return out.String(), nil
}
