package nodedriver

import (
	"context"
	"crypto/md5"  //nolint:gosec // stored NodeDrivers have MD5 checksums
	"crypto/sha1" //nolint:gosec // stored NodeDrivers have SHA-1 checksums
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// maxDriverBytes limits the size of a download and of a program, so that a wrong URL cannot fill the disk.
const maxDriverBytes = 1 << 30

// driverFile is a downloaded driver.
type driverFile struct {
	// program is the path of the unpacked program, name the driver's name from its file name.
	program, name string
	// sha256 is the checksum of the download, in hexadecimal.
	sha256 string
}

// fetch downloads a driver unless it is already on disk, checks it and unpacks it.
func (h *handler) fetch(location, checksum string) (driverFile, error) {
	directory := filepath.Join(h.Directory, driverschema.CacheKey(location, checksum))
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return driverFile{}, &transientError{fmt.Errorf("store the driver: %w", err)}
	}
	download := filepath.Join(directory, "download")
	sum, err := checkFile(download, checksum)
	if err != nil {
		if err := h.download(location, download); err != nil {
			return driverFile{}, err
		}
		if sum, err = checkFile(download, checksum); err != nil {
			_ = os.Remove(download)
			return driverFile{}, err
		}
	}
	program, name, err := unpack(download, fileName(location), directory)
	return driverFile{program: program, name: name, sha256: sum}, err
}

func (h *handler) download(location, target string) error {
	ctx, cancel := context.WithTimeout(h.Working, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return errors.New("spec.url: must be a URL such as https://example.com/driver.zip")
	}
	response, err := h.HTTP.Do(request)
	if err != nil {
		return &transientError{fmt.Errorf("download the driver: %w", stable(redact.WithoutURL(err)))}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		err := fmt.Errorf("download the driver: %s answered %s", redact.URL(request.URL), response.Status)
		if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone {
			return err
		}
		return &transientError{err}
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
		return &transientError{fmt.Errorf("store the driver: %w", err)}
	}
	defer func() { _ = os.Remove(file.Name()) }()
	written, err := io.Copy(file, io.LimitReader(content, maxDriverBytes+1))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return &transientError{fmt.Errorf("download the driver: %w", stable(err))}
	}
	if written > maxDriverBytes {
		return fmt.Errorf("spec.url: the driver is larger than %d MiB", maxDriverBytes>>20)
	}
	if err := os.Rename(file.Name(), target); err != nil {
		return &transientError{fmt.Errorf("store the driver: %w", err)}
	}
	return nil
}

// checkFile returns the SHA-256 of a file after verifying its checksum. The length of the checksum determines its
// algorithm.
func checkFile(path, checksum string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", &transientError{fmt.Errorf("read the driver: %w", err)}
	}
	defer func() { _ = file.Close() }()
	want := strings.ToLower(strings.TrimSpace(checksum))
	own, other := sha256.New(), checksumOf(want)
	if _, err := io.Copy(io.MultiWriter(own, other), file); err != nil {
		return "", &transientError{fmt.Errorf("read the driver: %w", err)}
	}
	if got := hex.EncodeToString(other.Sum(nil)); want != "" && got != want {
		return "", fmt.Errorf("spec.checksum: the driver's checksum is %s, want %s", got, want)
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
