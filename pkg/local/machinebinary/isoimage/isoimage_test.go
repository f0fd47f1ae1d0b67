package isoimage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"github.com/drover-io/drover/pkg/local/machinebinary/isoimage"
)

// driver is the command line of rancher-machine's driver vmwarevsphere.
func driver(output, source string) []string {
	return []string{"-J", "-r", "-hfs", "-iso-level", "1", "-V", "cidata", "-output", output, "-graft-points", source}
}

// TestWrite_FilesForCloudInit: an image has the right name, and both files under their long names.
func TestWrite_FilesForCloudInit(t *testing.T) {
	source, output := t.TempDir(), filepath.Join(t.TempDir(), "user-data.iso")
	want := map[string]string{"user-data": "#cloud-config\n" + strings.Repeat("# long\n", 5000),
		"meta-data": "local-hostname: one\n"}
	for name, content := range want {
		if err := os.WriteFile(filepath.Join(source, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	invocation, err := isoimage.ParseInvocation(driver(output, source))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second run replaces the first image
		if err := isoimage.Write(invocation); err != nil {
			t.Fatal(err)
		}
	}
	disk, err := file.OpenFromPath(output, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	image, err := iso9660.Read(disk, 0, 0, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if label := strings.TrimRight(image.Label(), " \x00"); label != "cidata" {
		t.Errorf("volume is %q, but cloud-init needs cidata", label)
	}
	for name, content := range want {
		if got, err := image.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("%s: %d bytes, %v; want %d bytes", name, len(got), err, len(content))
		}
	}
}

func TestParseInvocation_Refuses(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"an unknown option":           {[]string{"-udf", "-output", "a", "b"}, "-udf"},
		"an option without its value": {[]string{"b", "-output"}, "-output"},
		"another level":               {[]string{"-iso-level", "3", "-output", "a", "b"}, "-iso-level 3"},
		"two folders":                 {[]string{"-output", "a", "b", "c"}, `"c"`},
		"a folder under another name": {[]string{"-output", "a", "/x=b"}, `"/x=b"`},
		"no folder":                   {[]string{"-output", "a"}, "a folder"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := isoimage.ParseInvocation(test.args); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
