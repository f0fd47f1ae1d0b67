package entrypoint

import "strings"

const (
	urlFlag  = "--driver-download-url="
	hashFlag = "--driver-hash="
)

// Invocation is a parsed command line.
type Invocation struct {
	// DriverURL is the URL of the driver. It is empty for a driver that is compiled into rancher-machine.
	DriverURL string
	// DriverHash is the SHA-256 of the download in hexadecimal. If it is empty, the download is not checked.
	DriverHash string
	// Arguments are the arguments for rancher-machine.
	Arguments []string
}

// ParseInvocation removes the flags of the driver from args and separates the values of all other flags from their
// names.
func ParseInvocation(args []string) Invocation {
	var in Invocation
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, urlFlag); ok {
			in.DriverURL = value
			continue
		}
		if value, ok := strings.CutPrefix(arg, hashFlag); ok {
			in.DriverHash = value
			continue
		}
		flag, value, split := strings.Cut(arg, "=")
		if split && strings.HasPrefix(arg, "--") {
			in.Arguments = append(in.Arguments, flag, value)
			continue
		}
		in.Arguments = append(in.Arguments, arg)
	}
	return in
}
