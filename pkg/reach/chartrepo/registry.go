package chartrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// chartType is the media type of a chart's archive in a registry.
const chartType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// fromRegistry downloads the chart from an OCI registry.
func (s *session) fromRegistry(ctx context.Context, known string) (*Chart, error) {
	repository, err := s.repository()
	if err != nil {
		return nil, err
	}
	version := s.request.Version
	if IsFloating(version) {
		if version, err = s.newest(ctx, repository); err != nil {
			return nil, err
		}
	}
	if version == known {
		return &Chart{Version: known}, nil
	}
	archive, err := s.pull(ctx, repository.Tag(tagOf(version)))
	if err != nil {
		return nil, err
	}
	files, err := s.unpack(archive)
	if err != nil {
		return nil, s.broken(version, err)
	}
	return &Chart{Version: version, Files: files}, nil
}

// A tag has no plus sign, so charts have an underscore there.
func tagOf(version string) string        { return strings.ReplaceAll(version, "+", "_") }
func versionOf(tag string) string        { return strings.ReplaceAll(tag, "_", "+") }
func (s *session) path(of string) string { return strings.Trim(s.base.Path, "/") + "/" + of }

// repository returns the chart's place in the registry.
func (s *session) repository() (name.Repository, error) {
	path := strings.TrimPrefix(s.path(s.request.Chart), "/")
	host, err := name.NewRegistry(s.base.Host)
	if err == nil {
		// The host has its own check: without a dot, a library reads it as a part of the path.
		_, err = name.NewRepository("registry.invalid/" + path)
	}
	if err != nil {
		return name.Repository{}, failure(Refused, "spec.repo: %s/%s is no repository of an OCI registry: it must "+
			"have lower case letters, digits and separators", s.request.Repository, s.request.Chart)
	}
	return host.Repo(strings.Split(path, "/")...), nil
}

// newest returns the newest version in the wanted range.
func (s *session) newest(ctx context.Context, repository name.Repository) (string, error) {
	tags, err := remote.List(repository, s.options(ctx, repository)...)
	if err != nil {
		return "", err
	}
	versions := make([]string, 0, len(tags))
	for _, tag := range tags {
		versions = append(versions, versionOf(tag))
	}
	if found := pick(versions, s.request.Version); found != "" {
		return found, nil
	}
	return "", s.missing()
}

// pull returns the archive of a chart. The registry's answers must have the digests that name them.
func (s *session) pull(ctx context.Context, tag name.Tag) ([]byte, error) {
	found, err := remote.Get(tag, s.options(ctx, tag.Repository)...)
	if err != nil {
		return nil, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(found.Manifest))
	if err != nil {
		return nil, s.broken(versionOf(tag.TagStr()), errors.New("its manifest is not valid"))
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != chartType {
			continue
		}
		if layer.Size > archiveLimit {
			return nil, s.tooLarge(archiveLimit)
		}
		blob, err := remote.Layer(tag.Digest(layer.Digest.String()), s.options(ctx, tag.Repository)...)
		if err != nil {
			return nil, err
		}
		content, err := blob.Compressed()
		if err != nil {
			return nil, fmt.Errorf("read the archive: %w", err)
		}
		defer func() { _ = content.Close() }()
		return s.read(content, archiveLimit)
	}
	return nil, s.broken(versionOf(tag.TagStr()), errors.New("it is not a Helm chart"))
}

// options has the credential only for the server that the request names. An index.yaml may name another registry.
func (s *session) options(ctx context.Context, repository name.Repository) []remote.Option {
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(s.transport)}
	own, err := name.NewRegistry(s.base.Host)
	if c := s.request.Credential; c.Username != "" && err == nil && own == repository.Registry {
		options = append(options, remote.WithAuth(authn.FromConfig(authn.AuthConfig{Username: c.Username,
			Password: c.Password})))
	}
	return options
}
