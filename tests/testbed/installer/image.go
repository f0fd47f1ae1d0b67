package installer

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// runScript is the script that a plan's install instruction runs.
//
//go:embed run.sh
var runScript []byte

// WriteImage writes the release's installer image into a folder, where the node agent finds it.
func (r Release) WriteImage(dir string) error {
	if r.image != "" {
		return lab.Place(r.image, filepath.Join(dir, filepath.Base(r.image)))
	}
	files := []distro.File{{Name: "run.sh", Mode: 0o755, Data: runScript}}
	for _, path := range r.payload {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("pack installer: %w", err)
		}
		packed := filepath.Base(path)
		if r.Runtime == distro.K3s && packed != installScript {
			packed = "k3s" // the program of another architecture has a suffix
		}
		files = append(files, distro.File{Name: packed, Mode: 0o755, Data: data})
	}
	_, err := distro.WriteImage(dir, r.Runtime, r.Version, files)
	return err
}

// DroverImage writes an archive with Drover's container image, for the agent inside the cluster. It contains what the
// agent needs of the image that the Dockerfile describes.
func DroverImage(file, program, reference string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("name Drover's image: %w", err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("pack Drover's image: %w", err)
	}
	_, err = distro.WriteArchive(file, tag, []distro.File{
		{Name: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/sbin/nologin\n")},
		{Name: "usr/local/bin/drover", Mode: 0o755, Data: data},
		{Name: "var/lib/drover/.keep", Mode: 0o644},
	}, v1.Config{User: "65532:65532", WorkingDir: "/var/lib/drover", Env: []string{"PATH=/usr/local/bin"},
		Entrypoint: []string{"/usr/local/bin/drover"}})
	return err
}
