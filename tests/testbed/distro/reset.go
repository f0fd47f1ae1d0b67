package distro

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// ServerFlags are the flags of the server command that supplement its configuration.
type ServerFlags struct {
	// ClusterReset makes this server the only member of a new etcd cluster, and exits.
	ClusterReset bool
	// RestorePath is the snapshot to restore, relative to the server's folder.
	RestorePath string
	// EtcdArg are additional arguments of etcd.
	EtcdArg []string
	// DisableSnapshots has no effect, because there is no schedule.
	DisableSnapshots bool
	// Settings replace settings of the configuration.
	Settings Settings
}

// apply adds the flags to the configuration.
func (f ServerFlags) apply(config Config) (Config, error) {
	config, err := config.with(f.Settings)
	if err != nil {
		return config, err
	}
	config.EtcdArg = append(config.EtcdArg, f.EtcdArg...)
	switch {
	case f.RestorePath != "" && !f.ClusterReset:
		return config, errors.New("invalid flag use; --cluster-reset required with --cluster-reset-restore-path")
	case f.ClusterReset && config.DisableEtcd:
		return config, errors.New("invalid flag use; cannot use --cluster-reset with --disable-etcd")
	case f.ClusterReset && config.Server != "":
		return config,
			errors.New("cannot perform cluster-reset while server URL is set - remove server from configuration " +
				"before resetting")
	case f.ClusterReset && config.Token == "":
		return config, errors.New("cannot perform cluster-reset without the token of the cluster")
	}
	return config, nil
}

// Ports of an etcd that runs alone, as in the real distributions.
const (
	aloneClientPort = 2399
	alonePeerPort   = 2400
)

func (l Layout) tombstone() string { return filepath.Join(l.etcdData(), "tombstone") }
func (l Layout) resetFlag() string { return l.server("db/reset-flag") }

// afterReset handles earlier cluster resets at a start. It removes the flag of this server's own reset, so that another
// reset is possible. If another server reset the cluster and this server's data were declared dead, it moves them
// aside, and the server joins as a new member.
func (r *run) afterReset() error {
	if err := os.Remove(r.layout.resetFlag()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove reset flag: %w", err)
	}
	if r.config.DisableEtcd {
		return nil
	}
	switch _, err := os.Stat(r.layout.tombstone()); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for tombstone: %w", err)
	}
	fmt.Fprintln(r.Log, "tombstone file has been detected, removing data dir to rejoin the cluster")
	return setAside(r.layout.etcdData())
}

// setAside renames a folder of data. It keeps only the latest of the folders that were renamed before.
func setAside(folder string) error {
	const kept = 5
	old, err := filepath.Glob(folder + "-old-*")
	if err != nil {
		return fmt.Errorf("list data put aside: %w", err)
	}
	for len(old) >= kept { // by time, because the names have equal length
		if err := os.RemoveAll(old[0]); err != nil {
			return fmt.Errorf("remove data put aside: %w", err)
		}
		old = old[1:]
	}
	err = os.Rename(folder, fmt.Sprintf("%s-old-%d", folder, time.Now().UnixNano()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put data aside: %w", err)
	}
	return nil
}

// clusterReset makes this server the only member of etcd, with its own data or those of a snapshot. The certificates
// come from the data, so clients see the same cluster.
func (r *run) clusterReset(ctx context.Context, snapshotPath string) error {
	if err := r.mayReset(ctx, snapshotPath); err != nil {
		return err
	}
	if snapshotPath != "" {
		if err := r.fetchAndRestore(ctx, snapshotPath); err != nil {
			return err
		}
	}
	var found bootstrap
	err := r.etcdAlone(ctx, r.layout.etcdData(), func(ctx context.Context, m members) error {
		list, err := m.list(ctx)
		if err == nil {
			err = onlyMember(list)
		}
		if err != nil {
			return err
		}
		found, err = bootstrapStore{m, r.config.Token}.load(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("reset the cluster: %w", err)
	}
	if err := r.replaceBootstrap(found, found.writeAll); err != nil {
		return err
	}
	if err := localfile.Write(r.layout.etcdVoter(), nil); err != nil {
		return err
	}
	if err := localfile.Write(r.layout.resetFlag(), nil); err != nil {
		return err
	}
	fmt.Fprintf(r.Log, "Managed etcd cluster membership has been reset, restart without --cluster-reset flag now. "+
		"Backup and delete %s on each peer etcd server and rejoin the nodes\n", r.layout.server("db"))
	return nil
}

// mayReset returns the reason why a reset is not allowed.
func (r *run) mayReset(ctx context.Context, snapshotPath string) error {
	// Only a reset without a snapshot is limited. A restore can be repeated, as in the real distributions.
	if snapshotPath == "" {
		switch _, err := os.Stat(r.layout.resetFlag()); {
		case err == nil:
			return fmt.Errorf(
				"managed etcd cluster membership was previously reset, please remove the cluster-reset flag and "+
					"start %s normally. "+
					"If you need to perform another cluster reset, you must first manually delete the file at %s",
				r.Runtime, r.layout.resetFlag())
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("look for reset flag: %w", err)
		}
		if _, err := os.Stat(filepath.Join(r.layout.etcdData(), "member")); err != nil {
			return fmt.Errorf("etcd has no data to reset: %w", err)
		}
	}
	// An open port means that a server runs here. The reset would delete the data that it uses.
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", etcdClientPort))
	if err != nil {
		return fmt.Errorf("a server runs here, stop it first: %w", err)
	}
	return listener.Close()
}

// fetchAndRestore restores a snapshot. With S3, its name is the name in the bucket.
func (r *run) fetchAndRestore(ctx context.Context, snapshotPath string) error {
	if !r.config.S3.Enabled {
		return r.restoreSnapshot(snapshotPath)
	}
	storage, err := openStorage(ctx, r.config.S3.withEnvironment(), r.node.Name)
	if err != nil {
		return fmt.Errorf("failed to initialize S3 client: %w", err)
	}
	folder := r.layout.snapshots(r.node, r.config)
	if err := os.MkdirAll(folder.dir, 0o700); err != nil {
		return fmt.Errorf("make folder of snapshots: %w", err)
	}
	if err := storage.download(ctx, folder, snapshotPath); err != nil {
		return fmt.Errorf("failed to download snapshot from S3: %w", err)
	}
	fmt.Fprintf(r.Log, "S3 download complete for %s\n", snapshotPath)
	return r.restoreSnapshot(folder.path(snapshotPath))
}

// restoreSnapshot replaces etcd's data with a snapshot, with this server as the only member.
func (r *run) restoreSnapshot(path string) error {
	if !filepath.IsAbs(path) {
		path = r.layout.server(path)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("etcd: snapshot path does not exist: %w", err)
	}
	fmt.Fprintf(r.Log, "Restoring etcd snapshot %s\n", path)
	data := r.layout.etcdData()
	if err := setAside(data); err != nil {
		return err
	}
	name := newMemberName(r.node)
	peer := peerURL(r.node)
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: path, Name: name, OutputDataDir: data, PeerURLs: []string{peer},
		InitialCluster: name + "=" + peer, InitialClusterToken: name,
	})
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	return localfile.Write(r.layout.etcdMemberName(), []byte(name))
}

// onlyMember checks that etcd has exactly one member, which votes.
func onlyMember(list []*etcdserverpb.Member) error {
	if len(list) != 1 || list[0].IsLearner {
		return fmt.Errorf("etcd has %d members, want one that votes", len(list))
	}
	return nil
}

// etcdAlone runs etcd as a single member on separate ports, and calls question with it.
func (r *run) etcdAlone(ctx context.Context, data string, question func(context.Context, members) error) error {
	name, err := os.ReadFile(filepath.Join(data, "name"))
	if err != nil {
		return fmt.Errorf("read etcd member name: %w", err)
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", aloneClientPort),
		fmt.Sprintf("http://127.0.0.1:%d", alonePeerPort)
	etcd := r.program(component{program: "etcd", args: withUserArgs([]string{
		"--name=" + string(name), "--data-dir=" + data, "--force-new-cluster",
		"--initial-cluster=" + string(name) + "=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--listen-peer-urls=" + peer,
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client, "--log-level=warn",
	}, r.config.EtcdArg)})
	alive, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(etcd(alive))
	}()
	m := members{layout: r.layout, endpoints: []string{client}, plain: true}
	if poll(alive, func() bool { _, err := m.list(alive); return err == nil }) {
		err = question(alive, m)
	} else {
		err = context.Cause(alive)
	}
	end(nil)
	<-ended
	return err
}
