// Package disruption names why Drover restarts, drains or replaces machines that work. The set of causes is closed, and all but one
// are somebody's wish: an edit, a health policy or a command. What has none of these is a mistake of Drover's, and says so.
package disruption

import "strings"

// Cause is why a machine is disrupted. Causes are values of a metric's label: renaming one breaks dashboards and alerts.
type Cause string

// The causes. What they begin with is whose wish it is.
const (
	// EditVersion: another Kubernetes version.
	EditVersion Cause = "edit-version"
	// EditConfiguration: the configuration of the distribution, its files, manifests and charts.
	EditConfiguration Cause = "edit-configuration"
	// EditEtcd: etcd and its snapshots.
	EditEtcd Cause = "edit-etcd"
	// EditRegistries: registries and mirrors.
	EditRegistries Cause = "edit-registries"
	// EditNetworking: networking and the endpoint for users.
	EditNetworking Cause = "edit-networking"
	// EditReinstall: the generation that asks for everything to be installed again.
	EditReinstall Cause = "edit-reinstall"
	// EditObject: a Secret or ConfigMap that the configuration refers to.
	EditObject Cause = "edit-object"
	// EditMachine: labels or annotations of a machine or its pool.
	EditMachine Cause = "edit-machine"
	// EditPool: the machine config of a pool, or another that the pool refers to.
	EditPool Cause = "edit-pool"
	// EditSettings: settings of the server that plans depend on.
	EditSettings Cause = "edit-settings"

	// HealthServerLost: the server that a machine had joined is gone or out of reach.
	HealthServerLost Cause = "health-server-lost"
	// HealthCheckFailed: the health check of a pool found a machine unhealthy, and another takes its place.
	HealthCheckFailed Cause = "health-check-failed"
	// HealthMachineFailed: a machine could not be made, or never became a node, and another takes its place.
	HealthMachineFailed Cause = "health-machine-failed"

	// CommandRoll: a command to move machines to another render version.
	CommandRoll Cause = "command-roll"
	// CommandSnapshot: an etcd snapshot that was asked for.
	CommandSnapshot Cause = "command-snapshot"
	// CommandRestore: a restore of etcd.
	CommandRestore Cause = "command-restore"
	// CommandRotateCertificates: a rotation of certificates.
	CommandRotateCertificates Cause = "command-rotate-certificates"
	// CommandRotateKeys: a rotation of encryption keys.
	CommandRotateKeys Cause = "command-rotate-encryption-keys"

	// Unknown: nobody wished for it. It never happens unless Drover is wrong, and fails every test.
	Unknown Cause = "unknown"
)

// Causes are all there are, in the order in which one of several is chosen.
func Causes() []Cause {
	return []Cause{
		CommandRestore, CommandRoll, CommandSnapshot, CommandRotateCertificates, CommandRotateKeys,
		EditVersion, EditReinstall, EditConfiguration, EditEtcd, EditRegistries, EditNetworking, EditObject, EditMachine, EditPool, EditSettings,
		HealthServerLost, HealthCheckFailed, HealthMachineFailed,
		Unknown,
	}
}

// Kind is whose wish a cause is.
type Kind string

// The kinds. KindNone is nobody's wish.
const (
	KindEdit    Kind = "edit"
	KindHealth  Kind = "health"
	KindCommand Kind = "command"
	KindNone    Kind = ""
)

// Kind tells whose wish it is: what the cause begins with, if that is one of the kinds.
func (c Cause) Kind() Kind {
	before, _, _ := strings.Cut(string(c), "-")
	switch kind := Kind(before); kind {
	case KindEdit, KindHealth, KindCommand:
		return kind
	case KindNone:
	}
	return KindNone
}
