package isoimage

import (
	"errors"
	"fmt"
	"strings"
)

// Invocation is a parsed command line of mkisofs.
type Invocation struct {
	// Output is the file to write.
	Output string
	// Volume is the name of the file system. cloud-init expects "cidata".
	Volume string
	// Source is the folder with the content of the image.
	Source string
}

// valueless are options for features that are always written: short names, and long names by Rock Ridge and Joliet.
// Names for Macintosh (-hfs) are never written, because no guest that uses these images reads them.
var valueless = map[string]bool{"-J": true, "-r": true, "-R": true, "-hfs": true, "-graft-points": true}

// ParseInvocation parses the driver's options. It rejects other options, because ignoring one would produce a different
// image than the caller wanted.
func ParseInvocation(args []string) (Invocation, error) {
	var out Invocation
	for len(args) > 0 {
		option := args[0]
		args = args[1:]
		switch {
		case valueless[option]:
			continue
		case !strings.HasPrefix(option, "-"):
			if out.Source != "" || strings.Contains(option, "=") {
				return Invocation{}, fmt.Errorf("%q: only one folder is allowed", option)
			}
			out.Source = option
			continue
		case len(args) == 0:
			return Invocation{}, fmt.Errorf("option %s has no value, or is unknown", option)
		}
		if err := out.set(option, args[0]); err != nil {
			return Invocation{}, err
		}
		args = args[1:]
	}
	if out.Output == "" || out.Source == "" {
		return Invocation{}, errors.New("want -output FILE and a folder")
	}
	return out, nil
}

func (i *Invocation) set(option, value string) error {
	switch option {
	case "-V", "-volid":
		i.Volume = value
	case "-o", "-output":
		i.Output = value
	case "-iso-level":
		if value != "1" {
			return fmt.Errorf("-iso-level %s: must be 1", value)
		}
	default:
		return fmt.Errorf("option %s is unknown", option)
	}
	return nil
}
