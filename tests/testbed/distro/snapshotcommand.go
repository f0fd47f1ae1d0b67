package distro

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// snapshotPath is the supervisor's path for snapshot requests. As in the real distributions, the command line calls the
// running server.
const snapshotPath = "/db/snapshot"

// Operations of the command line.
const (
	SnapshotSave   = "save"
	SnapshotList   = "list"
	SnapshotDelete = "delete"
	SnapshotPrune  = "prune"
)

// SnapshotRequest is a request for an operation on a server's snapshots.
type SnapshotRequest struct {
	Operation string
	// Names are the prefix of the name for a save and a prune, and whole names for a delete.
	Names []string
	// Retention overrides the configuration's.
	Retention *int
	// Settings replace settings of the configuration, on the command line's side.
	Settings Settings `json:"-"`
	// S3 is the storage in S3 that the command line has found in its configuration, its flags and its environment.
	S3 *S3
}

// snapshotReply is the result: all snapshots, or the names of created and removed ones.
type snapshotReply struct {
	Files            []snapshotFile
	Created, Deleted []string
}

// snapshotter handles snapshot requests of one server.
type snapshotter struct {
	*run
	client kubernetes.Interface
	folder snapshotFolder
	// running is held by a request that changes snapshots.
	running sync.Mutex
	// changed wakes followFiles.
	changed chan struct{}
	// failures are uploads that failed, until the cluster lists them.
	failures uploadFailures
}

func (r *run) newSnapshotter(client kubernetes.Interface) *snapshotter {
	s := &snapshotter{run: r, client: client, folder: r.layout.snapshots(r.node, r.config),
		changed: make(chan struct{}, 1)}
	s.wake()
	return s
}

func (s *snapshotter) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// before handles snapshot requests and passes all others to another handler.
func (s *snapshotter) before(others http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+snapshotPath, s)
	mux.Handle("/", others)
	return mux
}

// ServeHTTP answers one request.
func (s *snapshotter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, token, _ := r.BasicAuth(); !knownToken(token, []string{s.config.Token}) {
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	var request SnapshotRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply, err := s.carryOut(r.Context(), request)
	if err != nil {
		fmt.Fprintf(s.Log, "etcd-snapshot %s: %v\n", request.Operation, err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(reply)
}

func (s *snapshotter) carryOut(ctx context.Context, request SnapshotRequest) (reply snapshotReply, err error) {
	if s.config.DisableEtcd {
		return reply, errors.New("etcd is disabled on this server")
	}
	s3 := s.config.S3
	if request.S3 != nil {
		s3 = *request.S3
	}
	if request.Operation == SnapshotList {
		reply.Files, err = s.listAll(ctx, s3)
		return reply, err
	}
	if !s.running.TryLock() {
		return reply, errors.New("1 snapshots already in progress")
	}
	defer s.running.Unlock()
	defer s.wake()
	name, retention := onDemandSnapshot, snapshotRetention
	if len(request.Names) > 0 {
		name = request.Names[0]
	}
	for _, configured := range []*int{s.config.EtcdSnapshotRetention, request.Retention} {
		if configured != nil {
			retention = *configured
		}
	}
	switch request.Operation {
	case SnapshotSave:
		now := time.Now()
		made, err := s.folder.save(ctx, localMembers(s.layout), name, now, s.metadata(ctx))
		if err != nil {
			return reply, err
		}
		reply.Created = []string{made}
		if reply.Deleted, err = s.folder.prune(name, retention); err != nil {
			return reply, err
		}
		s.saveInS3(ctx, s3, &reply, made, name, retention, now)
		return reply, nil
	case SnapshotPrune:
		reply.Deleted, err = s.folder.prune(name, retention)
		s.pruneInS3(ctx, s3, &reply, name, retention)
	case SnapshotDelete:
		reply.Deleted, err = s.delete(ctx, s3, request.Names)
	default:
		err = fmt.Errorf("unknown operation %q", request.Operation)
	}
	return reply, err
}

// metadata returns the metadata that the cluster wants in every snapshot. On an error it returns none, because a
// snapshot without metadata is better than no snapshot.
func (s *snapshotter) metadata(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, string(s.Runtime)+
		"-etcd-snapshot-extra-metadata", metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			fmt.Fprintf(s.Log, "failed to get extra metadata of snapshot: %v\n", err)
		}
		return nil
	}
	return found.Data
}

// RunSnapshot sends a request to the server of this machine and prints the answer.
func RunSnapshot(ctx context.Context, options Options, dataDir string, request SnapshotRequest, out io.Writer) error {
	config, err := snapshotConfig(options.Runtime)
	if err != nil {
		return err
	}
	config, err = config.with(request.Settings)
	if err != nil {
		return err
	}
	config.S3 = config.S3.withEnvironment()
	layout := NewLayout(options.Runtime, cmp.Or(config.DataDir, dataDir))
	if config.Token == "" {
		token, err := os.ReadFile(layout.server("token"))
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		config.Token = strings.TrimSpace(string(token))
	}
	request.S3 = &config.S3
	reply, err := askSnapshot(ctx, layout, config.Token, request)
	if err != nil {
		return err
	}
	return reply.print(out, request)
}

// snapshotConfig reads the configuration, or only the file that the environment names.
func snapshotConfig(runtime Runtime) (Config, error) {
	file := os.Getenv(strings.ToUpper(string(runtime)) + "_CONFIG_FILE")
	if file == "" {
		return LoadConfig("/etc/rancher/" + string(runtime))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	merged := Settings{}
	if err := mergeYAML(merged, data); err != nil {
		return Config{}, fmt.Errorf("read %s: %w", file, err)
	}
	return Config{}.with(merged)
}

func (reply snapshotReply) print(out io.Writer, request SnapshotRequest) error {
	for _, name := range reply.Created {
		fmt.Fprintf(out, "Snapshot %s saved.\n", name)
	}
	for _, name := range reply.Deleted {
		fmt.Fprintf(out, "Snapshot %s deleted.\n", name)
	}
	if request.Operation != SnapshotList {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "Name\tLocation\tSize\tCreated")
	for _, file := range reply.Files {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", file.Name, file.Location, file.Size, file.Created.Format(time.RFC3339))
	}
	return table.Flush()
}

func askSnapshot(ctx context.Context, l Layout, token string, request SnapshotRequest) (reply snapshotReply,
	err error) {
	ca, err := os.ReadFile(l.tls("server-ca.crt"))
	if err != nil {
		return reply, fmt.Errorf("read the server's authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := httpClient(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12,
		NextProtos: []string{supervisorProtocol, "http/1.1"}})
	client.Timeout = 0 // a snapshot may take any time
	body, err := json.Marshal(request)
	if err != nil {
		return reply, fmt.Errorf("encode request: %w", err)
	}
	target := fmt.Sprintf("https://127.0.0.1:%d%s", l.Runtime.SupervisorPort(), snapshotPath)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return reply, fmt.Errorf("ask the server: %w", err)
	}
	req.SetBasicAuth("server", token)
	resp, err := client.Do(req)
	if err != nil {
		return reply, fmt.Errorf("ask the server: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return reply, fmt.Errorf("read the server's answer: %w", err)
	case resp.StatusCode != http.StatusOK:
		return reply, fmt.Errorf("see server log for details: %s: %s", resp.Status, strings.TrimSpace(string(answer)))
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return reply, fmt.Errorf("read the server's answer: %w", err)
	}
	return reply, nil
}
