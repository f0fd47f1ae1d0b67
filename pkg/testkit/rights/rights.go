// Package rights knows the rights that the chart gives to Drover's service account. It tells stories under them: an API in memory refuses what the
// roles of the chart do not permit, and notes what is asked for. And it makes the rules of the roles out of what was asked for (Generate), so that
// there is none that nobody needs.
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
	// Record names the environment variable with the folder into which test programs write what they have asked for.
	Record = "DROVER_RIGHTS"
	// Unbound names the environment variable that lets test programs ask for anything, to find out what they need, when it is not empty.
	Unbound = "DROVER_RIGHTS_UNBOUND"
)

// own is what the chart permits to Drover's own controllers and endpoints, without what it permits to the core of Cluster API.
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
	return "", errors.New("the repository's root is not above the working directory")
}

// Permit is memkube's option of that name. It refuses clients whose user agents begin with agent what the chart does not permit, which fails the
// test, and lets all others do everything.
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
		asked := Request{Verb: r.Verb, Group: r.Resource.Group, Resource: r.Resource.Resource, Namespace: r.Namespace, Name: r.Name}
		if r.Subresource != "" {
			asked.Resource += "/" + r.Subresource
		}
		if os.Getenv(Unbound) != "" || slices.ContainsFunc(grants, func(g Grant) bool { return g.Covers(asked) }) {
			record.add(asked)
			return nil
		}
		tb.Errorf("the chart's roles do not permit: %s", asked)
		return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, errors.New("the chart's roles do not permit it"))
	}
}

// usage is what this process has asked for.
type usage struct {
	mu   sync.Mutex
	seen map[Request]bool
}

var record = usage{seen: map[Request]bool{}}

// add writes down what is asked for the first time, at once: a test program does not know when it ends.
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

// Used reads what test programs have written below a folder: what Drover's own controllers and endpoints asked for, sorted.
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
