package render

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// layersV1 are the layers of 50-rancher.yaml; a later layer overrides an earlier one.
func layersV1() []step {
	return []step{
		(*machinePlan).layerUser,
		(*machinePlan).layerRelease,
		(*machinePlan).layerDataDir,
		(*machinePlan).layerETCD,
		(*machinePlan).layerRole,
		(*machinePlan).layerComponents,
		(*machinePlan).layerDatastore,
		(*machinePlan).layerPrime,
		(*machinePlan).layerAuthnWebhook,
		(*machinePlan).layerTokens,
		(*machinePlan).layerAddresses,
		(*machinePlan).layerNodeLabels,
		(*machinePlan).layerNodeTaints,
		(*machinePlan).layerFiles,
		(*machinePlan).layerPrune,
	}
}

// filesV1 are the steps that make the files, in their order in the plan.
func filesV1() []step {
	return []step{
		(*machinePlan).fileAgentRegistries,
		(*machinePlan).filesRegistryTLS,
		filePart(partS3CA),
		filePart(partAuditPolicy),
		filePart(partCloudProvider),
		(*machinePlan).fileRegistries,
		filePart(partFlannel),
		(*machinePlan).filesSelected,
		(*machinePlan).fileConfig,
		(*machinePlan).fileClusterAgent,
		(*machinePlan).fileSnapshotMetadata,
		(*machinePlan).fileAddons,
		(*machinePlan).fileChartConfig,
		(*machinePlan).fileAuthnWebhook,
		(*machinePlan).fileIdempotentScript,
	}
}

// restV1 are the steps that make everything that runs.
func restV1() []step {
	return []step{
		(*machinePlan).probes,
		(*machinePlan).install,
		(*machinePlan).periodicInstructions,
		agentUpgrade,
	}
}

func checkMachine(in Input) error {
	name := in.Machine.Namespace + "/" + in.Machine.Name
	roles := in.Machine.Roles
	switch {
	case in.ControlPlane.Spec.KubernetesVersion == "":
		return errors.New("spec.kubernetesVersion is empty: set a version such as v1.36.2+rke2r1")
	case roles == (Roles{}):
		return fmt.Errorf("machine %s has no role: give it at least one of etcd, controlplane and worker", name)
	case in.InitNode:
		return checkInitNode(in, name)
	case in.JoinURL == "":
		return &PendingError{Message: fmt.Sprintf("Machine %s has no server to join yet", name)}
	}
	return nil
}

func checkInitNode(in Input, name string) error {
	switch {
	case in.JoinURL != "":
		return fmt.Errorf("machine %s starts the cluster and cannot join a server", name)
	case !in.Machine.Roles.ETCD:
		return fmt.Errorf("machine %s has no etcd role and cannot start the cluster", name)
	}
	return nil
}

// machinePlan is a plan under construction.
type machinePlan struct {
	in       Input
	spec     *rkev1.RKEControlPlaneSpec
	roles    Roles
	runtime  distro.Runtime
	dirs     distro.Dirs
	loopback string

	// user is the user's merged configuration, before any change.
	user map[string]any
	// origin maps a key of user to its field in the cluster's spec.
	origin map[string]string
	// config is the main configuration so far.
	config map[string]any
	// parts are the files that the main configuration refers to.
	parts map[part]plan.File

	// chosen maps the paths of machineSelectorFiles to the fields that name them.
	chosen map[string]string

	// registriesJSON is the content of the registries file, once it is built.
	registriesJSON []byte
	// drainConfig is the main configuration for the drain hash.
	drainConfig []byte

	out      plan.NodePlan
	warnings []Warning
}

func newMachinePlan(in Input) *machinePlan {
	spec := &in.ControlPlane.Spec
	runtime := distro.RuntimeOf(spec.KubernetesVersion)
	return &machinePlan{
		in:       in,
		spec:     spec,
		roles:    in.Machine.Roles,
		runtime:  runtime,
		dirs:     distro.DirsFor(runtime, spec.DataDirectories),
		loopback: distro.LoopbackHost(spec.Networking),
		parts:    map[part]plan.File{},
		chosen:   map[string]string{},
	}
}

// addFile appends a file to the plan, unless Drover does not manage the cluster's files.
func (m *machinePlan) addFile(file plan.File) {
	if m.spec.UnmanagedConfig {
		return
	}
	if field, taken := m.chosen[file.Path]; taken {
		m.warnSameFile(field, file.Path)
	}
	m.out.Files = append(m.out.Files, file)
}

func (m *machinePlan) warnSameFile(field, path string) {
	m.warn(ReasonSameFile, field, "Several entries write %s; the last one wins", path)
}

// fileOf is a file with the agent's default permissions.
func fileOf(path string, content []byte) plan.File {
	return plan.File{Path: path, Content: base64.StdEncoding.EncodeToString(content)}
}

func (m *machinePlan) warn(reason, field, format string, args ...any) {
	m.warnings = append(m.warnings, Warning{Reason: reason, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (m *machinePlan) sortedWarnings() []Warning {
	slices.SortFunc(m.warnings, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(m.warnings)
}
