package chartrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// index is the part of an index.yaml that a download needs.
type index struct {
	Entries map[string][]*entry `json:"entries"`
}

// entry is one version of a chart.
type entry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// fromIndex downloads the chart from a repository with an index.yaml.
func (s *session) fromIndex(ctx context.Context, known string) (*Chart, error) {
	text, err := s.get(ctx, s.base.JoinPath("index.yaml"), transferLimit)
	if err != nil {
		return nil, err
	}
	found, err := s.choose(text)
	if err != nil {
		return nil, err
	}
	if found.Version == known {
		return &Chart{Version: known}, nil
	}
	archive, err := s.archive(ctx, found)
	if err != nil {
		return nil, err
	}
	files, err := s.unpack(archive)
	if err != nil {
		return nil, s.broken(found.Version, err)
	}
	return &Chart{Version: found.Version, Files: files}, nil
}

// choose returns the entry of the wanted version.
func (s *session) choose(text []byte) (*entry, error) {
	s.client.parsing.Lock()
	defer s.client.parsing.Unlock()
	all, err := entriesOf(text, s.request.Chart)
	if err != nil {
		return nil, failure(Unavailable, "spec.repo: index.yaml of repository %s %s", s.request.Repository, err)
	}
	var versions []string
	byVersion := map[string]*entry{}
	for _, each := range all {
		if each != nil && len(each.URLs) > 0 {
			versions = append(versions, each.Version)
			byVersion[each.Version] = each
		}
	}
	if len(versions) == 0 {
		return nil, failure(Missing, "spec.chart: repository %s has no chart %s", s.request.Repository, s.request.Chart)
	}
	found := byVersion[pick(versions, s.request.Version)]
	if found == nil {
		return nil, s.missing()
	}
	return found, nil
}

// archive downloads the archive of an entry and compares its checksum.
func (s *session) archive(ctx context.Context, of *entry) ([]byte, error) {
	at, err := url.Parse(of.URLs[0])
	if err != nil {
		return nil, s.broken(of.Version, errors.New("its address in index.yaml is not a URL"))
	}
	if at.Scheme == ociScheme {
		reference, err := name.NewTag(at.Host + at.Path)
		if err != nil {
			return nil, s.broken(of.Version, errors.New("its address in index.yaml is not a URL"))
		}
		return s.pull(ctx, reference)
	}
	base := *s.base
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	archive, err := s.get(ctx, base.ResolveReference(at), archiveLimit)
	if err != nil {
		return nil, err
	}
	digest := strings.ToLower(strings.TrimPrefix(of.Digest, "sha256:"))
	if digest != "" && digest != naming.SHA256(archive) {
		return nil, s.broken(of.Version, errors.New("its archive does not have the digest in index.yaml"))
	}
	return archive, nil
}

// get downloads a file. The credential goes only to the server of the repository.
func (s *session) get(ctx context.Context, from *url.URL, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("request a file: %w", err)
	}
	if c := s.request.Credential; c.Username != "" && from.Scheme == s.base.Scheme && from.Host == s.base.Host {
		request.SetBasicAuth(c.Username, c.Password)
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, s.badStatus(answer.StatusCode)
	}
	return s.read(answer.Body, limit)
}

func (s *session) read(from io.Reader, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, s.tooLarge(limit)
	}
	return content, nil
}

func (s *session) tooLarge(limit int64) *Error {
	return failure(Invalid, "spec.chart: chart %s is larger than %d MiB", s.request.Chart, limit>>20)
}

// broken says why a version of the chart cannot be used.
func (s *session) broken(version string, why error) *Error {
	return failure(Invalid, "spec.version: version %s of chart %s in repository %s cannot be used: %s", version,
		s.request.Chart, s.request.Repository, why)
}
