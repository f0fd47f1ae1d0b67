// Command program replaces Drover's programs in tests. It is small and static, and has a dependency.
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
