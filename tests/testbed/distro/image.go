package distro

import (
	"archive/tar"
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// runScript is the script in the unpacked image that a plan's install instruction runs.
//
//go:embed installer/run.sh
var runScript []byte

// killAllScript stops all processes of a runtime on a machine.
//
//go:embed installer/killall.sh
var killAllScript string

// uninstallScript removes a runtime from a machine.
//
//go:embed installer/uninstall.sh
var uninstallScript string

//go:embed installer/server.service
var serverUnit string

//go:embed installer/agent.service
var agentUnit string

// ImageReference returns the name of the installer image. It replaces "+", which a tag cannot contain.
func ImageReference(runtime Runtime, version string) string {
	return "rancher/system-agent-installer-" + string(runtime) + ":" + strings.ReplaceAll(version, "+", "-")
}

// unitNames returns the names of a runtime's systemd units, which are those of the real distributions.
func unitNames(runtime Runtime) (server, agent string) {
	if runtime == K3s {
		return "k3s.service", "k3s-agent.service"
	}
	return "rke2-server.service", "rke2-agent.service"
}

// units returns a runtime's systemd units by file name.
func units(runtime Runtime) map[string]string {
	server, agent := unitNames(runtime)
	fill := strings.NewReplacer("@RUNTIME@", string(runtime))
	return map[string]string{server: fill.Replace(serverUnit), agent: fill.Replace(agentUnit)}
}

// killAll returns a runtime's script that stops everything.
func killAll(runtime Runtime) File {
	server, agent := unitNames(runtime)
	fill := strings.NewReplacer("@RUNTIME@", string(runtime), "@SERVER@", server, "@AGENT@", agent)
	return File{Name: string(runtime) + "-killall.sh", Mode: 0o755, Data: []byte(fill.Replace(killAllScript))}
}

// uninstall returns a runtime's script that removes it. The installer gives it the name that the real distribution has
// for the role of the machine.
func uninstall(runtime Runtime) File {
	server, agent := unitNames(runtime)
	fill := strings.NewReplacer("@RUNTIME@", string(runtime), "@SERVER@", server, "@AGENT@", agent, "@PREFIX@",
		strings.ToUpper(string(runtime)))
	return File{Name: "uninstall.sh", Mode: 0o755, Data: []byte(fill.Replace(uninstallScript))}
}

// BuildImage writes the installer image of one runtime and version into dir as a docker archive. A node agent finds it
// there in its images folder. program is the stand-in and kube is drover-kube. The file gets its final name when it is
// complete.
func BuildImage(dir string, runtime Runtime, version, program, kube string) (string, error) {
	files, err := ImageFiles(runtime, version, program, kube)
	if err != nil {
		return "", err
	}
	return WriteImage(dir, runtime, version, files)
}

// WriteImage writes an installer image with these files into dir, as BuildImage does.
func WriteImage(dir string, runtime Runtime, version string, files []File) (string, error) {
	tag, err := name.NewTag(ImageReference(runtime, version))
	if err != nil {
		return "", fmt.Errorf("name installer image: %w", err)
	}
	file := path.Base(strings.ReplaceAll(tag.RepositoryStr(), "/", "-")) + "-" + tag.TagStr() + ".tar"
	return WriteArchive(filepath.Join(dir, file), tag, files, v1.Config{})
}

// WriteArchive writes a docker archive with one image of one layer, and returns its path.
func WriteArchive(file string, tag name.Tag, files []File, config v1.Config) (string, error) {
	content, err := imageContent(files)
	if err != nil {
		return "", err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	},
		tarball.WithCompressionLevel(1), tarball.WithCompressedCaching)
	if err != nil {
		return "", fmt.Errorf("make image %s: %w", tag, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return "", fmt.Errorf("make image %s: %w", tag, err)
	}
	image, err = mutate.ConfigFile(image, configFile(image, config))
	if err != nil {
		return "", fmt.Errorf("make image %s: %w", tag, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", fmt.Errorf("make images folder: %w", err)
	}
	if err := tarball.WriteToFile(file+".new", tag, image); err != nil {
		return "", fmt.Errorf("write image %s: %w", tag, err)
	}
	return file, os.Rename(file+".new", file)
}

func configFile(image v1.Image, settings v1.Config) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil {
		config = &v1.ConfigFile{}
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", goruntime.GOARCH, settings
	return config
}

// File is one file of an image.
type File struct {
	Name string
	Mode os.FileMode
	Data []byte
}

// ImageFiles returns the files of the installer image: the script, the version, the units and the programs.
func ImageFiles(runtime Runtime, version, program, kube string) ([]File, error) {
	files := []File{
		{Name: "run.sh", Mode: 0o755, Data: runScript},
		{Name: "version", Mode: 0o644, Data: []byte(string(runtime) + " " + version + "\n")},
		killAll(runtime), uninstall(runtime),
	}
	for name, text := range units(runtime) {
		files = append(files, File{Name: name, Mode: 0o644, Data: []byte(text)})
	}
	for name, source := range map[string]string{string(runtime): program, "drover-kube": kube} {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, fmt.Errorf("read program for installer image: %w", err)
		}
		files = append(files, File{Name: name, Mode: 0o755, Data: data})
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return files, nil
}

// imageContent returns the only layer of the image.
func imageContent(files []File) ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, file := range files {
		header := &tar.Header{Name: file.Name, Mode: int64(file.Mode), Size: int64(len(file.Data)),
			Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("make layer of image: %w", err)
		}
		if _, err := archive.Write(file.Data); err != nil {
			return nil, fmt.Errorf("make layer of image: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("make layer of image: %w", err)
	}
	return buffer.Bytes(), nil
}
