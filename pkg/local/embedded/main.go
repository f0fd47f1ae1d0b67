package main

import (
	"os"

	"github.com/drover-io/drover/pkg/local/embedded/multicall"
)

func main() {
	os.Exit(multicall.Dispatch(programs(), os.Args, os.Stderr))
}
