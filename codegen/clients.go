package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"

	controllergen "github.com/rancher/wrangler/v3/pkg/controller-gen"
	"github.com/rancher/wrangler/v3/pkg/controller-gen/args"
)

const (
	generatedPackage = "github.com/drover-io/drover/pkg/generated"
	boilerplate      = "scripts/boilerplate.go.txt"
	capiTypes        = "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// groups are the API groups with generated clients. Drover's own types are found by directory. Cluster API's types are
// listed, because only their clients are generated.
func groups() map[string]args.Group {
	own := func(directory string) args.Group {
		return args.Group{Types: []any{directory}, GenerateTypes: true}
	}
	return map[string]args.Group{
		"provisioning.cattle.io": own("./pkg/apis/provisioning.cattle.io/v1"),
		"rke.cattle.io":          own("./pkg/apis/rke.cattle.io/v1"),
		"management.cattle.io":   own("./pkg/apis/management.cattle.io/v3"),
		"cluster.x-k8s.io": {Types: []any{
			args.Type{Version: "v1beta2", Package: capiTypes, Name: "Cluster"},
			args.Type{Version: "v1beta2", Package: capiTypes, Name: "Machine"},
			args.Type{Version: "v1beta2", Package: capiTypes, Name: "MachineDeployment"},
			args.Type{Version: "v1beta2", Package: capiTypes, Name: "MachineHealthCheck"},
			args.Type{Version: "v1beta2", Package: capiTypes, Name: "MachineSet"},
		}},
	}
}

func writeClients() error {
	// The generator treats a GOPATH as a sign that it does not run in a module.
	if err := os.Unsetenv("GOPATH"); err != nil {
		return err
	}
	controllergen.Run(args.Options{
		OutputPackage: generatedPackage,
		Boilerplate:   boilerplate,
		Groups:        groups(),
	})
	return keepOutOfGlobalScheme("pkg/generated/controllers")
}

var (
	globalRegistration = regexp.MustCompile(`(?s)func init\(\) \{\n\tschemes\.Register\([^\n]*\)\n\}\n\n?`)
	schemesImport      = regexp.MustCompile(`\t"github\.com/rancher/wrangler/v3/pkg/schemes"\n`)
)

// keepOutOfGlobalScheme removes code that the generator adds to every version's package: the registration of Drover's
// types in wrangler's process-wide scheme. A program that embeds Drover may have its own types for the same kinds
// there, and a second registration ends the process. Drover has its own scheme.
func keepOutOfGlobalScheme(directory string) error {
	files, err := filepath.Glob(filepath.Join(directory, "*", "*", "interface.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no generated version in %s", directory)
	}
	for _, file := range files {
		if err := removeRegistration(file); err != nil {
			return fmt.Errorf("remove registration from %s: %w", file, err)
		}
	}
	return nil
}

func removeRegistration(file string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !globalRegistration.Match(source) {
		return errors.New("no registration found: the generator's output has changed")
	}
	source = globalRegistration.ReplaceAll(source, nil)
	source = schemesImport.ReplaceAll(source, nil)
	if bytes.Contains(source, []byte("schemes.")) {
		return errors.New("the scheme is still used: the generator's output has changed")
	}
	source, err = format.Source(source)
	if err != nil {
		return err
	}
	return os.WriteFile(file, source, 0o644)
}
