package distro

import (
	"bytes"
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
	if request.Operation == SnapshotList {
		reply.Files, err = s.folder.list()
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
		made, err := s.folder.save(ctx, localMembers(s.layout), name, time.Now(), s.metadata(ctx))
		if err != nil {
			return reply, err
		}
		reply.Created = []string{made}
		reply.Deleted, err = s.folder.prune(name, retention)
		return reply, err
	case SnapshotPrune:
		reply.Deleted, err = s.folder.prune(name, retention)
	case SnapshotDelete:
		for _, name := range request.Names {
			if err := s.folder.remove(name); err != nil {
				return reply, err
			}
			reply.Deleted = append(reply.Deleted, name)
		}
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
func RunSnapshot(ctx context.Context, options Options, request SnapshotRequest, out io.Writer) error {
	config, err := LoadConfig("/etc/rancher/" + string(options.Runtime))
	if err != nil {
		return err
	}
	reply, err := askSnapshot(ctx, NewLayout(options.Runtime, config.DataDir), config.Token, request)
	if err != nil {
		return err
	}
	return reply.print(out, request)
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
