package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const sbomMediaType = "application/vnd.cyclonedx+json"

// SBOM returns the bill of materials of a Go program, as CycloneDX in JSON. It lists Go's standard library and the
// linked modules, which the linker has recorded in the program.
func SBOM(program string, build Build) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("bill of materials of %s: %w", program, err)
	}
	sum, err := sha256Of(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).Encode(materials(info, filepath.Base(program), sum, build)); err != nil {
		return nil, fmt.Errorf("bill of materials of %s: %w", program, err)
	}
	return out.Bytes(), nil
}

func materials(info *debug.BuildInfo, name, sum string, build Build) *cdx.BOM {
	main := component(&info.Main, build.Version)
	main.Type, main.Name = cdx.ComponentTypeApplication, name
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	standard := "pkg:golang/stdlib@" + goVersion
	components := []cdx.Component{{
		BOMRef: standard, Type: cdx.ComponentTypeLibrary, Name: "stdlib", Version: goVersion, PackageURL: standard,
	}}
	uses := []string{standard}
	for _, module := range info.Deps {
		used := component(module, build.Version)
		components = append(components, used)
		uses = append(uses, used.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: build.Created.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &uses}}
	return bom
}

// component returns one module. If the module is replaced, it returns the replacement. Modules of this repository have
// no version of their own.
func component(module *debug.Module, own string) cdx.Component {
	version := own
	if replaced := module.Replace; replaced != nil && !isLocal(replaced.Path) {
		module = replaced
	}
	if module.Replace == nil && module.Version != "" && module.Version != "(devel)" {
		version = module.Version
	}
	url := "pkg:golang/" + module.Path + "@" + version
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: version,
		PackageURL: url}
}

// isLocal reports whether a location is a folder and not a module.
func isLocal(location string) bool { return path.IsAbs(location) || strings.HasPrefix(location, ".") }

func sha256Of(file string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
