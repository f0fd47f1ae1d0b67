package chartrepo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"

	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

const chartYAML = "apiVersion: v2\nname: web\nversion: 1.2.3\n"

// member is an entry of an archive.
type member struct {
	name, content string
	kind          byte
}

func packed(t *testing.T, members ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	entries := tar.NewWriter(zipped)
	for _, m := range members {
		header := &tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.content)), Typeflag: tar.TypeReg}
		if m.kind != 0 {
			header.Typeflag, header.Size, header.Linkname, m.content = m.kind, 0, m.content, ""
		}
		must(t, entries.WriteHeader(header))
		_, err := entries.Write([]byte(m.content))
		must(t, err)
	}
	must(t, entries.Close())
	must(t, zipped.Close())
	return out.Bytes()
}

// web is the archive of a valid chart.
func web(t *testing.T) []byte {
	return packed(t, member{name: "web/templates/a.yaml", content: "kind: ConfigMap"}, member{name: "web/Chart.yaml",
		content: chartYAML}, member{name: "web/link", content: "Chart.yaml", kind: tar.TypeSymlink})
}

var webFiles = []fleet.File{{Name: "templates/a.yaml", Data: []byte("kind: ConfigMap")},
	{Name: "Chart.yaml", Data: []byte(chartYAML)}}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// local permits the repositories of these tests.
var local = New(proxy.Servers{AllowLoopback: true})

// repository serves files, and requires a password if it has one.
type repository struct {
	*httptest.Server
	files    map[string][]byte
	password string
	asked    []string
}

func serve(t *testing.T, index string, archive []byte) *repository {
	t.Helper()
	r := &repository{files: map[string][]byte{"/charts/index.yaml": []byte(index), "/charts/web-1.2.3.tgz": archive}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.asked = append(r.asked, request.URL.Path)
		if _, password, _ := request.BasicAuth(); password != r.password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content, ok := r.files[request.URL.Path]
		if !ok {
			http.NotFound(w, request)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *repository) request(version string) Request {
	return Request{Repository: r.URL + "/charts", Chart: "web", Version: version}
}

const listOfWeb = `{apiVersion: v1, entries: {web: [
  {name: web, version: 2.0.0-rc1, urls: [web-2.tgz]},
  {name: web, version: 1.2.3, urls: [web-1.2.3.tgz], digest: "%s"},
  {name: web, version: 1.1.0, urls: [web-1.1.0.tgz]}, null]}}`

func TestFetch_FromAnIndex(t *testing.T) {
	archive := web(t)
	for version, want := range map[string]string{"1.2.3": "1.2.3", "": "1.2.3", "^1.0": "1.2.3", "1.x": "1.2.3"} {
		r := serve(t, fmt.Sprintf(listOfWeb, naming.SHA256(archive)), archive)
		chart, err := local.Fetch(t.Context(), r.request(version), "")
		must(t, err)
		if diff := cmp.Diff(&Chart{Version: want, Files: webFiles}, chart); diff != "" {
			t.Errorf("version %q (-want +got):\n%s", version, diff)
		}
		r.asked = nil
		chart, err = local.Fetch(t.Context(), r.request(version), want)
		must(t, err)
		if chart.Files != nil || !slices.Equal(r.asked, []string{"/charts/index.yaml"}) {
			t.Errorf("version %q is known, but %v were asked for", version, r.asked)
		}
	}
}

func TestFetch_FromARegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(t.Output(), "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	push(t, host+"/team/web:1.2.3", web(t))
	push(t, host+"/team/web:1.1.0_up1", web(t))
	push(t, host+"/team/web:latest", web(t))
	for version, want := range map[string]string{"1.2.3": "1.2.3", "": "1.2.3", "~1.1": "1.1.0+up1",
		"1.1.0+up1": "1.1.0+up1"} {
		request := Request{Repository: "oci://" + host + "/team", Chart: "web", Version: version}
		chart, err := local.Fetch(t.Context(), request, "")
		must(t, err)
		if diff := cmp.Diff(&Chart{Version: want, Files: webFiles}, chart); diff != "" {
			t.Errorf("version %q (-want +got):\n%s", version, diff)
		}
	}
	expect(t, Request{Repository: "oci://" + host + "/team", Chart: "web", Version: "3.0.0"}, Missing,
		"spec.version", "3.0.0")
	expect(t, Request{Repository: "oci://" + host + "/team", Chart: "absent", Version: ""}, Missing, "absent")

	// The index of a repository may name charts in a registry.
	r := serve(t, `{entries: {web: [{version: 1.2.3, urls: ["oci://`+host+`/team/web:1.2.3"]}]}}`, nil)
	chart, err := local.Fetch(t.Context(), r.request("1.2.3"), "")
	must(t, err)
	if diff := cmp.Diff(webFiles, chart.Files); diff != "" {
		t.Errorf("from an index (-want +got):\n%s", diff)
	}
}

func push(t *testing.T, reference string, archive []byte) {
	t.Helper()
	tag, err := name.NewTag(reference)
	must(t, err)
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(archive, chartType))
	must(t, err)
	must(t, remote.Write(tag, image))
}

// expect fetches a chart and compares the error.
func expect(t *testing.T, r Request, kind Kind, words ...string) {
	t.Helper()
	expectFrom(t, local, r, kind, words...)
}

func expectFrom(t *testing.T, c *Client, r Request, kind Kind, words ...string) {
	t.Helper()
	_, err := c.Fetch(t.Context(), r, "")
	found, ok := errors.AsType[*Error](err)
	if !ok || found.Kind != kind {
		t.Errorf("%+v: error %v, want one of kind %d", r, err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(found.Message, word) {
			t.Errorf("%+v: message %q, want %q in it", r, found.Message, word)
		}
	}
	if strings.Contains(found.Message, "hunter2") {
		t.Errorf("message %q has a password", found.Message)
	}
}

func TestFetch_RefusesRequests(t *testing.T) {
	strict := New(proxy.Servers{Management: []string{"10.43.0.1"}})
	for repository, word := range map[string]string{
		"":                                "spec.repo",
		"charts":                          "spec.repo",
		"ftp://charts.example.com":        "https://",
		"https://":                        "spec.repo",
		"https://me:hunter2@example.com":  "spec.helmSecretName",
		"https://example.com?key=hunter2": "query",
		"https://127.0.0.1":               "a loopback address",
		"https://localhost:8080":          "a loopback address",
		"oci://[::1]/charts":              "a loopback address",
		"http://169.254.169.254/latest":   "a link-local address",
		"https://10.43.0.1":               "the address of the management cluster",
	} {
		expectFrom(t, strict, Request{Repository: repository, Chart: "web"}, Refused, word)
	}
	expect(t, Request{Repository: "https://example.com"}, Refused, "spec.chart")
	expect(t, Request{Repository: "https://example.com", Chart: "web", Version: "newest"}, Refused, "spec.version")
	expect(t, Request{Repository: "oci://example.com/Team", Chart: "web"}, Refused, "lower case")
	expect(t, Request{Repository: "https://example.com", Chart: "web", Credential: Credential{Authorities: "x"}},
		Refused, "cacerts")
}

func TestFetch_ExplainsWhatIsWrongWithTheRepository(t *testing.T) {
	index := fmt.Sprintf(listOfWeb, "")
	r := serve(t, index, web(t))
	expect(t, r.request("4.0.0"), Missing, "spec.version", "4.0.0", r.URL)
	absent := r.request("")
	absent.Chart = "absent"
	expect(t, absent, Missing, "spec.chart", "absent")

	r.password = "hunter2"
	expect(t, r.request(""), Unavailable, "spec.helmSecretName")
	wrong := r.request("")
	wrong.Credential = Credential{Username: "me", Password: "wrong"}
	expect(t, wrong, Unavailable, "refuses the credential")
	right := r.request("")
	right.Credential = Credential{Username: "me", Password: "hunter2"}
	if _, err := local.Fetch(t.Context(), right, ""); err != nil {
		t.Errorf("with the credential: %v", err)
	}

	expect(t, serve(t, "{", nil).request(""), Unavailable, "index.yaml")
	expect(t, serve(t, fmt.Sprintf(listOfWeb, naming.SHA256("other")), web(t)).request(""), Invalid, "digest")
	expect(t, serve(t, index, []byte("no archive")).request(""), Invalid, "gzip")
	expect(t, serve(t, index, make([]byte, archiveLimit+1)).request(""), Invalid, "larger than 2 MiB")
	expect(t, serve(t, strings.Repeat(" ", transferLimit+1), nil).request(""), Invalid, "32 MiB")
	gone := serve(t, index, nil)
	gone.Close()
	expect(t, gone.request(""), Unavailable, "does not answer", "connection refused")
}

func TestFetch_FollowsNoRedirectToForbiddenAddresses(t *testing.T) {
	redirect := func(to string) Request {
		server := httptest.NewServer(http.RedirectHandler(to, http.StatusFound))
		t.Cleanup(server.Close)
		return Request{Repository: server.URL, Chart: "web"}
	}
	expect(t, redirect("http://169.254.169.254/latest/meta-data?key=hunter2"), Refused, "a link-local address")
	expect(t, redirect("/again"), Unavailable, "redirects too often")
}

// withCredential is a request to a repository that asks for a password.
func (r *repository) withCredential() Request {
	r.password = "hunter2"
	request := r.request("")
	request.Credential = Credential{Username: "me", Password: r.password}
	return request
}

// The credential stays with the server of the repository, wherever its index points.
func TestFetch_SendsTheCredentialToTheRepositoryOnly(t *testing.T) {
	sent := false
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = sent || r.Header.Get("Authorization") != ""
		http.NotFound(w, r)
	}))
	t.Cleanup(other.Close)
	r := serve(t, `{entries: {web: [{version: 1.2.3, urls: ["`+other.URL+`/web.tgz"]}]}}`, nil)
	expect(t, r.withCredential(), Unavailable)
	if sent {
		t.Error("another server got the credential")
	}
}

// An index may name a registry. Of another server, it gets no credential.
func TestFetch_SendsTheCredentialToNoOtherRegistry(t *testing.T) {
	sent := false
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = sent || r.Header.Get("Authorization") != ""
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(other.Close)
	host := strings.TrimPrefix(other.URL, "http://")
	r := serve(t, `{entries: {web: [{version: 1.2.3, urls: ["oci://`+host+`/team/web:1.2.3"]}]}}`, nil)
	expect(t, r.withCredential(), Unavailable)
	if sent {
		t.Error("another registry got the credential")
	}
}

// A name may lead to any address, and a proxy looks names up itself. The connection is checked in both cases.
func TestGuard_ChecksEveryConnection(t *testing.T) {
	dialer := &guardedDialer{servers: proxy.Servers{}}
	_, err := dialer.dial(t.Context(), "tcp", "127.0.0.1:1")
	if found, ok := errors.AsType[*Error](err); !ok || found.Kind != Refused {
		t.Errorf("a connection to loopback: %v", err)
	}
	through := "127.0.0.1:1"
	dialer.through.Store(&through)
	_, err = dialer.dial(t.Context(), "tcp", through)
	if _, refused := errors.AsType[*Error](err); err == nil || refused {
		t.Errorf("the environment's proxy: %v", err)
	}
	plain := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "example.com"},
		Header: http.Header{"Authorization": {"Basic x"}}}
	if answer, err := (&guard{servers: proxy.Servers{}}).RoundTrip(plain); err == nil {
		_ = answer.Body.Close()
		t.Error("a credential was sent without TLS")
	}
	if what := (proxy.Servers{}).Refuses(netip.MustParseAddr("10.0.0.1")); what != "" {
		t.Errorf("a private address is %s", what)
	}
}

func TestUnpack_RefusesBadArchives(t *testing.T) {
	valid := member{name: "web/Chart.yaml", content: chartYAML}
	bomb := member{name: "web/zeros", content: strings.Repeat("\x00", unpackedLimit)}
	for name, test := range map[string]struct {
		members []member
		want    string
	}{
		"no Chart.yaml":       {[]member{{name: "web/a", content: "a"}}, "Helm can read"},
		"a broken Chart.yaml": {[]member{{name: "web/Chart.yaml", content: "{"}}, "Helm can read"},
		"no version": {[]member{{name: "web/Chart.yaml", content: "{apiVersion: v2, name: a}"}},
			"Helm can read"},
		"broken values":      {[]member{valid, {name: "web/values.yaml", content: "{"}}, "Helm can read"},
		"a parent folder":    {[]member{valid, {name: "web/../../etc/passwd", content: "x"}}, "outside"},
		"an absolute path":   {[]member{valid, {name: "/etc/passwd", content: "x"}}, "outside"},
		"a file without one": {[]member{valid, {name: "x", content: "x"}}, "outside"},
		"too large":          {[]member{valid, bomb}, "32 MiB"},
		"large values": {[]member{valid, {name: "web/values.yaml", content: "a: " + strings.Repeat("a", wholeLimit)}},
			"values.yaml, with the other YAML files that Helm reads, is larger than 1 MiB"},
		"empty": {nil, "Helm can read"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := unpack(packed(t, test.members...)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	whole := web(t)
	if _, err := unpack(whole[:len(whole)/2]); err == nil {
		t.Error("half an archive is accepted")
	}
}
