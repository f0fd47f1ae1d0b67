package chartrepo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/drover-io/drover/pkg/decide/fleet"
)

// unpack returns the regular files in the archive of a chart, without the folder that contains them. It fails if Helm
// cannot read the chart.
func unpack(packed []byte) ([]fleet.File, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, errors.New("its archive is not compressed with gzip")
	}
	var files []fleet.File
	left := int64(unpackedLimit)
	for entries := tar.NewReader(io.LimitReader(unzipped, 2*unpackedLimit)); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.New("its archive is damaged")
		}
		_, inner, nested := strings.Cut(path.Clean(filepath.ToSlash(header.Name)), "/")
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if !nested || !filepath.IsLocal(inner) || !filepath.IsLocal(header.Name) {
			return nil, errors.New("its archive has a file outside of the chart's folder")
		}
		if left -= header.Size; left < 0 || len(files) == fileLimit {
			return nil, fmt.Errorf("its archive has more than %d files, or more than %d MiB unpacked", fileLimit,
				unpackedLimit>>20)
		}
		data, err := io.ReadAll(entries)
		if err != nil {
			return nil, errors.New("its archive is damaged")
		}
		files = append(files, fleet.File{Name: inner, Data: data})
	}
	return files, check(files)
}

// unpack is the function unpack, for one chart at a time.
func (s *session) unpack(packed []byte) ([]fleet.File, error) {
	s.client.parsing.Lock()
	defer s.client.parsing.Unlock()
	return unpack(packed)
}

// parsed are the files that Helm's loader reads as YAML.
var parsed = []string{"Chart.yaml", "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock"}

// check reports whether Helm can read a chart. It leaves out the archives of its dependencies, which could be large
// when unpacked.
func check(files []fleet.File) error {
	var own []*archive.BufferedFile
	left := wholeLimit
	for _, file := range files {
		if slices.Contains(parsed, file.Name) {
			left -= len(file.Data)
		}
		if left < 0 {
			return fmt.Errorf("%s, with the other YAML files that Helm reads, is larger than %d MiB", file.Name,
				wholeLimit>>20)
		}
		if !strings.HasPrefix(file.Name, "charts/") {
			own = append(own, &archive.BufferedFile{Name: file.Name, Data: file.Data})
		}
	}
	chart, err := loader.LoadFiles(own)
	if err == nil {
		err = chart.Validate()
	}
	if err != nil {
		return errors.New("it is not a chart that Helm can read: check its Chart.yaml and values.yaml")
	}
	return nil
}
