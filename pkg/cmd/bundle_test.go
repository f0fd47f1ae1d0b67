package cmd

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// unpack reads an archive.
func unpack(t *testing.T, in io.Reader) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(in)
	check(t, err)
	out := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		check(t, err)
		data, err := io.ReadAll(archive)
		check(t, err)
		out[header.Name] = string(data)
	}
}

func TestSupportBundle_IsOneFileOfItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	check(t, os.WriteFile(path, []byte("an older one"), 0o644))
	synctest.Test(t, func(t *testing.T) {
		api := management(t)
		code, _, said := look(t, api, "support-bundle", "young", "-o", path)
		if code != 0 || !strings.HasPrefix(said, path+": ") {
			t.Fatalf("exit code %d, %s", code, said)
		}
		info, err := os.Stat(path)
		check(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("others may do %v with it", info.Mode())
		}
		file, err := os.Open(path)
		check(t, err)
		defer file.Close()
		held := unpack(t, file)
		for name, want := range map[string]string{
			"diagnosis/fleet-default-young.txt":                                          "no server has ever led here",
			"diagnosis/fleet-default-young.json":                                         `"name": "leader"`,
			"explanation/fleet-default-young.txt":                                        "Control plane:",
			"explanation/fleet-default-young.json":                                       `"cluster": "fleet-default/young"`,
			"objects/namespaces/fleet-default/cluster.provisioning.cattle.io/young.yaml": "name: young",
			"versions.txt": "drover dev",
			"objects/cluster-scoped/dynamicschema.management.cattle.io/podconfig.yaml": "size", "unread.txt": "",
			"README.txt": "plans/",
		} {
			if got, there := held["drover-support-bundle/"+name]; !there || !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if writes := api.Writes("drover"); len(writes) > 0 {
			t.Errorf("writes: %v", writes)
		}
	})
}

func TestSupportBundle_OfAllOrOfNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := management(t)
		code, out, said := look(t, api, "support-bundle", "--all", "-o", "-")
		if held := unpack(t, strings.NewReader(out)); code != 0 || said != "" ||
			held["drover-support-bundle/diagnosis/fleet-default-young.txt"] == "" {
			t.Errorf("exit code %d, %q, %d files", code, said, len(held))
		}
		for _, args := range [][]string{{}, {"young", "--all"}, {"absent"}} {
			if code, _, said := look(t, api,
				append([]string{"support-bundle", "-o", filepath.Join(os.TempDir(), "never")},
					args...)...); code != 1 || said == "" {
				t.Errorf("%v: exit code %d, %q", args, code, said)
			}
		}
	})
}
