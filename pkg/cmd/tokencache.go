package cmd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
)

// keptToken is a token for the authorized endpoint of a cluster, as it is kept.
type keptToken struct {
	Token   string    `json:"token"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
	// Who is a mark of the credential that it was given for, see whose.
	Who string `json:"who"`
	// Client is the process that got it last, see tokenOptions.client.
	Client int `json:"client,omitempty"`
}

// worth is what a token that was kept is good for now.
type worth int

const (
	// worthNothing: another one is needed.
	worthNothing worth = iota
	// worthMakeshift: it is used when no other can be had.
	worthMakeshift
	// worthEnough: nobody need be asked.
	worthEnough
)

// worth tells what a token is good for when somebody with another mark asks; who is empty when it cannot be found out.
func (k keptToken) worth(who string, now time.Time) worth {
	switch {
	case k.Token == "" || !now.Before(k.Expires):
		return worthNothing
	case who == k.Who && k.Expires.Sub(now) > k.Expires.Sub(k.Issued)/3:
		return worthEnough
	case who == "" || who == k.Who || strings.HasPrefix(who, anyToken) && strings.HasPrefix(k.Who, anyToken):
		return worthMakeshift
	}
	return worthNothing // it is somebody else's
}

// What marks begin with. Tokens that tell nothing of their user are other ones each time, for the same user and for another one.
const (
	anyToken    = "token "
	namedToken  = "user "
	certificate = "certificate "
)

// whose is a mark that stays the same while a credential is that of the same user, as far as it tells.
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
	content, _ := json.Marshal(parts) // strings
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// tokenCache is the file in which a token is kept; without a path nothing is.
type tokenCache struct{ path string }

// cacheFor is that for a cluster, for whom a kubeconfig says, and by way of a server. Nothing of a credential can be read from its name.
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
			return tokenCache{}, fmt.Errorf("name a cache: %w", err)
		}
		parts = append(parts, string(content))
	}
	return tokenCache{path: filepath.Join(folder, "drover", "endpoint-tokens", hashed(parts...)+".json")}, nil
}

// largestKept is more than a token needs, in bytes.
const largestKept = 256 << 10

// read returns what is kept. A file that others may read, or that cannot be read, is as good as none.
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

// write keeps a token, in a file of nobody else's.
func (c tokenCache) write(k keptToken) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep the token: %w", err)
		}
	}()
	if c.path == "" {
		return nil
	}
	content, err := json.Marshal(k)
	if err != nil {
		return err
	}
	folder := filepath.Dir(c.path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), c.path) // another drover token reads the one or the other
	}
	if err != nil {
		os.Remove(file.Name())
	}
	removeEnded(folder, time.Now())
	return err
}

// removeEnded takes away what is kept in a folder and good for nothing: it is for clusters, and by way of kubeconfigs, that nobody may ask for again.
func removeEnded(folder string, now time.Time) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.json")) // the pattern is right
	for _, path := range files {
		other := tokenCache{path: path}
		if kept := other.read(); kept.Token != "" && !now.Before(kept.Expires) {
			other.forget()
		}
	}
}

func (c tokenCache) forget() { os.Remove(c.path) }
