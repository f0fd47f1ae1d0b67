// Package rights tells stories under the rights that the chart gives to Drover's service account. An API in memory refuses what the roles of the
// chart do not permit, and notes what is used of them, so that a rule nobody needs is found.
package rights

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const (
	// rendered is what the chart renders with the fewest values, below the root of the repository; tests of the chart keep it current.
	rendered = "tests/charts/testdata/golden/minimal.yaml"
	// CoreSuffix ends the name of the role of Cluster API's core.
	CoreSuffix = "-cluster-api"
	// Record names the environment variable with the folder into which test programs write what they have used.
	Record = "DROVER_RIGHTS"
)

// chart is what the chart permits to Drover's own controllers and endpoints, without what it permits to the core of Cluster API.
var chart = sync.OnceValues(func() ([]Grant, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(root, rendered))
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	// What comes first are notes for people.
	for _, document := range strings.Split(string(content), "\n---\n")[1:] {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", rendered, err)
		}
		objects = append(objects, object)
	}
	all, err := Grants(objects)
	if err != nil {
		return nil, err
	}
	var own []Grant
	for _, grant := range all {
		if !strings.HasSuffix(grant.Role, CoreSuffix) {
			own = append(own, grant)
		}
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("%s has no roles", rendered)
	}
	return own, nil
})

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, rendered)); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the repository's root is not above the working directory")
}

// Permit is memkube's option of that name. It refuses clients whose user agents begin with agent what the chart does not permit, which fails the
// test, and lets all others do everything.
func Permit(tb testing.TB, agent string) func(memkube.Request) error {
	tb.Helper()
	grants, err := chart()
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
		for _, grant := range grants {
			if grant.Covers(asked) {
				used.add(grant)
				return nil
			}
		}
		tb.Errorf("the chart's roles do not permit: %s", asked)
		return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, errors.New("the chart's roles do not permit it"))
	}
}

// usage is what this process has used.
type usage struct {
	mu   sync.Mutex
	seen map[Grant]bool
}

var used = usage{seen: map[Grant]bool{}}

// add writes down what is used for the first time, at once: a test program does not know when it ends.
func (u *usage) add(grant Grant) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[grant] {
		return
	}
	u.seen[grant] = true
	if dir := os.Getenv(Record); dir != "" {
		if err := write(filepath.Join(dir, strconv.Itoa(os.Getpid())), grant); err != nil {
			panic(err)
		}
	}
}

func write(path string, grant Grant) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, grant.Request)
	return errors.Join(err, file.Close())
}

// Used reads what test programs have written below a folder: grants of Drover's own role, as String writes them.
func Used(dir string) (map[string]bool, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(content)) {
			out[strings.TrimSpace(line)] = true
		}
	}
	return out, nil
}
