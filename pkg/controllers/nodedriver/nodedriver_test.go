package nodedriver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/machine/libmachine/mcnflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// TestMain makes this test program act as a node driver when it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv("MACHINE_PLUGIN_TOKEN") == "42" {
		playDriver(os.Getenv("MACHINE_PLUGIN_DRIVER_NAME"))
		return
	}
	memkube.VirtualTime()
	m.Run()
}

// flags implements the part of the plugin protocol that the server uses.
type flags struct {
	version int
	list    []mcnflag.Flag
}

func (f *flags) GetVersion(_ *struct{}, reply *int) error { *reply = f.version; return nil }

func (f *flags) GetCreateFlags(_ *struct{}, reply *[]mcnflag.Flag) error { *reply = f.list; return nil }

func say(line any) { _, _ = fmt.Fprintln(os.Stdout, line) }

// playDriver acts as a driver, working or broken.
func playDriver(name string) {
	registerFlags()
	if port, ok := strings.CutPrefix(name, "borrowed-"); ok {
		say("127.0.0.1:" + port)
		<-time.After(time.Hour)
	}
	served := &flags{version: 1, list: []mcnflag.Flag{
		&mcnflag.StringFlag{Name: name + "-token", Usage: "Token", EnvVar: "TOKEN"},
		&mcnflag.IntFlag{Name: name + "-cpu-count", Value: 2},
		&mcnflag.BoolFlag{Name: name + "-fast"}, &mcnflag.StringSliceFlag{Name: name + "-tags", Value: []string{"a"}},
	}}
	service := "RPCServerDriver"
	switch name {
	case "silent":
		<-time.After(time.Hour)
	case "chatty":
		say("hello, I am not a driver")
		return
	case "elsewhere":
		say("192.0.2.1:80")
		<-time.After(time.Hour)
	case "closed":
		say("127.0.0.1:1")
		<-time.After(time.Hour)
	case "future":
		served.version = 2
	case "nameless":
		served.list = []mcnflag.Flag{&mcnflag.StringFlag{Name: "url"}}
	case "ancient":
		service = "RpcServerDriver"
	case "other":
		service = "Something"
	}
	server := rpc.NewServer()
	if err := server.RegisterName(service, served); err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle(rpc.DefaultRPCPath, server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	say(listener.Addr())
	for _, variable := range os.Environ() { // a driver must not see the server's environment
		if strings.HasPrefix(variable, "DROVER_SECRET") {
			panic(variable)
		}
	}
	panic(http.Serve(listener, mux))
}

func self(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestAsk(t *testing.T) {
	t.Setenv("DROVER_SECRET", "x")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := []driverschema.Flag{
		{Name: "sim-token", Type: driverschema.FlagString, Usage: "Token", EnvVar: "TOKEN"},
		{Name: "sim-cpu-count", Type: driverschema.FlagInt, Default: "2"},
		{Name: "sim-fast", Type: driverschema.FlagBool},
		{Name: "sim-tags", Type: driverschema.FlagList, List: []string{"a"}},
	}
	for name, wantErr := range map[string]string{
		"sim": "", "ancient": "", "silent": "in time", "chatty": "not a local address",
		"elsewhere": "not a local address",
		"closed":    "does not answer", "future": "version 2", "other": "does not know the plugin protocol",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			got, err := ask(ctx, program, name)
			if wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), wantErr) {
					t.Errorf("error is %v, want %q", err, wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if name == "sim" {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("flags (-want +got):\n%s", diff)
				}
			}
		})
	}
	if _, err := ask(t.Context(), filepath.Join(t.TempDir(), "missing"), "sim"); err == nil ||
		strings.Contains(err.Error(), "/") {
		t.Errorf("a missing program: %v, want an error without the path", err)
	}
}

// TestAsk_ForeignListener: ask returns in time even if a program prints the address of a listener that survives
// it and never answers.
func TestAsk_ForeignListener(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]string{
		"silent": "", "silent after the handshake": "HTTP/1.0 200 Connected to Go RPC\n\n",
		"stops in the middle": "HTTP/1.0 200",
		"sends without end":   "HTTP/1.0 200 OK\n" + strings.Repeat("Header: x\n", 1000),
		"refuses":             "HTTP/1.0 405 Must CONNECT\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = listener.Close() }()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, answer)
				_, _ = io.Copy(io.Discard, conn) // until the other side closes the connection
			}()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			asked := make(chan error, 1)
			go func() {
				_, err := ask(ctx, program, fmt.Sprintf("borrowed-%d", listener.Addr().(*net.TCPAddr).Port))
				asked <- err
			}()
			select {
			case err := <-asked:
				if err == nil || !strings.Contains(err.Error(), "is not a driver") {
					t.Errorf("error is %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("the worker is blocked")
			}
			<-closed
		})
	}
}

type installation struct {
	*testing.T
	c *clients.Clients
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	c, err := clients.New(memkube.New(memkube.Options{CRDs: definitions}).Config("test"),
		clients.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	err = Register(c.HandlerContext(),
		Deps{NodeDrivers: c.Management.NodeDriver(), DynamicSchemas: c.Management.DynamicSchema(),
			Directory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); c.Stop() })
	return &installation{T: t, c: c}
}

func (i *installation) add(name string, spec mgmtv3.NodeDriverSpec, annotations map[string]string) {
	i.Helper()
	spec.Active = true
	_, err := i.c.Management.NodeDriver().Create(
		&mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec})
	if err != nil {
		i.Fatal(err)
	}
}

// await waits until a condition of a driver has a status, and returns the driver.
func (i *installation) await(name, kind, status string) *mgmtv3.NodeDriver {
	i.Helper()
	var driver *mgmtv3.NodeDriver
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		var err error
		driver, err = i.c.Management.NodeDriver().Get(name, metav1.GetOptions{})
		if err != nil {
			i.Fatal(err)
		}
		if c := conditions.Get(driver.Status.Conditions, kind); c != nil && c.Status == status {
			return driver
		}
		<-time.After(20 * time.Millisecond)
	}
	i.Fatalf("condition %s of %s does not become %s: %+v", kind, name, status, driver.Status.Conditions)
	return nil
}

func TestInstall_AThirdPartyDriver(t *testing.T) {
	v := newVendor(t)
	v.files["docker-machine-driver-sim-linux-amd64"] = self(t)
	i := newInstallation(t)
	i.add("sim", mgmtv3.NodeDriverSpec{URL: v.URL + "/docker-machine-driver-sim-linux-amd64"}, map[string]string{
		mgmtv3.PrivateCredentialFieldsAnnotation: "token", mgmtv3.FileToFieldAliasesAnnotation: "cpuFile:cpuCount",
	})
	driver := i.await("sim", mgmtv3.NodeDriverConditionInstalled, "True")
	sum := sha256.Sum256(self(t))
	if driver.Annotations[driverschema.DriverSHA256Annotation] != hex.EncodeToString(sum[:]) ||
		driver.Spec.DisplayName != "sim" ||
		driver.Status.AppliedURL != driver.Spec.URL ||
		driver.Annotations[mgmtv3.UIFieldHintsAnnotation] != `{"cpuFile":{"type":"multiline"}}` {
		t.Errorf("driver is %+v %+v", driver.ObjectMeta, driver.Status)
	}
	schema, err := i.c.Management.DynamicSchema().Get("simconfig", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if schema.Spec.ResourceFields["token"].Type != "password" ||
		schema.Spec.ResourceFields["cpuFile"].Default.StringValue != "2" ||
		schema.Labels["io.cattle.node_driver.name"] != "sim" || schema.OwnerReferences[0].UID != driver.UID {
		t.Errorf("schema is %+v %+v", schema.ObjectMeta, schema.Spec.ResourceFields)
	}
	credential, err := i.c.Management.DynamicSchema().Get("simcredentialconfig", metav1.GetOptions{})
	if err != nil || len(credential.Spec.ResourceFields) != 1 || !credential.Spec.ResourceFields["token"].Required ||
		len(credential.Labels) > 0 {
		t.Errorf("schema of the credential is %+v, %v", credential, err)
	}
	i.awaitField("nodetemplateconfig", "simConfig", true)
	i.awaitField("credentialconfig", "simcredentialConfig", true)
	if got := v.requests.Load(); got != 1 {
		t.Errorf("the driver was downloaded %d times, want once", got)
	}
	if err := i.c.Management.NodeDriver().Delete("sim", nil); err != nil {
		t.Fatal(err)
	}
	i.awaitField("nodetemplateconfig", "simConfig", false)
	i.awaitField("credentialconfig", "simcredentialConfig", false)
}

func (i *installation) awaitField(schema, field string, want bool) {
	i.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		found, err := i.c.Management.DynamicSchema().Get(schema, metav1.GetOptions{})
		if err == nil {
			if _, has := found.Spec.ResourceFields[field]; has == want {
				return
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	i.Fatalf("schema %s: field %s exists: %v, want %v", schema, field, !want, want)
}

// TestInstall_FailuresAffectOneDriver: a broken driver reports the problem in its condition, and other drivers work.
func TestInstall_FailuresAffectOneDriver(t *testing.T) {
	v := newVendor(t)
	program := self(t)
	i := newInstallation(t)
	for _, name := range []string{"good", "chatty", "nameless"} {
		v.files["docker-machine-driver-"+name] = program
	}
	v.files["page"] = []byte("<html>")
	for name, test := range map[string]struct {
		url, checksum   string
		annotations     map[string]string
		wantFalse, want string
	}{
		"page": {url: v.URL + "/page", wantFalse: "Downloaded", want: "must be an ELF program"},
		"checksum": {url: v.URL + "/docker-machine-driver-good", checksum: strings.Repeat("0", 64),
			wantFalse: "Downloaded", want: "spec.checksum"},
		"chatty": {url: v.URL + "/docker-machine-driver-chatty", wantFalse: "Installed", want: "is not a driver"},
		"nameless": {url: v.URL + "/docker-machine-driver-nameless", wantFalse: "Installed",
			want: `flag "url" has no driver prefix`},
		"local": {url: "local://", wantFalse: "Installed", want: `no driver "local"`},
		"aliases": {
			url:         v.URL + "/docker-machine-driver-good",
			annotations: map[string]string{mgmtv3.FileToFieldAliasesAnnotation: "broken"},
			wantFalse:   "Installed", want: mgmtv3.FileToFieldAliasesAnnotation,
		},
	} {
		i.add(name, mgmtv3.NodeDriverSpec{URL: test.url, Checksum: test.checksum}, test.annotations)
		driver := i.await(name, test.wantFalse, "False")
		c := conditions.Get(driver.Status.Conditions, test.wantFalse)
		if !strings.Contains(c.Message, test.want) || !strings.HasPrefix(c.Message, "NodeDriver "+name) {
			t.Errorf("%s: message is %q, want %q", name, c.Message, test.want)
		}
		if err := outcome.CheckStable(strings.ReplaceAll(strings.ReplaceAll(c.Message, v.URL, ""),
			strings.Repeat("0", 64), "")); err != nil && name != "checksum" {
			t.Errorf("%s: %v", name, err)
		}
	}
	i.add("good", mgmtv3.NodeDriverSpec{URL: v.URL + "/docker-machine-driver-good"}, nil)
	i.await("good", mgmtv3.NodeDriverConditionInstalled, "True")
	i.add("thief", mgmtv3.NodeDriverSpec{URL: v.URL + "/docker-machine-driver-good"}, nil)
	driver := i.await("thief", mgmtv3.NodeDriverConditionInstalled, "False")
	if c := conditions.Get(driver.Status.Conditions, mgmtv3.NodeDriverConditionInstalled); !strings.Contains(c.Message,
		"NodeDriver good has installed") {
		t.Errorf("a second driver of the same name: %q", c.Message)
	}
}

func TestSeed_IsRepeatable(t *testing.T) {
	i := newInstallation(t)
	client := i.c.Management.NodeDriver()
	for range 2 {
		if err := Seed(client); err != nil {
			t.Fatal(err)
		}
	}
	i.await("amazonec2", mgmtv3.NodeDriverConditionInstalled, "True")
	driver, err := client.Get("exoscale", metav1.GetOptions{})
	if err != nil || driver.Spec.Active {
		t.Errorf("exoscale is %+v, %v: want it inactive", driver, err)
	}
	i.awaitField("nodeconfig", "azureConfig", true)
}
