package main

import (
	"crypto/x509"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImages_RunAsKubernetesWantsThem: an image has a numeric user other than root, an entrypoint that exists and needs
// nothing else, and a folder that this user may write to.
func TestImages_RunAsKubernetesWantsThem(t *testing.T) {
	all := assembleOnce(t)
	want := map[string]struct{ user, entrypoint, home string }{
		"drover":  {"65532:65532", "/usr/local/bin/drover", "/var/lib/drover"},
		"machine": {"1000:1000", "/usr/local/bin/machine-entrypoint", "/home/machine"},
	}
	for name, want := range want {
		got := all[name]
		if got.config.User != want.user || got.config.WorkingDir != want.home ||
			!slices.Equal(got.config.Entrypoint, []string{want.entrypoint}) {
			t.Errorf("%s: user %q, folder %q, entrypoint %q; want %+v", name, got.config.User, got.config.WorkingDir,
				got.config.Entrypoint, want)
		}
		home := got.files[want.home[1:]]
		if home == nil || fmt.Sprintf("%d:%d", home.Uid, home.Gid) != want.user {
			t.Errorf("%s: %s is %+v, want a folder of user %s", name, want.home, home, want.user)
		}
		account := ":" + want.user + ":"
		if passwd := got.texts["etc/passwd"]; !strings.Contains(passwd, account) ||
			!strings.Contains(passwd, ":"+want.home+":") {
			t.Errorf("%s: the user of the Dockerfile is not in /etc/passwd:\n%s", name, passwd)
		}
		if entrypoint := got.files[want.entrypoint[1:]]; entrypoint == nil || entrypoint.Mode != 0o755 {
			t.Errorf("%s: entrypoint is %+v, want a program", name, entrypoint)
		}
		if tmp := got.files["tmp"]; tmp == nil || tmp.Mode != 0o1777 {
			t.Errorf("%s: /tmp is %+v, want mode 1777", name, tmp)
		}
	}
}

// TestImages_HaveNothingElse lists every path, so that reviews of this test show additions. There is no shell.
func TestImages_HaveNothingElse(t *testing.T) {
	common := []string{
		"etc", "etc/passwd", "etc/ssl", "etc/ssl/certs", authoritiesFile, "tmp", "usr", "usr/local", "usr/local/bin",
		"usr/share",
		"usr/share/licenses", "usr/share/licenses/drover", licenseFile, sbomDirectory,
	}
	own := map[string][]string{
		"drover": {"usr/local/bin/drover", "usr/share/sbom/drover.cdx.json", "var", "var/lib", "var/lib/drover"},
		"machine": {
			"usr/local/bin/machine-entrypoint", "usr/local/bin/mkisofs", "usr/local/bin/rancher-machine",
			"usr/share/sbom/machine-entrypoint.cdx.json", "usr/share/sbom/mkisofs.cdx.json",
			"usr/share/sbom/rancher-machine.cdx.json",
			"etc/rancher", "etc/rancher/ssl", "home", "home/machine", "path", "path/to", "path/to/machine",
			"path/to/machine/files",
			"run", "run/secrets", "run/secrets/machine",
		},
	}
	for name, got := range assembleOnce(t) {
		want := slices.Sorted(slices.Values(append(slices.Clone(common), own[name]...)))
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got.files))); diff != "" {
			t.Errorf("%s: paths (-want +got):\n%s", name, diff)
		}
		for file, header := range got.files {
			if header.ModTime.UTC() != build.Created {
				t.Errorf("%s: %s is from %s, want the time of the commit", name, file, header.ModTime)
			}
			if header.Uid != 0 && file != strings.TrimPrefix(got.config.WorkingDir, "/") {
				t.Errorf("%s: %s belongs to user %d, who could change it", name, file, header.Uid)
			}
		}
	}
}

func TestImages_Labels(t *testing.T) {
	for name, got := range assembleOnce(t) {
		for label, want := range map[string]string{
			"version": build.Version, "revision": build.Revision, "licenses": "Apache-2.0",
			"source": "https://github.com/drover-io/drover",
		} {
			if value := got.config.Labels["org.opencontainers.image."+label]; value != want {
				t.Errorf("%s: label %s is %q, want %q", name, label, value, want)
			}
		}
		if got.file.Architecture != "amd64" || got.file.OS != "linux" || got.file.Created.UTC() != build.Created {
			t.Errorf("%s: made for %s/%s at %s", name, got.file.OS, got.file.Architecture, got.file.Created)
		}
	}
}

// TestImages_Authorities: the bundle is valid and at the first path where Go searches.
func TestImages_Authorities(t *testing.T) {
	for name, got := range assembleOnce(t) {
		bundle := []byte(got.texts[authoritiesFile])
		if count := strings.Count(string(bundle), "BEGIN CERTIFICATE"); count < 100 ||
			!x509.NewCertPool().AppendCertsFromPEM(bundle) {
			t.Errorf("%s: %d authorities", name, count)
		}
	}
}

// TestImages_SameSourceSameDigest: two folders whose files have different times and modes give the same digest.
func TestImages_SameSourceSameDigest(t *testing.T) {
	first, second := assembleOnce(t), assembleAll(t, t.TempDir())
	for name := range first {
		if first[name].digest != second[name].digest {
			t.Errorf("%s: %s, then %s", name, first[name].digest, second[name].digest)
		}
		one, err := os.ReadFile(filepath.Join(first[name].dir, "index.json"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(second[name].dir, "index.json"))
		if err != nil || string(one) != string(other) {
			t.Errorf("%s: layouts differ: %v\n%s\n%s", name, err, one, other)
		}
	}
}

// TestInstall_RefusesDynamicPrograms: dynamic programs would fail with "no such file" in the image.
func TestInstall_RefusesDynamicPrograms(t *testing.T) {
	for _, shell := range []string{"/bin/sh", "/bin/bash"} {
		program, err := elf.Open(shell)
		if err != nil {
			continue
		}
		_ = program.Close()
		err = install(shell, path.Join(t.TempDir(), "program"))
		if err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
			t.Errorf("%s: got %v, want an error that says how to build it", shell, err)
		}
		return
	}
	t.Skip("this machine has no shell that is a dynamic program")
}

// TestBuiltPrograms checks the real programs if they are built.
func TestBuiltPrograms(t *testing.T) {
	modules := map[string]string{"drover": "sigs.k8s.io/cluster-api", "rancher-machine": "github.com/rancher/machine",
		"mkisofs": "github.com/diskfs/go-diskfs"}
	seen := 0
	for _, dir := range []string{"dist/programs", "bin"} {
		for _, image := range images {
			for _, name := range image.Programs {
				program := filepath.Join(repository, dir, name)
				if _, err := os.Stat(program); err != nil {
					continue
				}
				seen++
				if err := checkStatic(program); err != nil {
					t.Error(err)
				}
				if content, err := SBOM(program, build); err != nil ||
					!strings.Contains(string(content), "pkg:golang/"+modules[name]) {
					t.Errorf("%s: its bill of materials does not have %s: %v", program, modules[name], err)
				}
			}
		}
	}
	if seen == 0 {
		t.Skip("nothing is built: make build")
	}
}
