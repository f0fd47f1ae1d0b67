// Command mkisofs writes the disk image with which the driver vmwarevsphere configures a virtual machine. See package
// isoimage.
package main

import (
	"fmt"
	"os"

	"github.com/drover-io/drover/pkg/local/machinebinary/isoimage"
)

func main() {
	invocation, err := isoimage.ParseInvocation(os.Args[1:])
	if err == nil {
		err = isoimage.Write(invocation)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mkisofs:", err)
		os.Exit(1)
	}
}
