package distro

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
)

const (
	// storageS3 is the storage in the label of objects for snapshots in S3.
	storageS3 = "s3"
	// s3Settles is the time in which the list of a bucket may lack a new snapshot of another server.
	s3Settles = time.Minute
)

// uploadFailures are snapshots that are not in S3.
type uploadFailures struct {
	mu    sync.Mutex
	files []snapshotFile
}

func (f *uploadFailures) add(file snapshotFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = append(f.files, file)
}

// take returns the failures and forgets them.
func (f *uploadFailures) take() []snapshotFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	files := f.files
	f.files = nil
	return files
}

// listAll returns the snapshots of this server and of S3.
func (s *snapshotter) listAll(ctx context.Context, s3 S3) ([]snapshotFile, error) {
	files, err := s.folder.list()
	if err != nil || !s3.Enabled {
		return files, err
	}
	storage, err := openStorage(ctx, s3, s.node.Name)
	if err != nil {
		fmt.Fprintf(s.Log, "Unable to initialize S3 client: %v\n", err)
		return nil, fmt.Errorf("failed to initialize S3 client: %w", err)
	}
	uploaded, err := storage.list(ctx, s.Runtime)
	return append(files, uploaded...), err
}

// saveInS3 uploads a new snapshot and prunes older ones. A failure is no failure of the command: the log and the
// cluster's list have it.
func (s *snapshotter) saveInS3(ctx context.Context, s3 S3, reply *snapshotReply, made, name string, retention int,
	now time.Time) {
	if !s3.Enabled {
		return
	}
	storage, err := openStorage(ctx, s3, s.node.Name)
	if err != nil {
		s.noteFailure(s3, made, now, fmt.Errorf("failed to initialize S3 client: %w", err))
		return
	}
	if err := storage.upload(ctx, s.Runtime, s.folder, made); err != nil {
		s.noteFailure(s3, made, now, err)
	} else {
		reply.Created = append(reply.Created, made)
	}
	s.prune(ctx, storage, reply, name, retention) // also after a failure, because a full bucket then has room again
}

// noteFailure records that a snapshot is not in S3.
func (s *snapshotter) noteFailure(s3 S3, made string, now time.Time, err error) {
	fmt.Fprintf(s.Log, "Error received during snapshot upload to S3: %v\n", err)
	s.failures.add(snapshotFile{Name: made, Created: createdAt(made, now), Node: s.node.Name,
		S3: s3.completed().asListed(), Failure: err.Error()})
}

// pruneInS3 prunes snapshots in S3. A failure is in the log.
func (s *snapshotter) pruneInS3(ctx context.Context, s3 S3, reply *snapshotReply, name string, retention int) {
	if !s3.Enabled {
		return
	}
	storage, err := openStorage(ctx, s3, s.node.Name)
	if err != nil {
		fmt.Fprintf(s.Log, "Unable to initialize S3 client: %v\n", err)
		return
	}
	s.prune(ctx, storage, reply, name, retention)
}

func (s *snapshotter) prune(ctx context.Context, storage *storage, reply *snapshotReply, name string, retention int) {
	if storage.Retention != nil {
		retention = *storage.Retention
	}
	deleted, err := storage.prune(ctx, name, retention)
	if err != nil {
		fmt.Fprintf(s.Log, "Failed to apply s3 snapshot retention policy: %v\n", err)
	}
	reply.Deleted = append(reply.Deleted, deleted...)
}

// delete removes snapshots from this server and from S3. A name that neither has is an error.
func (s *snapshotter) delete(ctx context.Context, s3 S3, names []string) (deleted []string, err error) {
	var storage *storage
	if s3.Enabled {
		if storage, err = openStorage(ctx, s3, s.node.Name); err != nil {
			return nil, fmt.Errorf("failed to initialize S3 client: %w", err)
		}
	}
	for _, name := range names {
		localErr, uploaded := s.folder.remove(name), false
		if localErr != nil && (storage == nil || !errors.Is(localErr, os.ErrNotExist)) {
			return deleted, localErr
		}
		if storage != nil {
			if uploaded, err = storage.remove(ctx, name); err != nil {
				return deleted, err
			}
		}
		if localErr != nil && !uploaded {
			return deleted, localErr
		}
		deleted = append(deleted, name)
	}
	return deleted, nil
}

// reconcileS3 makes the cluster's list of snapshots in S3 equal to the bucket. It adds failed uploads. While S3 does
// not answer, the list stays as it is.
func (s *snapshotter) reconcileS3(ctx context.Context, objects dynamic.ResourceInterface) {
	for _, failed := range s.failures.take() {
		s.insist(ctx, "list a failed snapshot in the cluster", func() error {
			return writeObject(ctx, objects, s.object(failed))
		})
	}
	if !s.config.S3.Enabled {
		return
	}
	storage, err := openStorage(ctx, s.config.S3, s.node.Name)
	if err != nil {
		fmt.Fprintf(s.Log, "Unable to initialize S3 client: %v\n", err)
		return
	}
	files, err := storage.list(ctx, s.Runtime)
	if err != nil {
		fmt.Fprintf(s.Log, "Error retrieving S3 snapshots for reconciliation: %v\n", err)
		return
	}
	s.insist(ctx, "list snapshots of S3 in the cluster", func() error {
		return s.reconcileStorage(ctx, objects, storageS3, files)
	})
}
