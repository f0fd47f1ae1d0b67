package processkubelet

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Image maps a container image to a local program or to an image in a directory of this machine.
type Image struct {
	// Match is a glob over the whole image reference. "*" matches any text, including slashes. "?" matches one
	// character.
	Match string `json:"match"`
	// Program replaces the image's entrypoint. Args precede the container's own arguments. A command of the container
	// replaces both, as with a real image.
	Program string   `json:"program,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Env is the environment that the image itself sets, as NAME=value.
	Env []string `json:"env,omitempty"`
	// WorkingDir is the image's working directory and its user's home.
	WorkingDir string `json:"workingDir,omitempty"`
	// User is the numeric user ID of the image. 0 is root.
	User int64 `json:"user,omitempty"`
	// Files maps absolute paths inside the container to files of this machine. They are read-only in the container.
	Files map[string]string `json:"files,omitempty"`
	// Layout is the absolute path of an OCI image layout. It replaces Program, Args, Env, WorkingDir and User.
	// Containers run its image for this machine: the files are their root, and the configuration sets the rest.
	Layout string `json:"layout,omitempty"`

	// layout is set once the layout has been read.
	layout layoutImage
}

// check returns the errors in an entry of the table.
func (i Image) check() error {
	var problems []error
	if i.Match == "" {
		problems = append(problems, errors.New(`match: is required, for example "example.com/tool:*"`))
	}
	switch {
	case i.Layout == "" && !filepath.IsAbs(i.Program):
		problems = append(problems, errors.New("program: must be the absolute path of a program"))
	case i.Layout != "" && !filepath.IsAbs(i.Layout):
		problems = append(problems, errors.New("layout: must be the absolute path of a directory"))
	case i.Layout != "" && (i.Program != "" || i.Args != nil || i.Env != nil || i.WorkingDir != "" || i.User != 0):
		problems = append(problems, errors.New("layout: the image contains program, args, env, workingDir and user; "+
			"remove these fields"))
	}
	return errors.Join(problems...)
}

// id identifies what a container runs, for its status.
func (i Image) id() string {
	if i.layout.id != "" {
		return "oci://" + i.layout.id
	}
	return "process://" + i.Program
}

// findImage returns the first entry that matches the reference.
func findImage(table []Image, reference string) (Image, error) {
	for _, image := range table {
		if globMatches(image.Match, reference) {
			return image, nil
		}
	}
	known := make([]string, 0, len(table))
	for _, image := range table {
		known = append(known, image.Match)
	}
	return Image{}, fmt.Errorf("image %q is unknown; known images are: %s", reference, strings.Join(known, ", "))
}

func globMatches(glob, text string) bool {
	pattern := regexp.QuoteMeta(glob)
	pattern = strings.ReplaceAll(pattern, `\*`, `.*`)
	pattern = strings.ReplaceAll(pattern, `\?`, `.`)
	return regexp.MustCompile(`\A(?s:` + pattern + `)\z`).MatchString(text)
}
