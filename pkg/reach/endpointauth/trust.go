package endpointauth

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

const (
	// lookAgain is how often requests check the file for changes.
	lookAgain = time.Second
	// largestFile is larger than any ConfigMap, in bytes.
	largestFile = 2 << 20
)

// trusted are the keys in a file.
type trusted struct {
	path string
	log  logrus.FieldLogger

	mu      sync.Mutex
	looked  time.Time
	content string
	trust   *endpointtoken.Trust
	problem string
}

// current returns the current keys, or nil if the file is unreadable. The previous keys are dropped then, because they
// may have been revoked.
func (f *trusted) current(now time.Time) *endpointtoken.Trust {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := now.Sub(f.looked); !f.looked.IsZero() && age >= 0 && age < lookAgain {
		return f.trust
	}
	f.looked = now
	content, err := read(f.path)
	if err == nil && f.trust != nil && content == f.content {
		return f.trust
	}
	var trust *endpointtoken.Trust
	if err == nil {
		trust, err = endpointtoken.ParseTrust([]byte(content))
	}
	f.content, f.trust = content, trust
	f.tell(err)
	return f.trust
}

// tell logs each new problem with the file once, and each successful read.
func (f *trusted) tell(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	switch {
	case err == nil:
		f.log.WithField("audience", f.trust.Audience).Info("Read the keys of the cluster's tokens")
	case problem != f.problem:
		f.log.WithError(err).Warn("Cannot read the keys of the cluster's tokens; no token is valid until the keys " +
			"are readable")
	}
	f.problem = problem
}

func read(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open keys: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, largestFile))
	if err != nil {
		return "", fmt.Errorf("read keys: %w", err)
	}
	return string(content), nil
}
