// Command program stands in for Drover's programs: small, static, and with a dependency.
package main

import (
	"os"

	"github.com/google/go-containerregistry/pkg/name"
)

func main() {
	if _, err := name.NewTag(os.Args[0]); err != nil {
		os.Exit(1)
	}
}
