// Package packed makes and reads what programs compress: texts in annotations, specs in snapshots and archives.
package packed

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Gzip compresses a text.
func Gzip(text string) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write([]byte(text)) // writes to memory cannot fail
	_ = writer.Close()
	return out.Bytes()
}

// Text compresses a text and encodes it in base64.
func Text(text string) string { return base64.StdEncoding.EncodeToString(Gzip(text)) }

// Read reads the result of Text.
func Read(tb testing.TB, packed string) string {
	tb.Helper()
	compressed, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		tb.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// Metadata returns what a distribution stores with an etcd snapshot of a cluster with this spec.
func Metadata(spec string) string {
	values, _ := json.Marshal(map[string]string{rkev1.SnapshotClusterSpecKey: Text(spec)}) // strings always encode
	return base64.StdEncoding.EncodeToString(values)
}

// Archive returns a compressed archive of files.
func Archive(files map[string]string) []byte {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		_ = writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))})
		_, _ = writer.Write([]byte(content))
	}
	_ = writer.Close()
	return Gzip(out.String())
}
