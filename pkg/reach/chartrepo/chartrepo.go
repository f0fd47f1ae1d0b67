package chartrepo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Limits of one download.
const (
	// Timeout is the time for a whole download.
	Timeout = time.Minute
	// transferLimit is the number of bytes that the repository may send: index, tags, manifest and archive.
	transferLimit = 32 << 20
	// archiveLimit is the size of a chart's archive. A Bundle holds less.
	archiveLimit = 2 << 20
	// unpackedLimit and fileLimit are the size and the number of the files of a chart.
	unpackedLimit = 32 << 20
	fileLimit     = 5000
)

// ociScheme is the scheme of repositories in OCI registries.
const ociScheme = "oci"

// Request names a chart. Requests are comparable.
type Request struct {
	// Repository is its address: https://, http:// or oci://.
	Repository string
	// Chart is the name of the chart, and Version its version or a range. An empty version is the newest release.
	Chart, Version string
	// Credential is for the repository, if it needs one.
	Credential Credential
}

// Credential opens a repository.
type Credential struct {
	Username, Password string
	// Authorities are certificates in PEM that sign the repository's certificate, in addition to those of the system.
	Authorities string
}

// Chart is a chart of a repository.
type Chart struct {
	// Version is the version of the chart.
	Version string
	// Files are its files; nil if the caller knows the version already.
	Files []fleet.File
}

// Kind says what is wrong with a request.
type Kind int

const (
	// Unavailable means that the repository does not answer as it should. Later it may.
	Unavailable Kind = iota
	// Refused means that the rules do not permit the address or the use of the credential.
	Refused
	// Missing means that the repository does not have the chart or the version.
	Missing
	// Invalid means that the chart cannot be used.
	Invalid
)

// Error says why there is no chart.
type Error struct {
	Kind Kind
	// Message is a stable sentence for users, without credentials.
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func failure(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Client downloads charts. It is safe for concurrent use.
type Client struct {
	servers proxy.Servers
	// parsing lets one index or chart be read at a time, because reading YAML needs many times its size.
	parsing sync.Mutex
}

// New returns a Client with those rules for addresses.
func New(servers proxy.Servers) *Client { return &Client{servers: servers} }

// IsFloating reports whether a version may mean another release later.
func IsFloating(version string) bool {
	_, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	return err != nil
}

// Fetch returns a chart. If the repository's answer is the version known, it returns no files. Every error of the
// request or the repository is an *Error.
func (c *Client) Fetch(ctx context.Context, r Request, known string) (*Chart, error) {
	base, err := c.check(r)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	s, err := c.open(r, base)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var chart *Chart
	if base.Scheme == ociScheme {
		chart, err = s.fromRegistry(limited, known)
	} else {
		chart, err = s.fromIndex(limited, known)
	}
	if err == nil || ctx.Err() != nil {
		return chart, err
	}
	if found, ok := errors.AsType[*Error](err); ok {
		return nil, found
	}
	return nil, s.explain(limited, err)
}

// check refuses wrong requests.
func (c *Client) check(r Request) (*url.URL, error) {
	base, err := parseRepository(r.Repository)
	if err != nil {
		return nil, err
	}
	if r.Chart == "" {
		return nil, failure(Refused, "spec.chart: must be the name of a chart")
	}
	if what := c.servers.RefusesHost(base.Hostname()); what != "" {
		return nil, failure(Refused, "spec.repo: has %s; use an address of the repository that is not %s", what, what)
	}
	if r.Version != "" {
		if _, err := semver.NewConstraint(r.Version); err != nil {
			return nil, failure(Refused, "spec.version: must be a semantic version or a range such as ^1.2")
		}
	}
	return base, nil
}

// parseRepository returns the address of a repository. It refuses an address with a credential, a query or a fragment.
func parseRepository(repository string) (*url.URL, error) {
	base, err := url.Parse(repository)
	switch {
	case repository == "":
		return nil, failure(Refused, "spec.repo: must be the address of a repository: https://HOST/PATH or "+
			"oci://HOST/PATH")
	case err != nil || base.Hostname() == "" ||
		base.Scheme != "https" && base.Scheme != "http" && base.Scheme != ociScheme:
		return nil, failure(Refused, "spec.repo: must be https://HOST/PATH or oci://HOST/PATH")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, failure(Refused, "spec.repo: must have no user, query or fragment; put a credential into a "+
			"Secret, and name it in spec.helmSecretName")
	}
	return base, nil
}

// pick returns the version that is wanted, or the newest one in the wanted range, or "". Without a range it skips
// pre-releases.
func pick(versions []string, wanted string) string {
	constraint, err := semver.NewConstraint(strings.TrimSpace(wanted))
	if wanted == "" {
		constraint, err = semver.NewConstraint("*")
	}
	var newest *semver.Version
	found := ""
	for _, version := range versions {
		if version == wanted {
			return version
		}
		parsed, notSemantic := semver.NewVersion(version)
		if err == nil && notSemantic == nil && constraint.Check(parsed) &&
			(newest == nil || parsed.GreaterThan(newest)) {
			newest, found = parsed, version
		}
	}
	return found
}
