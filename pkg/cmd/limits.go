package cmd

import (
	"fmt"
	"strings"

	"github.com/drover-io/drover/pkg/server"
)

// limitsFlag is a list of NAME=NUMBER. A repeated flag adds to the list.
type limitsFlag struct {
	limits *server.Limits
	given  []string
}

// String implements pflag.Value.
func (f *limitsFlag) String() string { return strings.Join(f.given, ",") }

// Type implements pflag.Value.
func (f *limitsFlag) Type() string { return "limits" }

// Set implements pflag.Value.
func (f *limitsFlag) Set(list string) error {
	for pair := range strings.SplitSeq(list, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q must be NAME=NUMBER, such as proxy-requests=800", pair)
		}
		if err := f.limits.Set(name, value); err != nil {
			return err
		}
		f.given = append(f.given, pair)
	}
	return nil
}
