// Package disruption names why Drover restarts, drains or replaces working machines. The set of causes is closed. All
// causes but one are requested: by an edit, a health policy or a command. The remaining cause, Unknown, is a bug in
// Drover.
package disruption

import "strings"

// Cause is why a machine is disrupted. Causes are values of a metric's label: renaming one breaks dashboards and
// alerts.
type Cause string

// The causes. The first part of each is its kind.
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
	// EditPool: the machine config of a pool, or a reference to another one.
	EditPool Cause = "edit-pool"
	// EditSettings: settings of the server that plans depend on.
	EditSettings Cause = "edit-settings"

	// HealthServerLost: the server that a machine had joined is gone or out of reach.
	HealthServerLost Cause = "health-server-lost"
	// HealthCheckFailed: the pool's health check found a machine unhealthy, and another replaces it.
	HealthCheckFailed Cause = "health-check-failed"
	// HealthMachineFailed: a machine could not be created or never became a node, and another replaces it.
	HealthMachineFailed Cause = "health-machine-failed"
	// HealthHostMissing: a registered host was away for longer than its cluster allows, and is removed.
	HealthHostMissing Cause = "health-host-missing"

	// CommandRoll: a command to move machines to another render version.
	CommandRoll Cause = "command-roll"
	// CommandSnapshot: a requested etcd snapshot.
	CommandSnapshot Cause = "command-snapshot"
	// CommandRestore: a restore of etcd.
	CommandRestore Cause = "command-restore"
	// CommandRotateCertificates: a rotation of certificates.
	CommandRotateCertificates Cause = "command-rotate-certificates"
	// CommandRotateKeys: a rotation of encryption keys.
	CommandRotateKeys Cause = "command-rotate-encryption-keys"

	// Unknown: the disruption was not requested. It happens only through a bug in Drover, and fails every test.
	Unknown Cause = "unknown"
)

// Causes returns all causes, in the order of preference when several apply.
func Causes() []Cause {
	return []Cause{
		CommandRestore, CommandRoll, CommandSnapshot, CommandRotateCertificates, CommandRotateKeys,
		EditVersion, EditReinstall, EditConfiguration, EditEtcd, EditRegistries, EditNetworking, EditObject,
		EditMachine, EditPool, EditSettings,
		HealthServerLost, HealthCheckFailed, HealthMachineFailed, HealthHostMissing,
		Unknown,
	}
}

// Kind is the origin of a request for disruption: a user's edit, a health policy, or a command.
type Kind string

// The kinds. KindNone means that the disruption was not requested.
const (
	KindEdit    Kind = "edit"
	KindHealth  Kind = "health"
	KindCommand Kind = "command"
	KindNone    Kind = ""
)

// Kind returns the kind that the cause begins with, or KindNone.
func (c Cause) Kind() Kind {
	before, _, _ := strings.Cut(string(c), "-")
	switch kind := Kind(before); kind {
	case KindEdit, KindHealth, KindCommand:
		return kind
	case KindNone:
	}
	return KindNone
}
