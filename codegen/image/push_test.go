package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestPush_UnderTheNamesOfTheChart: after a push, the registry has the images and the bills of materials.
func TestPush_UnderTheNamesOfTheChart(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)),
		registry.WithReferrersSupport(true)))
	defer server.Close()
	all := assembleOnce(t)
	host := strings.TrimPrefix(server.URL, "http://")
	for _, image := range images {
		if err := pushLayout(t.Context(), all[image.Name].dir, host+"/mirror/", true, io.Discard); err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag(host+"/mirror/"+image.Repository+":"+build.Version, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		pushed, err := remote.Head(tag)
		if err != nil || pushed.Digest != all[image.Name].digest {
			t.Fatalf("%s: %+v, %v; want %s", tag, pushed, err, all[image.Name].digest)
		}
		referrers, err := remote.Referrers(tag.Digest(pushed.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		if manifest, err := referrers.IndexManifest(); err != nil || len(manifest.Manifests) != len(image.Programs) {
			t.Errorf("%s: %+v, %v; want %d bills of materials", tag, manifest, err, len(image.Programs))
		}
	}
}

// TestRepositories_AreThoseOfTheChart: the chart's default repositories are the pushed ones.
func TestRepositories_AreThoseOfTheChart(t *testing.T) {
	values, err := os.ReadFile(filepath.Join(repository, "charts/drover/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(
		`(?m)^image:\n(?:  .*\n)*?  registry: (\S+)\n(?:  .*\n)*?  repository: (\S+)\n`).FindSubmatch(values)
	if found == nil || string(found[1]) != defaultRegistry || string(found[2]) != images[0].Repository {
		t.Errorf("the chart's image is %q, want %s/%s", found, defaultRegistry, images[0].Repository)
	}
}

func TestRun_SaysWhatItWants(t *testing.T) {
	for _, args := range [][]string{nil, {"make"}, {"push"}, {"push", "one", "more"}} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "push REGISTRY") {
			t.Errorf("%q: got %v", args, err)
		}
	}
	if err := run(t.Context(), []string{"layout", "drovr"}, io.Discard); err == nil ||
		!strings.Contains(err.Error(), `no image "drovr"`) {
		t.Errorf("got %v, want an error about the image", err)
	}
	o := options{source: repository, layouts: t.TempDir(), build: Build{Version: "1+2"}}
	if err := writeLayouts(images, o, io.Discard); err == nil || !strings.Contains(err.Error(), "cannot be a tag") {
		t.Errorf("got %v, want an error about the version", err)
	}
}
