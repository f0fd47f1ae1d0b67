// Package plane starts a management plane for the contract tests of a package.
//
//	func TestMain(m *testing.M) { os.Exit(plane.Main(m, plane.Options{})) }
//
//	func TestSomething(t *testing.T) { config := plane.Config(t, "tester") … }
//
// The plane starts once per test program and stops when its tests are done. Every test uses its own namespace
// (Namespace), so that tests of one package do not see each other's objects.
package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/audit"
)

// Options are what the tests of a package need in addition to etcd and the API server.
type Options struct {
	// Components are additional components, with the names of managementplane.
	Components []string
	// Controllers limits the controller manager, in the syntax of its flag.
	Controllers []string
	// Images maps images to programs for the process kubelet, if that is one of the components.
	Images []managementplane.Image
	// Networks are network namespaces for pods of the process kubelet. BindAddress is the address at which they reach
	// the API server, 127.0.0.1 by default.
	Networks    []managementplane.Network
	BindAddress string
	// APIServerArgs are additional flags of the API server.
	APIServerArgs []string
	// WithoutCRDs leaves the installation of Drover's CRDs to the tests.
	WithoutCRDs bool
}

// Account is the name of the service account of the chart's Drover. The audit log contains its requests.
const Account = "system:serviceaccount:drover-system:drover"

var (
	running *managementplane.Plane
	options Options
)

// Main starts the plane, runs the tests, stops the plane and returns the exit code.
func Main(m *testing.M, opts Options) int {
	dir, err := os.MkdirTemp("", "drover-contract-")
	if err != nil {
		return fail(err)
	}
	code, err := runTests(m, dir, opts)
	if err != nil {
		code = fail(err)
	}
	if code != 0 && os.Getenv("DROVER_KEEP") != "" {
		fmt.Fprintln(os.Stderr, "contract: logs and data are kept in", dir)
		return code
	}
	if err := os.RemoveAll(dir); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "contract:", err)
	return 1
}

func runTests(m *testing.M, dir string, opts Options) (int, error) {
	plane, err := start(dir, opts)
	if err != nil {
		return 1, err
	}
	defer plane.Stop()
	running, options = plane, opts
	return m.Run(), nil
}

func start(dir string, opts Options, apiServerArgs ...string) (*managementplane.Plane, error) {
	kube, err := Binary("drover-kube")
	if err != nil {
		return nil, err
	}
	log := logrus.New()
	log.SetLevel(logrus.WarnLevel)
	plane, err := managementplane.New(managementplane.Config{
		Dir: dir, KubeBinary: kube, Components: opts.Components, Controllers: opts.Controllers,
		Images: opts.Images, Networks: opts.Networks, BindAddress: opts.BindAddress, EndPods: true, AuditLog: true,
		AuditUsers: []string{Account}, APIServerArgs: slices.Concat(opts.APIServerArgs, apiServerArgs), Log: log,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := plane.Start(ctx); err != nil {
		return nil, err
	}
	if !opts.WithoutCRDs {
		if err := installCRDs(ctx, plane.RESTConfig()); err != nil {
			plane.Stop()
			return nil, err
		}
	}
	return plane, nil
}

// Another starts a second management plane for the duration of a test. Its API server may have additional flags.
func Another(tb testing.TB, apiServerArgs ...string) *managementplane.Plane {
	tb.Helper()
	another, err := start(tb.TempDir(), options, apiServerArgs...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(another.Stop)
	return another
}

func installCRDs(ctx context.Context, config *rest.Config) error {
	all, err := crds.All()
	if err != nil {
		return err
	}
	client, err := apiextclient.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = crds.Ensure(ctx, client.ApiextensionsV1().CustomResourceDefinitions(), all, crds.Options{})
	return err
}

// Running returns the plane of the package.
func Running(tb testing.TB) *managementplane.Plane {
	tb.Helper()
	return plane(tb)
}

// Binary returns the path of a program from scripts/build, in the directory in DROVER_BIN or in bin/.
func Binary(name string) (string, error) {
	dir := os.Getenv("DROVER_BIN")
	if dir == "" {
		root, err := FindRoot()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "bin")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing; build it with `make build`: %w", name, err)
	}
	return path, nil
}

// FindRoot finds the root of the repository above the working directory.
func FindRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "tests", "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the working directory must be inside the repository")
}

// Root returns the root of the repository.
func Root(tb testing.TB) string {
	tb.Helper()
	root, err := FindRoot()
	if err != nil {
		tb.Fatal(err)
	}
	return root
}

// Config returns an administrator's client configuration with a user agent, by which Writes distinguishes clients.
func Config(tb testing.TB, userAgent string) *rest.Config {
	tb.Helper()
	config := plane(tb).RESTConfig()
	config.UserAgent = userAgent
	config.QPS = -1
	return config
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func Kubeconfig(tb testing.TB) string {
	tb.Helper()
	return plane(tb).Kubeconfig()
}

// Dir returns the data directory of the plane.
func Dir(tb testing.TB) string {
	tb.Helper()
	return filepath.Dir(plane(tb).Kubeconfig())
}

func plane(tb testing.TB) *managementplane.Plane {
	tb.Helper()
	if running == nil {
		tb.Fatal("no plane runs: TestMain must call plane.Main")
	}
	return running
}

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace creates a namespace for a test, named after it, and deletes it when the test is done.
func Namespace(tb testing.TB) string {
	tb.Helper()
	client, err := kubernetes.NewForConfig(Config(tb, "contract-tests"))
	if err != nil {
		tb.Fatal(err)
	}
	name := strings.Trim(unfit.ReplaceAllString(strings.ToLower(tb.Name()), "-"), "-")
	if len(name) > 50 {
		name = name[:50]
	}
	made, err := client.CoreV1().Namespaces().Create(tb.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("create namespace: %v", err)
	}
	tb.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.WithoutCancel(tb.Context()), made.Name,
			metav1.DeleteOptions{}); err != nil {
			tb.Errorf("delete namespace: %v", err)
		}
	})
	return made.Name
}

// Writes returns the writes since a moment by clients whose user agents contain a text, without those of Leases and
// Events.
func Writes(tb testing.TB, userAgent string, since time.Time) []audit.Write {
	tb.Helper()
	all, err := audit.ReadWrites(plane(tb).AuditLog())
	if err != nil {
		tb.Fatal(err)
	}
	var out []audit.Write
	for _, write := range all {
		if strings.Contains(write.UserAgent, userAgent) && write.Time.After(since) && !write.Bookkeeping() {
			out = append(out, write)
		}
	}
	return out
}

// Until calls condition until it returns "". Other texts describe what it waits for. At the deadline it fails the test
// with the last text.
func Until(tb testing.TB, timeout time.Duration, condition func() string) {
	tb.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := condition()
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("still not after %s: %s", timeout, missing)
		case <-tb.Context().Done():
			tb.Fatalf("cancelled while waiting: %s", missing)
		}
	}
}
