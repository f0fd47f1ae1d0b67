package backup

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// Stored in the manifest: do not change.
const (
	apiVersion   = "backup.drover.io/v1"
	kindBackup   = "Backup"
	manifestFile = "manifest.yaml"
)

// Limits in bytes: maxFile for one object, maxManifest for the list of objects, maxArchive for everything. They apply
// to reading, because an archive can come from an untrusted source. Write checks them too, so that every archive can be
// read.
const (
	maxFile     = 16 << 20
	maxManifest = 512 << 20
	maxArchive  = 4 << 30
)

// Manifest describes a backup. It is the first file of the archive.
type Manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// ID of the backup. Restored objects carry it in an annotation.
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	// Version of the Drover that made the backup.
	Version string `json:"version"`
	// ManagementCluster is the UID of the management cluster's namespace kube-system. It is also the name of a Drover
	// that has no --instance-id.
	ManagementCluster string `json:"managementCluster"`
	// Namespaces that the user requested. Empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Counts of objects, by Kind.group.
	Counts map[string]int `json:"counts"`
	// Warnings list what was under way when the backup was made.
	Warnings []string `json:"warnings,omitempty"`
	// Files in the order in which the objects can be created.
	Files []File `json:"files"`
}

// File is one object of a backup.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Backup is a backup that was collected or read.
type Backup struct {
	Manifest Manifest
	// Objects in the order in which they can be created: definitions, namespaces, then every object after its owners.
	Objects []*unstructured.Unstructured
}

// Write writes the archive. It fills in the manifest's list of files.
func (b *Backup) Write(to io.Writer) error {
	var contents [][]byte
	b.Manifest.APIVersion, b.Manifest.Kind, b.Manifest.Files = apiVersion, kindBackup, nil
	for i, object := range b.Objects {
		content, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("encode %s: %w", describe(object), err)
		}
		b.Manifest.Files = append(b.Manifest.Files, File{Path: pathOf(i, object), SHA256: naming.SHA256(content)})
		contents = append(contents, content)
	}
	manifest, err := yaml.Marshal(b.Manifest)
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	if err := fits(manifest, contents); err != nil {
		return err
	}
	packed := gzip.NewWriter(to)
	archive := tar.NewWriter(packed)
	if err := b.add(archive, manifestFile, manifest); err != nil {
		return err
	}
	for i, content := range contents {
		if err := b.add(archive, b.Manifest.Files[i].Path, content); err != nil {
			return err
		}
	}
	if err := errors.Join(archive.Close(), packed.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// fits returns an error if Read would refuse the archive.
func fits(manifest []byte, contents [][]byte) error {
	const header = 2048 // a file's header, its long name and its padding
	total := int64(len(manifest)) + header
	if len(manifest) > maxManifest {
		return fmt.Errorf("the list of objects is longer than %d MiB: make a backup of each namespace", maxManifest>>20)
	}
	for _, content := range contents {
		if len(content) > maxFile {
			return fmt.Errorf("an object is larger than %d MiB, which Kubernetes does not allow", maxFile>>20)
		}
		total += int64(len(content)) + header
	}
	if total > maxArchive {
		return fmt.Errorf("the backup is larger than %d GiB: make a backup of each namespace", maxArchive>>30)
	}
	return nil
}

func (b *Backup) add(to *tar.Writer, path string, content []byte) error {
	err := to.WriteHeader(&tar.Header{Name: path, Mode: 0o600, Size: int64(len(content)), ModTime: b.Manifest.CreatedAt,
		Format: tar.FormatPAX})
	if err == nil {
		_, err = to.Write(content)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Read reads an archive and checks that it is complete.
func Read(from io.Reader) (*Backup, error) {
	packed, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("the file is not a backup of Drover, which is a gzipped tar: %w", err)
	}
	archive := tar.NewReader(io.LimitReader(packed, maxArchive))
	content, err := next(archive, manifestFile, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("the file is not a backup of Drover: %w", err)
	}
	b := &Backup{}
	if err := yaml.UnmarshalStrict(content, &b.Manifest); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if b.Manifest.APIVersion != apiVersion || b.Manifest.Kind != kindBackup || b.Manifest.ID == "" {
		return nil, fmt.Errorf(
			"the backup is %s %s, but this Drover reads %s %s: use the version of Drover that created it, or a "+
				"newer one",
			b.Manifest.APIVersion, b.Manifest.Kind, apiVersion, kindBackup)
	}
	for _, file := range b.Manifest.Files {
		object, err := readObject(archive, file)
		if err != nil {
			return nil, err
		}
		b.Objects = append(b.Objects, object)
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the archive has files that its manifest does not name, or is truncated")
	}
	return b, nil
}

func readObject(archive *tar.Reader, file File) (*unstructured.Unstructured, error) {
	content, err := next(archive, file.Path, maxFile)
	if err != nil {
		return nil, err
	}
	if naming.SHA256(content) != file.SHA256 {
		return nil, fmt.Errorf("%s has changed since the backup: its checksum differs from the manifest's", file.Path)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Path, err)
	}
	if object.GetKind() == "" || object.GetName() == "" {
		return nil, fmt.Errorf("%s is not a Kubernetes object with a name", file.Path)
	}
	return object, nil
}

// next returns the content of the next file. It returns an error if the path differs or the file is larger than most.
func next(archive *tar.Reader, path string, most int64) ([]byte, error) {
	header, err := archive.Next()
	if err != nil {
		return nil, fmt.Errorf("the archive ends before %s, or is damaged: %w", path, err)
	}
	if header.Name != path || header.Size > most {
		return nil, fmt.Errorf("the archive has %s of %d bytes, want %s of at most %d bytes", header.Name, header.Size,
			path, most)
	}
	content, err := io.ReadAll(archive)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return content, nil
}

func pathOf(i int, object *unstructured.Unstructured) string {
	name := object.GetName()
	if object.GetNamespace() != "" {
		name = object.GetNamespace() + "_" + name
	}
	return fmt.Sprintf("objects/%06d_%s_%s.yaml", i, strings.ToLower(object.GroupVersionKind().GroupKind().String()),
		strings.ReplaceAll(name, ":", "-"))
}

// describe names an object in messages.
func describe(object *unstructured.Unstructured) string {
	return name(object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
}

func name(kind schema.GroupKind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind.String() + " " + name
}
