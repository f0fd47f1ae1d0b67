package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "codegen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "clients":
		return writeClients()
	case len(args) == 3 && args[0] == "capi-crds":
		return writeCAPICRDs(args[1], args[2])
	case len(args) == 5 && args[0] == "chart-crds":
		return writeChartCRDs(args[1], args[2], args[3], args[4])
	case len(args) == 3 && args[0] == "crd-reference":
		return writeCRDReference(args[1], args[2])
	case len(args) == 3 && args[0] == "api":
		return updateAPI(args[1], args[2])
	default:
		return fmt.Errorf("want %q, got %q", []string{
			"clients", "capi-crds SOURCE TARGET", "chart-crds SOURCE TARGET ORIGIN CONDITION",
			"crd-reference SOURCE TARGET", "api RECORD CHANGES",
		}, args)
	}
}
