package main

import (
	"bytes"
	"debug/buildinfo"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

func TestMaterials_EveryModuleByTheVersionThatWasLinked(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/main", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.com/one", Version: "v1.0.0"},
			{Path: "example.com/two", Version: "v2.0.0",
				Replace: &debug.Module{Path: "example.com/fork", Version: "v2.1.0"}},
			{Path: "example.com/main/nested", Version: "v0.0.0",
				Replace: &debug.Module{Path: "./nested", Version: "(devel)"}},
		},
	}
	bom := materials(info, "program", "00", build)
	var got []string
	for _, component := range *bom.Components {
		got = append(got, component.PackageURL)
	}
	want := []string{
		"pkg:golang/stdlib@1.26.8", "pkg:golang/example.com/one@v1.0.0", "pkg:golang/example.com/fork@v2.1.0",
		"pkg:golang/example.com/main/nested@v1.2.3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, *(*bom.Dependencies)[0].Dependencies); diff != "" {
		t.Errorf("what the program depends on (-want +got):\n%s", diff)
	}
	if main := bom.Metadata.Component; main.PackageURL != "pkg:golang/example.com/main@v1.2.3" ||
		main.Name != "program" {
		t.Errorf("the bill is about %s %s", main.Name, main.PackageURL)
	}
}

// TestSBOM_InTheImageAndBesideIt: each program has a bill of materials in the image's files, and one as an artifact
// that refers to the image. It has every module that the linker records.
func TestSBOM_InTheImageAndBesideIt(t *testing.T) {
	small, err := program()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(small)
	if err != nil {
		t.Fatal(err)
	}
	all := assembleOnce(t)
	for _, image := range images {
		got := all[image.Name]
		if len(got.others) != len(image.Programs) {
			t.Errorf("%s: %d bills refer to it, want %d", image.Name, len(got.others), len(image.Programs))
		}
		for _, other := range got.others {
			manifest, err := other.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			if manifest.Subject == nil || manifest.Subject.Digest != got.digest ||
				manifest.Config.MediaType != sbomMediaType {
				t.Errorf("%s: a bill refers to %+v as %s", image.Name, manifest.Subject, manifest.Config.MediaType)
			}
		}
		for _, name := range image.Programs {
			var bom cdx.BOM
			text := got.texts[sbomDirectory+"/"+name+sbomSuffix]
			if err := cdx.NewBOMDecoder(bytes.NewReader([]byte(text)), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, module := range info.Deps {
				if !strings.Contains(text, "pkg:golang/"+module.Path+"@"+module.Version) {
					t.Errorf("%s: %s %s is missing", name, module.Path, module.Version)
				}
			}
		}
	}
}
