package entrypoint

import "strings"

const (
	urlFlag  = "--driver-download-url="
	hashFlag = "--driver-hash="
)

// Invocation is a parsed command line.
type Invocation struct {
	// DriverURL is where the driver is downloaded from. Empty when it is compiled into rancher-machine.
	DriverURL string
	// DriverHash is the SHA-256 of the download in hexadecimal. Empty when it is not to be checked.
	DriverHash string
	// Arguments are what rancher-machine gets.
	Arguments []string
}

// ParseInvocation takes the flags of the driver off args and separates the values of all others from their names.
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
