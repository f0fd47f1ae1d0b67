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
	// Volume is the name of the file system; cloud-init looks for "cidata".
	Volume string
	// Source is the folder whose content becomes that of the image.
	Source string
}

// valueless are the options that choose what is always written: long names by Rock Ridge and Joliet, beside short ones. Names for
// Macintosh (-hfs) are left out: no guest that is configured in this way reads them.
var valueless = map[string]bool{"-J": true, "-r": true, "-R": true, "-hfs": true, "-graft-points": true}

// ParseInvocation reads the options that the driver gives. Others are refused: leaving one out unnoticed would make another image than
// the caller wanted.
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
				return Invocation{}, fmt.Errorf("%q: want one folder", option)
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
			return fmt.Errorf("-iso-level %s: only 1 is written", value)
		}
	default:
		return fmt.Errorf("option %s is unknown", option)
	}
	return nil
}
