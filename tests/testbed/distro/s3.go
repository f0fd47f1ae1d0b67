package distro

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of the real distributions.
const (
	defaultS3Endpoint = "s3.amazonaws.com"
	defaultS3Region   = "us-east-1"
	defaultS3Timeout  = 5 * time.Minute
)

// metadataFolder is the folder of the metadata of snapshots, next to the snapshots in S3.
const metadataFolder = ".metadata"

// S3 is the storage of snapshots in S3, as the configuration and the command line name it.
type S3 struct {
	Enabled       bool            `json:"etcd-s3"`
	Bucket        string          `json:"etcd-s3-bucket"`
	Region        string          `json:"etcd-s3-region"`
	Folder        string          `json:"etcd-s3-folder"`
	Endpoint      string          `json:"etcd-s3-endpoint"`
	EndpointCA    string          `json:"etcd-s3-endpoint-ca"`
	SkipSSLVerify bool            `json:"etcd-s3-skip-ssl-verify"`
	Insecure      bool            `json:"etcd-s3-insecure"`
	BucketLookup  string          `json:"etcd-s3-bucket-lookup-type"`
	AccessKey     string          `json:"etcd-s3-access-key"`
	SecretKey     string          `json:"etcd-s3-secret-key"`
	Timeout       metav1.Duration `json:"etcd-s3-timeout"`
	Retention     *int            `json:"etcd-s3-retention"`
}

// withEnvironment returns the settings with the credential of the environment.
func (s S3) withEnvironment() S3 {
	s.AccessKey = cmp.Or(s.AccessKey, os.Getenv("AWS_ACCESS_KEY_ID"))
	s.SecretKey = cmp.Or(s.SecretKey, os.Getenv("AWS_SECRET_ACCESS_KEY"))
	return s
}

// completed returns the settings with the defaults.
func (s S3) completed() S3 {
	s.Endpoint, s.Region = cmp.Or(s.Endpoint, defaultS3Endpoint), cmp.Or(s.Region, defaultS3Region)
	s.Timeout.Duration = cmp.Or(s.Timeout.Duration, defaultS3Timeout)
	return s
}

// storage is a bucket with snapshots.
type storage struct {
	S3
	client *minio.Client
	// node is the node that uploads.
	node string
}

// openStorage connects to the bucket, and fails if it does not exist.
func openStorage(ctx context.Context, s3 S3, node string) (*storage, error) {
	s3 = s3.completed()
	if s3.Bucket == "" {
		return nil, errors.New("s3 bucket name was not set")
	}
	transport, err := s3.transport()
	if err != nil {
		return nil, err
	}
	lookups := map[string]minio.BucketLookupType{"dns": minio.BucketLookupDNS, "path": minio.BucketLookupPath}
	client, err := minio.New(s3.Endpoint, &minio.Options{
		Creds:  credentials.NewStaticV4(s3.AccessKey, s3.SecretKey, ""),
		Secure: !s3.Insecure, Region: s3.Region, Transport: transport, BucketLookup: lookups[s3.BucketLookup],
	})
	if err != nil {
		return nil, fmt.Errorf("make client of S3: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s3.Timeout.Duration)
	defer cancel()
	switch exists, err := client.BucketExists(ctx, s3.Bucket); {
	case err != nil:
		return nil, fmt.Errorf("failed to test for existence of bucket %s: %w", s3.Bucket, err)
	case !exists:
		return nil, fmt.Errorf("bucket %s does not exist", s3.Bucket)
	}
	return &storage{S3: s3, client: client, node: node}, nil
}

// transport verifies the server with the configured authority. Compressed answers stay as they are.
func (s S3) transport() (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	switch {
	case s.SkipSSLVerify:
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	case s.EndpointCA != "":
		authority, err := base64.StdEncoding.DecodeString(s.EndpointCA)
		if err != nil {
			authority, err = os.ReadFile(s.EndpointCA)
		}
		if err != nil {
			return nil, fmt.Errorf("read etcd-s3-endpoint-ca: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(authority) {
			return nil, errors.New("no certificates loaded from etcd-s3-endpoint-ca")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return transport, nil
}

func (s *storage) key(name string) string         { return path.Join(s.Folder, name) }
func (s *storage) metadataKey(name string) string { return path.Join(s.Folder, metadataFolder, name) }

// nodeNameKey is the key of the uploading node in an object's own metadata.
func nodeNameKey(runtime Runtime) string {
	return http.CanonicalHeaderKey(string(runtime) + "-node-name")
}

// upload copies a snapshot of a folder to the bucket, with its metadata.
func (s *storage) upload(ctx context.Context, runtime Runtime, folder snapshotFolder, name string) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout.Duration)
	defer cancel()
	put := func(key, file, contentType string) error {
		_, err := s.client.FPutObject(ctx, s.Bucket, key, file, minio.PutObjectOptions{
			NumThreads: 2, ContentType: contentType, UserMetadata: map[string]string{nodeNameKey(runtime): s.node},
		})
		return err
	}
	if err := put(s.key(name), folder.path(name), "application/octet-stream"); err != nil {
		return fmt.Errorf("upload snapshot: %w", err)
	}
	if _, err := os.Stat(folder.metadata(name)); err != nil {
		return nil // metadata are optional
	}
	if err := put(s.metadataKey(name), folder.metadata(name), "application/json"); err != nil {
		return fmt.Errorf("upload metadata of snapshot: %w", err)
	}
	return nil
}

// download copies a snapshot of the bucket to a folder.
func (s *storage) download(ctx context.Context, folder snapshotFolder, name string) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout.Duration)
	defer cancel()
	err := s.client.FGetObject(ctx, s.Bucket, s.key(name), folder.path(name), minio.GetObjectOptions{})
	if err != nil {
		return fmt.Errorf("download snapshot s3://%s/%s: %w", s.Bucket, s.key(name), err)
	}
	err = s.client.FGetObject(ctx, s.Bucket, s.metadataKey(name), folder.metadata(name), minio.GetObjectOptions{})
	if err != nil && !isMissing(err) {
		return fmt.Errorf("download metadata of snapshot: %w", err)
	}
	return nil
}

func isMissing(err error) bool { return minio.ToErrorResponse(err).StatusCode == http.StatusNotFound }

// objects lists the objects of the folder whose names begin with a prefix.
func (s *storage) objects(ctx context.Context, prefix string) ([]minio.ObjectInfo, error) {
	var out []minio.ObjectInfo
	for info := range s.client.ListObjects(ctx, s.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if info.Err != nil {
			return nil, fmt.Errorf("list snapshots in S3: %w", info.Err)
		}
		out = append(out, info)
	}
	return out, nil
}

// list returns the snapshots of the folder, the oldest first.
func (s *storage) list(ctx context.Context, runtime Runtime) ([]snapshotFile, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout.Duration)
	defer cancel()
	found, err := s.objects(ctx, s.Folder)
	if err != nil {
		return nil, err
	}
	var files []snapshotFile
	for _, info := range found {
		if path.Base(path.Dir(info.Key)) == metadataFolder || info.Size == 0 {
			continue
		}
		stat, err := s.client.StatObject(ctx, s.Bucket, info.Key, minio.StatObjectOptions{})
		if err != nil {
			return nil, fmt.Errorf("look at snapshot %s in S3: %w", info.Key, err)
		}
		file := s.file(path.Base(info.Key), createdAt(path.Base(info.Key), info.LastModified))
		file.Size, file.Node = info.Size, cmp.Or(stat.UserMetadata[nodeNameKey(runtime)], "s3")
		if file.Metadata, err = s.readMetadata(ctx, file.Name); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	slices.SortStableFunc(files, byTime)
	return files, nil
}

// file describes a snapshot in this bucket.
func (s *storage) file(name string, created time.Time) snapshotFile {
	return snapshotFile{Name: name, Location: "s3://" + path.Join(s.Bucket, s.key(name)), Created: created,
		Node: s.node, S3: s.asListed()}
}

// listedS3 is a storage in the cluster's list. It has no credential.
type listedS3 struct {
	Endpoint      string `json:"endpoint,omitempty"`
	EndpointCA    string `json:"endpointCA,omitempty"`
	SkipSSLVerify bool   `json:"skipSSLVerify,omitempty"`
	Bucket        string `json:"bucket,omitempty"`
	Region        string `json:"region,omitempty"`
	Prefix        string `json:"prefix,omitempty"`
	Insecure      bool   `json:"insecure,omitempty"`
}

func (s S3) asListed() *listedS3 {
	return &listedS3{s.Endpoint, s.EndpointCA, s.SkipSSLVerify, s.Bucket, s.Region, s.Folder, s.Insecure}
}

func (s *storage) readMetadata(ctx context.Context, name string) (map[string]string, error) {
	object, err := s.client.GetObject(ctx, s.Bucket, s.metadataKey(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("read metadata of snapshot %s: %w", name, err)
	}
	defer func() { _ = object.Close() }()
	var data bytes.Buffer
	var metadata map[string]string
	if _, err = io.Copy(&data, object); isMissing(err) {
		return nil, nil
	} else if err == nil {
		err = json.Unmarshal(data.Bytes(), &metadata)
	}
	if err != nil {
		return nil, fmt.Errorf("read metadata of snapshot %s: %w", name, err)
	}
	return metadata, nil
}

// remove removes a snapshot with its metadata. It reports whether the snapshot was there.
func (s *storage) remove(ctx context.Context, name string) (bool, error) {
	_, err := s.client.StatObject(ctx, s.Bucket, s.key(name), minio.StatObjectOptions{})
	if isMissing(err) {
		return false, nil
	}
	for _, key := range []string{s.key(name), s.metadataKey(name)} {
		if err == nil {
			err = s.client.RemoveObject(ctx, s.Bucket, key, minio.RemoveObjectOptions{})
		}
	}
	if err != nil {
		return false, fmt.Errorf("remove snapshot %s from S3: %w", name, err)
	}
	return true, nil
}

// prune removes the oldest snapshots of a name and keeps the last ones. As in the real distributions, the snapshots of
// all servers count together, by the time of their upload.
func (s *storage) prune(ctx context.Context, name string, keep int) ([]string, error) {
	if keep < 1 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout.Duration)
	defer cancel()
	found, err := s.objects(ctx, s.key(name))
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(o minio.ObjectInfo) bool {
		return strings.Contains(o.Key, metadataFolder+"/")
	})
	slices.SortStableFunc(found, func(a, b minio.ObjectInfo) int {
		return cmp.Or(a.LastModified.Compare(b.LastModified), cmp.Compare(a.Key, b.Key))
	})
	var removed []string
	for _, info := range found[:max(0, len(found)-keep)] {
		if _, err := s.remove(ctx, path.Base(info.Key)); err != nil {
			return removed, err
		}
		removed = append(removed, path.Base(info.Key))
	}
	return removed, nil
}
