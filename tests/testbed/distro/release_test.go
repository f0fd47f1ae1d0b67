package distro

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPayload_IsUnpackedOncePerRelease: a release's program contains its components at its end.
func TestPayload_IsUnpackedOncePerRelease(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	installed := filepath.Join(dir, "drover-kube")
	unpack := func(program string) string {
		t.Helper()
		payload, err := OpenPayload(program)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = payload.Close() }()
		if err := payload.Unpack(installed); err != nil {
			t.Fatal(err)
		}
		return payload.Version
	}
	program := write("program", "\x7fELF and the rest of a program")
	for _, version := range []string{"v1.36.2+k3s1", "v1.36.3+k3s1"} {
		release := filepath.Join(dir, version)
		if err := WriteRelease(release, version, program, write("kube", "components of "+version)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := unpack(filepath.Join(release, "k3s")); got != version {
				t.Errorf("the program has version %q, want %q", got, version)
			}
			if got, err := os.ReadFile(installed); err != nil || string(got) != "components of "+version {
				t.Errorf("the program unpacked %q (%v)", got, err)
			}
			write("drover-kube", "components of "+version) // a second run keeps the file
		}
	}
	if got := unpack(program); got != "" {
		t.Errorf("a program without a payload has version %q", got)
	}
}
