package cmd

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/managementplane/pki"
)

// servingCertificate is a certificate in files that others may renew, such as the kubelet those of a Secret. Every handshake looks
// whether they have changed. What cannot be used, such as a certificate whose key has not come yet, is not: the last one stays.
type servingCertificate struct {
	pair pki.Pair
	log  logrus.FieldLogger

	mu    sync.Mutex
	held  *tls.Certificate
	state string
}

// newServingCertificate reads the files. Here it is an error that they cannot be used.
func newServingCertificate(pair pki.Pair, log logrus.FieldLogger) (*servingCertificate, error) {
	c := &servingCertificate{pair: pair, log: log, state: fileState(pair)}
	var err error
	c.held, err = c.load()
	return c, err
}

// get is for tls.Config.
func (c *servingCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := fileState(c.pair)
	if state == c.state {
		return c.held, nil
	}
	c.state = state
	renewed, err := c.load()
	if err != nil {
		c.log.WithError(err).Warn("The serving certificate has changed and cannot be used; the last one is")
		return c.held, nil
	}
	c.log.Info("The serving certificate was renewed")
	c.held = renewed
	return c.held, nil
}

func (c *servingCertificate) load() (*tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(c.pair.CertFile, c.pair.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	return &certificate, nil
}

// fileState differs when one of the files has become another one. A Secret's files are links that are moved to new ones.
func fileState(pair pki.Pair) string {
	var state strings.Builder
	for _, file := range []string{pair.CertFile, pair.KeyFile} {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(&state, "%d %d ", info.ModTime().UnixNano(), info.Size())
		} else {
			state.WriteString("missing ")
		}
	}
	return state.String()
}

// notAfter is when the certificate that is served now expires, zero when nobody knows.
func notAfter(config *tls.Config) time.Time {
	certificate, err := config.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil || certificate.Leaf == nil {
		return time.Time{}
	}
	return certificate.Leaf.NotAfter
}
