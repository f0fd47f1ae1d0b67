package processkubelet

import (
	"fmt"
	"regexp"
	"strings"
)

// Image says which local program stands for a container image.
type Image struct {
	// Match is a glob over the whole image reference: * stands for any text, slashes included, ? for one character.
	Match string `json:"match"`
	// Program stands for the image's entrypoint; Args come before the container's own arguments. A container with a
	// command replaces both, as with a real image.
	Program string   `json:"program"`
	Args    []string `json:"args,omitempty"`
	// Env is the environment that the image itself sets, as NAME=value.
	Env []string `json:"env,omitempty"`
	// WorkingDir is the image's working directory and the home of its user.
	WorkingDir string `json:"workingDir,omitempty"`
	// User is the numeric user id of the image; 0 is root.
	User int64 `json:"user,omitempty"`
	// Files maps absolute paths inside the container to files of this machine, which appear there read-only.
	Files map[string]string `json:"files,omitempty"`
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
	return Image{}, fmt.Errorf("no local program stands for image %q; known are: %s", reference, strings.Join(known, ", "))
}

func globMatches(glob, text string) bool {
	pattern := regexp.QuoteMeta(glob)
	pattern = strings.ReplaceAll(pattern, `\*`, `.*`)
	pattern = strings.ReplaceAll(pattern, `\?`, `.`)
	return regexp.MustCompile(`\A(?s:` + pattern + `)\z`).MatchString(text)
}
