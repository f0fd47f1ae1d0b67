package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/local/localfile"
)

// keptToken is a cached token for the authorized endpoint of a cluster.
type keptToken struct {
	Token   string    `json:"token"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
	// Who is a mark of the credential for which the token was issued, see whose.
	Who string `json:"who"`
	// Client is the process that got the token last, see tokenOptions.client.
	Client int `json:"client,omitempty"`
}

// worth is the use of a cached token.
type worth int

const (
	// worthNothing: a new token is needed.
	worthNothing worth = iota
	// worthMakeshift: the token serves if no new one is available.
	worthMakeshift
	// worthEnough: no request is needed.
	worthEnough
)

// worth returns the use of a token for the user with the mark who. who is empty if the user is unknown.
func (k keptToken) worth(who string, now time.Time) worth {
	switch {
	case k.Token == "" || !now.Before(k.Expires):
		return worthNothing
	case who == k.Who && k.Expires.Sub(now) > k.Expires.Sub(k.Issued)/3:
		return worthEnough
	case who == "" || who == k.Who || strings.HasPrefix(who, anyToken) && strings.HasPrefix(k.Who, anyToken):
		return worthMakeshift
	}
	return worthNothing // another user's token
}

// The beginnings of marks. Tokens without a user get a different mark each time, for the same user and for others.
const (
	anyToken    = "token "
	namedToken  = "user "
	certificate = "certificate "
)

// whose returns a mark that is stable for one user, as far as the credential names its user.
func whose(credential *clientauthv1.ExecCredential) string {
	if token := credential.Status.Token; token != "" {
		claims := struct {
			Issuer  string `json:"iss"`
			Subject string `json:"sub"`
		}{}
		if readClaims(token, &claims) && claims.Subject != "" {
			return namedToken + hashed(claims.Issuer, claims.Subject)
		}
		return anyToken + hashed(token)
	}
	return certificate + hashed(credential.Status.ClientCertificateData)
}

func hashed(parts ...string) string {
	content, _ := json.Marshal(parts) // strings always encode
	return naming.SHA256(content)
}

// tokenCache is the file that caches a token. An empty path means no cache.
type tokenCache struct{ path string }

// cacheFor returns the cache for a cluster, the identity in the kubeconfig, and a server. The file name is a hash and
// reveals no credential.
func cacheFor(config *rest.Config, cluster, server string) (tokenCache, error) {
	folder, err := os.UserCacheDir()
	if err != nil {
		return tokenCache{}, nil //nolint:nilerr // there is none where a process has no home, and tokens are good there, too
	}
	parts := []string{
		cluster, server, config.Host, config.APIPath, string(config.CAData), config.CAFile, config.ServerName,
		config.Username, config.BearerToken, config.BearerTokenFile, string(config.CertData), config.CertFile,
	}
	for _, more := range []any{config.ExecProvider, config.AuthProvider} {
		content, err := json.Marshal(more)
		if err != nil {
			return tokenCache{}, fmt.Errorf("find the cache folder: %w", err)
		}
		parts = append(parts, string(content))
	}
	return tokenCache{path: filepath.Join(folder, "drover", "endpoint-tokens", hashed(parts...)+".json")}, nil
}

// largestKept is the limit for a cache file, in bytes.
const largestKept = 256 << 10

// read returns the cached token. It ignores a file that other users can read, or that is unreadable.
func (c tokenCache) read() keptToken {
	file, err := os.Open(c.path)
	if err != nil {
		return keptToken{}
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil || about.Mode().Perm()&0o077 != 0 {
		return keptToken{}
	}
	content, err := io.ReadAll(io.LimitReader(file, largestKept))
	var k keptToken
	if err != nil || json.Unmarshal(content, &k) != nil {
		return keptToken{}
	}
	return k
}

// write caches a token in a file that only the user can read.
func (c tokenCache) write(k keptToken) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("store the token: %w", err)
		}
	}()
	if c.path == "" {
		return nil
	}
	content, err := json.Marshal(k)
	if err != nil {
		return err
	}
	err = localfile.Write(c.path, content) // a concurrent drover token reads the old or the new file
	removeEnded(filepath.Dir(c.path), time.Now())
	return err
}

// removeEnded removes expired tokens from a folder. Their clusters or kubeconfigs may never be used again.
func removeEnded(folder string, now time.Time) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.json")) // the pattern is valid
	for _, path := range files {
		other := tokenCache{path: path}
		if kept := other.read(); kept.Token != "" && !now.Before(kept.Expires) {
			other.forget()
		}
	}
}

func (c tokenCache) forget() { os.Remove(c.path) }
