package distro

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// Defaults of the real distributions.
const (
	onDemandSnapshot  = "on-demand"
	snapshotRetention = 5
)

// snapshotFile is a snapshot on this server or in S3.
type snapshotFile struct {
	Name     string
	Location string
	Size     int64
	Created  time.Time
	// Metadata is the metadata of the cluster at the time of the snapshot.
	Metadata map[string]string `json:",omitempty"`
	// Node is the node that has the file, or that uploaded it.
	Node string `json:",omitempty"`
	// S3 is the storage of the file, nil for a file on this server.
	S3 *listedS3 `json:",omitempty"`
	// Failure is why there is no such snapshot, empty for an existing one.
	Failure string `json:",omitempty"`
}

// snapshotFolder is a server's folder of snapshots. The metadata of a snapshot are in a second folder, in a file with
// the same name.
type snapshotFolder struct {
	dir  string
	node string
}

// snapshots returns the snapshot folder of a server.
func (l Layout) snapshots(node Node, config Config) snapshotFolder {
	dir := config.EtcdSnapshotDir
	if dir == "" {
		dir = l.server("db/snapshots")
	}
	return snapshotFolder{dir: dir, node: node.Name}
}

func (f snapshotFolder) path(name string) string { return filepath.Join(f.dir, name) }
func (f snapshotFolder) metadata(name string) string {
	return filepath.Join(filepath.Dir(f.dir), ".metadata", name)
}

// prefix returns the prefix of all snapshots with the same requested name.
func (f snapshotFolder) prefix(name string) string { return name + "-" + f.node + "-" }

// list returns the snapshots, the oldest first.
func (f snapshotFolder) list() ([]snapshotFile, error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var files []snapshotFile
	for _, entry := range entries {
		if !entry.Type().IsRegular() || strings.HasSuffix(entry.Name(), ".part") {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		file := snapshotFile{Name: info.Name(), Location: "file://" + f.path(info.Name()), Size: info.Size(),
			Created: createdAt(info.Name(), info.ModTime()), Node: f.node}
		if file.Metadata, err = f.readMetadata(info.Name()); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	slices.SortStableFunc(files, byTime)
	return files, nil
}

func byTime(a, b snapshotFile) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// createdAt returns the time at the end of a snapshot's name, or the file's time if the name has no time.
func createdAt(name string, written time.Time) time.Time {
	if seconds, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC()
	}
	return written.UTC().Truncate(time.Second)
}

func (f snapshotFolder) readMetadata(name string) (map[string]string, error) {
	data, err := os.ReadFile(f.metadata(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var metadata map[string]string
	if err == nil {
		err = json.Unmarshal(data, &metadata)
	}
	if err != nil {
		return nil, fmt.Errorf("read metadata of snapshot %s: %w", name, err)
	}
	return metadata, nil
}

// save writes a snapshot of this server's etcd.
func (f snapshotFolder) save(ctx context.Context, m members, name string, now time.Time,
	metadata map[string]string) (string, error) {
	name = f.prefix(name) + strconv.FormatInt(now.Unix(), 10)
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder of snapshots: %w", err)
	}
	if len(metadata) > 0 {
		data, err := json.Marshal(metadata)
		if err != nil {
			return "", fmt.Errorf("encode metadata of snapshot: %w", err)
		}
		if err := localfile.Write(f.metadata(name), data); err != nil {
			return "", err
		}
	}
	config, err := m.config()
	if err != nil {
		return "", err
	}
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), config, f.path(name)); err != nil {
		_ = os.Remove(f.metadata(name))
		return "", fmt.Errorf("save snapshot: %w", err)
	}
	return name, nil
}

// remove removes a snapshot with its metadata.
func (f snapshotFolder) remove(name string) error {
	if name == "" || strings.ContainsRune(name, filepath.Separator) {
		return fmt.Errorf("%q is no name of a snapshot", name)
	}
	if err := os.Remove(f.path(name)); err != nil {
		return fmt.Errorf("remove snapshot: %w", err)
	}
	if err := os.Remove(f.metadata(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove metadata of snapshot: %w", err)
	}
	return nil
}

// prune removes the oldest snapshots of a name, keeps the last ones, and returns the removed ones. With keep 0 it
// removes none.
func (f snapshotFolder) prune(name string, keep int) ([]string, error) {
	files, err := f.list()
	if err != nil || keep < 1 {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(file snapshotFile) bool {
		return !strings.HasPrefix(file.Name, f.prefix(name))
	})
	var removed []string
	for _, file := range files[:max(0, len(files)-keep)] {
		if err := f.remove(file.Name); err != nil {
			return removed, err
		}
		removed = append(removed, file.Name)
	}
	return removed, nil
}
