// Package rights checks the rights that the chart gives to Drover's service account. In stories, an API in memory
// rejects what the chart's roles do not permit, and records all requests. Generate makes the rules of the roles from
// the recorded requests, so every rule is needed.
package rights

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const (
	// Record is the environment variable with the folder to which test programs write their requests.
	Record = "DROVER_RIGHTS"
	// Unbound is the environment variable that, if not empty, permits all requests. It serves to find out which rights
	// are needed.
	Unbound = "DROVER_RIGHTS_UNBOUND"
)

// own is what the chart permits to Drover's own controllers and endpoints, without the rights of Cluster API's core.
var own = sync.OnceValues(func() ([]Grant, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(root, File))
	if err != nil {
		return nil, err
	}
	rules, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", File, err)
	}
	grants := slices.DeleteFunc(rules.Grants(), func(g Grant) bool { return g.Role == Core })
	if len(grants) == 0 {
		return nil, fmt.Errorf("%s has no rules", File)
	}
	return grants, nil
})

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, File)); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the working directory must be inside the repository")
}

// Permit returns a function for memkube's option Permit. For clients whose user agent begins with agent, it rejects
// what the chart does not permit and fails the test. It permits everything to other clients.
func Permit(tb testing.TB, agent string) func(memkube.Request) error {
	tb.Helper()
	grants, err := own()
	if err != nil {
		tb.Fatal(err)
	}
	return func(r memkube.Request) error {
		if !strings.HasPrefix(r.Agent, agent) {
			return nil
		}
		asked := Request{Verb: r.Verb, Group: r.Resource.Group, Resource: r.Resource.Resource, Namespace: r.Namespace,
			Name: r.Name}
		if r.Subresource != "" {
			asked.Resource += "/" + r.Subresource
		}
		if os.Getenv(Unbound) != "" || slices.ContainsFunc(grants, func(g Grant) bool { return g.Covers(asked) }) {
			record.add(asked)
			return nil
		}
		tb.Errorf("the chart's roles do not permit: %s", asked)
		return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name,
			errors.New("the chart's roles do not permit it"))
	}
}

// usage is the set of requests of this process.
type usage struct {
	mu   sync.Mutex
	seen map[Request]bool
}

var record = usage{seen: map[Request]bool{}}

// add writes a new request to the file at once, because a test program cannot tell when it ends.
func (u *usage) add(asked Request) {
	dir := os.Getenv(Record)
	if dir == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[asked] {
		return
	}
	u.seen[asked] = true
	if err := write(filepath.Join(dir, strconv.Itoa(os.Getpid())), asked); err != nil {
		panic(err)
	}
}

func write(path string, asked Request) error {
	line, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// Used reads the requests that test programs wrote to a folder. It returns those of Drover's own controllers and
// endpoints, sorted.
func Used(dir string) ([]Grant, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Grant
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(content) {
			asked := Grant{Role: Own}
			if err := json.Unmarshal(line, &asked.Request); err != nil {
				return nil, fmt.Errorf("%s: %w", file.Name(), err)
			}
			out = append(out, asked)
		}
	}
	slices.SortFunc(out, Grant.compare)
	return slices.Compact(out), nil
}
