package driverprogram

import (
	"context"
	"crypto/md5"  //nolint:gosec // stored NodeDrivers have MD5 checksums
	"crypto/sha1" //nolint:gosec // stored NodeDrivers have SHA-1 checksums
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// maxDriverBytes limits the size of a download and of a program, so that a wrong URL cannot fill the disk.
const maxDriverBytes = 1 << 30

// downloadTimeout ends a slow download.
const downloadTimeout = 10 * time.Minute

// Source is where a driver is.
type Source struct {
	URL, Checksum string
	// Authorities are certificate authorities in PEM that are trusted in addition to the system's.
	Authorities string
}

// Download fetches a driver, verifies its checksum, and unpacks its program into an existing directory.
func Download(ctx context.Context, source Source, directory string) (driverjob.Download, error) {
	transport, err := transportFor(source.Authorities)
	if err != nil {
		return driverjob.Download{}, err
	}
	client := &http.Client{Timeout: downloadTimeout, Transport: transport, CheckRedirect: keepTLS}
	return download(ctx, client, source, directory)
}

// keepTLS follows no redirect from https to another scheme.
func keepTLS(request *http.Request, via []*http.Request) error {
	const most = 10
	if len(via) >= most {
		return errors.New("too many redirects")
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return errors.New("the server redirects to an address without https")
	}
	return nil
}

func transportFor(authorities string) (http.RoundTripper, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: time.Minute}
	if authorities == "" {
		return transport, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's authorities: %w", err)
	}
	if !roots.AppendCertsFromPEM([]byte(authorities)) {
		return nil, errors.New("the authorities of the server must be certificates in PEM")
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}

func download(ctx context.Context, client *http.Client, source Source, directory string) (driverjob.Download, error) {
	target := filepath.Join(directory, "download")
	if err := get(ctx, client, source.URL, target); err != nil {
		return driverjob.Download{}, err
	}
	defer func() { _ = os.Remove(target) }()
	sum, err := checkFile(target, source.Checksum)
	if err != nil {
		return driverjob.Download{}, err
	}
	name, err := unpack(target, fileName(source.URL), directory)
	return driverjob.Download{Name: name, SHA256: sum}, err
}

func get(ctx context.Context, client *http.Client, location, target string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return errors.New("spec.url: must be a URL such as https://example.com/driver.zip")
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("download the driver: %w", stable(redact.WithoutURL(err)))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("download the driver: %s answered %s", redact.URL(request.URL), response.Status)
	}
	return save(response.Body, target)
}

// stable removes local ports from an error's text, so that it is the same at each retry.
func stable(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if _, local, ok := strings.Cut(inner.Error(), "->"); !ok || local == "" {
			return inner
		}
	}
	return errors.New("the connection broke")
}

// save writes a temporary file and renames it, so that a crash leaves no file that looks complete.
func save(content io.Reader, target string) error {
	file, err := os.CreateTemp(filepath.Dir(target), "partial-")
	if err != nil {
		return fmt.Errorf("store the driver: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	written, err := io.Copy(file, io.LimitReader(content, maxDriverBytes+1))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("download the driver: %w", stable(err))
	}
	if written > maxDriverBytes {
		return fmt.Errorf("spec.url: the driver is larger than %d MiB", maxDriverBytes>>20)
	}
	if err := os.Rename(file.Name(), target); err != nil {
		return fmt.Errorf("store the driver: %w", err)
	}
	return nil
}

// checkFile returns the SHA-256 of a file after verifying its checksum. The length of the checksum determines its
// algorithm.
func checkFile(path, checksum string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the driver: %w", err)
	}
	defer func() { _ = file.Close() }()
	want := strings.ToLower(strings.TrimSpace(checksum))
	own, other := sha256.New(), checksumOf(want)
	if _, err := io.Copy(io.MultiWriter(own, other), file); err != nil {
		return "", fmt.Errorf("read the driver: %w", err)
	}
	if got := hex.EncodeToString(other.Sum(nil)); want != "" && got != want {
		return "", errors.New(driverschema.WrongChecksum(got, want))
	}
	return hex.EncodeToString(own.Sum(nil)), nil
}

func checksumOf(want string) hash.Hash {
	switch len(want) {
	case hex.EncodedLen(md5.Size):
		return md5.New() //nolint:gosec // the user's choice
	case hex.EncodedLen(sha1.Size):
		return sha1.New() //nolint:gosec // the user's choice
	case hex.EncodedLen(sha512.Size):
		return sha512.New()
	default:
		return sha256.New()
	}
}
