package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/testkit/allocations"
)

// Reading may allocate base bytes, and perByte bytes for each unpacked byte. YAML with aliases expands within base.
const (
	base    = 64 << 20
	perByte = 512
)

// manifestOf is a manifest that lists one object.
func manifestOf(content string) string {
	return "apiVersion: backup.drover.io/v1\nkind: Backup\nid: b\ncreatedAt: 2026-09-01T00:00:00Z\nversion: v1\n" +
		"managementCluster: m\ncounts: {}\nfiles:\n- path: one\n  sha256: " + naming.SHA256([]byte(content)) + "\n"
}

// archiveOf packs files without a check.
func archiveOf(t testing.TB, files ...string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for i, content := range files {
		name := []string{manifestFile, "one"}[i]
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// laughs is YAML whose aliases expand to many times its length.
func laughs() string {
	text := strings.Builder{}
	text.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		aliases := strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9)
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(aliases, ","))
	}
	return text.String()
}

const deployment = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ns\ndata:\n  k: v\n"

// FuzzRead: for any manifest and object, the memory is bounded by their length, and what is read is complete.
func FuzzRead(f *testing.F) {
	f.Add(manifestOf(deployment), deployment)
	f.Add(manifestOf(deployment), "kind: Other")
	f.Add(manifestOf(laughs()), laughs())
	f.Add(laughs(), "")
	f.Add(strings.Repeat("[", 5000), "{")
	f.Add("files: ["+strings.Repeat("{},", 1000)+"{}]", "")
	f.Fuzz(func(t *testing.T, manifest, object string) {
		packed := archiveOf(t, manifest, object)
		var read *Backup
		allocations.AtMost(t, base+perByte*uint64(len(manifest)+len(object)), func() {
			read, _ = Read(bytes.NewReader(packed)) // most inputs are no backups
		})
		if read != nil && (read.Manifest.ID == "" || len(read.Objects) != len(read.Manifest.Files)) {
			t.Errorf("read %+v", read.Manifest)
		}
	})
}

// FuzzReadArchive: for any file, the memory is bounded.
func FuzzReadArchive(f *testing.F) {
	f.Add(archiveOf(f, manifestOf(deployment), deployment))
	f.Add(archiveOf(f, "x"))
	f.Add([]byte("not packed"))
	f.Fuzz(func(t *testing.T, packed []byte) {
		// deflate packs at most 1032 bytes into one.
		allocations.AtMost(t, base+4*1032*uint64(len(packed)), func() { _, _ = Read(bytes.NewReader(packed)) })
	})
}
