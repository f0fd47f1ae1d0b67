package entrypoint

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// driverPrefix begins the file name of every driver. rancher-machine finds drivers by it.
const driverPrefix = "docker-machine-driver-"

// maxDriverBytes is the largest accepted download or archive member, so that a wrong URL cannot fill the disk.
const maxDriverBytes = 1 << 30

// downloadAttempts is the number of download attempts. The server may be restarting.
const downloadAttempts = 5

// InstallDriver downloads a driver and compares its SHA-256 with hash, unless hash is empty. It installs the driver
// into directory under the name that rancher-machine expects, and returns its path. retryAfter is the time between
// attempts.
func InstallDriver(ctx context.Context, client *http.Client, location, hash, directory string,
	retryAfter time.Duration) (string, error) {
	content, err := download(ctx, client, location, retryAfter)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); hash != "" && !strings.EqualFold(strings.TrimSpace(hash), got) {
		return "", fmt.Errorf("the driver's SHA-256 is %s, want %s; its file has changed since the NodeDriver was "+
			"installed: restore the file, or set spec.checksum of the NodeDriver to the checksum of a file that you "+
			"trust",
			got, hash)
	}
	name, program, err := unpack(lastSegment(location), content)
	if err != nil {
		return "", err
	}
	target := filepath.Join(directory, driverPrefix+name)
	if err := os.WriteFile(target, program, 0o755); err != nil {
		return "", fmt.Errorf("install the driver: %w", err)
	}
	return target, nil
}

func lastSegment(location string) string {
	if parsed, err := url.Parse(location); err == nil {
		return path.Base(parsed.Path)
	}
	return path.Base(location)
}

func download(ctx context.Context, client *http.Client, location string, retryAfter time.Duration) ([]byte, error) {
	var last error
	for attempt := range downloadAttempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(retryAfter):
			}
		}
		content, retry, err := get(ctx, client, location)
		if err == nil {
			return content, nil
		}
		last = err
		if !retry {
			break
		}
	}
	return nil, last
}

// get also reports whether a retry can help.
func get(ctx context.Context, client *http.Client, location string) (content []byte, retry bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, false, fmt.Errorf("download the driver: %w", err)
	}
	// The error ends up in conditions, and the query may be a signature.
	shown, _, _ := strings.Cut(request.URL.Redacted(), "?")
	response, err := client.Do(request)
	if err != nil {
		if urlError, ok := errors.AsType[*url.Error](err); ok {
			err = urlError.Err
		}
		return nil, ctx.Err() == nil, fmt.Errorf("download the driver: %s: %w", shown, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		retry = response.StatusCode >= http.StatusInternalServerError ||
			response.StatusCode == http.StatusTooManyRequests
		return nil, retry, fmt.Errorf("download the driver: %s answered %s", shown, response.Status)
	}
	content, err = readLimited(response.Body)
	if err != nil {
		return nil, true, fmt.Errorf("download the driver: %w", err)
	}
	return content, false, nil
}

func readLimited(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxDriverBytes+1))
	if err == nil && len(content) > maxDriverBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxDriverBytes)
	}
	return content, err
}

// unpack returns the program and the driver's name without its prefix. fileName is the name of the download.
func unpack(fileName string, content []byte) (name string, program []byte, err error) {
	switch {
	case isProgram(content):
		name, ok := driverName(fileName)
		if !ok {
			return "", nil, fmt.Errorf("the driver's file name is %q, want %sNAME", fileName, driverPrefix)
		}
		return name, content, nil
	case bytes.HasPrefix(content, []byte("PK\x03\x04")):
		return fromZip(content)
	case bytes.HasPrefix(content, []byte{0x1f, 0x8b}):
		return fromTar(content)
	default:
		return "", nil, errors.New("the driver must be an ELF program, a zip or a gzipped tar")
	}
}

func fromZip(content []byte) (string, []byte, error) {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return "", nil, fmt.Errorf("open the driver's zip: %w", err)
	}
	for _, member := range archive.File {
		name, ok := driverName(path.Base(member.Name))
		if !ok {
			continue
		}
		file, err := member.Open()
		if err != nil {
			return "", nil, fmt.Errorf("read the driver's zip: %w", err)
		}
		program, err := readLimited(file)
		_ = file.Close()
		if err != nil {
			return "", nil, fmt.Errorf("read the driver's zip: %w", err)
		}
		if isProgram(program) {
			return name, program, nil
		}
	}
	return "", nil, fmt.Errorf("the driver's zip must contain a program named %sNAME", driverPrefix)
}

func fromTar(content []byte) (string, []byte, error) {
	plain, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return "", nil, fmt.Errorf("open the driver's tar: %w", err)
	}
	for archive := tar.NewReader(plain); ; {
		member, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return "", nil, fmt.Errorf("the driver's tar must contain a program named %sNAME", driverPrefix)
		}
		if err != nil {
			return "", nil, fmt.Errorf("read the driver's tar: %w", err)
		}
		name, ok := driverName(path.Base(member.Name))
		if !ok || member.Typeflag != tar.TypeReg {
			continue
		}
		program, err := readLimited(archive)
		if err != nil {
			return "", nil, fmt.Errorf("read the driver's tar: %w", err)
		}
		if isProgram(program) {
			return name, program, nil
		}
	}
}

func isProgram(content []byte) bool { return bytes.HasPrefix(content, []byte("\x7fELF")) }

// driverName returns the text after the prefix up to the first "-", "_" or ".", because releases append platform and
// version.
func driverName(fileName string) (string, bool) {
	rest, ok := strings.CutPrefix(fileName, driverPrefix)
	if !ok {
		return "", false
	}
	if i := strings.IndexAny(rest, "-_."); i >= 0 {
		rest = rest[:i]
	}
	return rest, rest != ""
}
