package cmd

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/observe/tracing"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
	"github.com/drover-io/drover/pkg/server"
)

// The values of settings that accept only certain words.
var (
	capiModes    = []string{string(server.CAPIEmbedded), string(server.CAPIExternal)}
	coreWrites   = []string{string(server.CoreWritesPlain), string(server.CoreWritesThrifty)}
	crdModes     = []string{string(server.CRDsInstall), string(server.CRDsHost)}
	pullPolicies = []string{"Always", "IfNotPresent", "Never"}
	// commandPlaces are where complete registration commands can be.
	commandPlaces = []string{registration.CommandsInSecret, registration.CommandsInStatus}
	// agentUpgrades are the modes of upgrades of the node agents.
	agentUpgrades = []string{controllers.AgentUpgradesManual, controllers.AgentUpgradesAuto}
)

// verbPattern matches verbs in RBAC rules, including custom ones.
var verbPattern = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// check refuses impossible options before anything starts. Package server checks its options again, but names them as
// in Go.
func (o *serverOptions) check() error {
	var problems []error
	if o.embedded && o.kubeconfig != "" {
		problems = append(problems,
			errors.New("--embedded and --kubeconfig exclude each other: the embedded management plane has its own "+
				"kubeconfig"))
	}
	if o.shutdownDelay < 0 {
		problems = append(problems, fmt.Errorf("--shutdown-delay: %s is negative; use 0s or more", o.shutdownDelay))
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		problems = append(problems, errors.New("--tls-cert-file and --tls-key-file belong together"))
	}
	if o.tracingEndpoint != "" {
		if err := tracing.CheckEndpoint(o.tracingEndpoint); err != nil {
			problems = append(problems, fmt.Errorf("--tracing-endpoint: %w", err))
		}
	}
	if o.dataDir == "" {
		problems = append(problems, errors.New("--data-dir: is required; certificates are kept there"))
	}
	return errors.Join(append(problems, o.checkSettings(), o.checkModes(), o.checkAddresses(), o.checkReach(),
		o.checkAdmission())...)
}

// checkReach checks how users reach clusters.
func (o *serverOptions) checkReach() error {
	var problems []error
	if !verbPattern.MatchString(o.clusterAccessVerb) {
		problems = append(problems,
			fmt.Errorf("--cluster-access-verb: %q is not a verb; use get, or another word in lower case",
				o.clusterAccessVerb))
	}
	if life := o.endpointTokenLife; life < endpointtoken.LeastLife || life > endpointtoken.MaxLife {
		problems = append(problems, fmt.Errorf("--endpoint-token-life: must be from %s to %s, not %s",
			endpointtoken.LeastLife, endpointtoken.MaxLife, life))
	}
	return errors.Join(problems...)
}

// checkSettings checks the settings for clusters.
func (o *serverOptions) checkSettings() error {
	s := &o.settings
	problems := []error{checkRegistry(s.SystemDefaultRegistry)}
	switch {
	case s.ServerURL == "" && !o.embedded:
		problems = append(problems, errNoServerURL)
	case s.ServerURL != "" && !naming.IsServerURL(s.ServerURL):
		problems = append(problems, fmt.Errorf("--server-url: %q %s", redact.Address(s.ServerURL),
			naming.ServerURLForm))
	}
	if image := s.ClusterAgentImage; image != "" {
		if _, err := name.ParseReference(image, name.WeakValidation); err != nil {
			problems = append(problems,
				fmt.Errorf("--cluster-agent-image: %q is not an image; use one such as %s:v1.0.0",
					redact.Address(image), serverImage))
		}
	}
	return errors.Join(problems...)
}

// checkModes checks the options that accept only certain words. Package server has a default for an empty word.
func (o *serverOptions) checkModes() error {
	var problems []error
	for _, mode := range []struct {
		flag, word string
		words      []string
	}{
		{"capi", o.capi, capiModes}, {"core-writes", o.coreWrites, coreWrites}, {"crds", o.crds, crdModes},
		{"machine-provision-image-pull-policy", o.settings.MachineProvisionImagePullPolicy, pullPolicies},
		{"registration-commands", o.settings.RegistrationCommands, commandPlaces},
		{"agent-upgrades", o.settings.AgentUpgrades, agentUpgrades},
	} {
		if mode.word != "" && !slices.Contains(mode.words, mode.word) {
			problems = append(problems, fmt.Errorf("--%s: %q is unknown; use %s", mode.flag, mode.word,
				anyOf(mode.words)))
		}
	}
	if o.capi == string(server.CAPIExternal) && o.coreWrites == string(server.CoreWritesThrifty) {
		problems = append(problems,
			errors.New("--core-writes: thrifty has no effect with --capi=external; leave it out"))
	}
	return errors.Join(problems...)
}

// checkAddresses checks the addresses on which the server listens.
func (o *serverOptions) checkAddresses() error {
	var problems []error
	if o.port < 0 || o.port > 65535 {
		problems = append(problems, fmt.Errorf("--port: %d is not a port; use one up to 65535", o.port))
	}
	for _, at := range []struct {
		flag, address string
	}{{"health-address", o.healthAddress}, {"profiler-address", o.profilerAddress}} {
		if at.address == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(at.address); err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w; use HOST:PORT", at.flag, err))
		}
	}
	return errors.Join(problems...)
}
