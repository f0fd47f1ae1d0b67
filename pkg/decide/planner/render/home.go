package render

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// Keys of the main configuration that are read from delivered plans.
const (
	keyDatastore = "datastore-endpoint" // makes servers keep the cluster's data in a database instead of etcd
	keyDataDir   = "data-dir"
	keyServer    = "server" // the server that a node joins
)

func (m *machinePlan) layerDatastore() error {
	if m.roles.Server() && hasDatastore(m.config[keyDatastore]) {
		// The value is not shown, because it may contain a password.
		m.warn(ReasonForeignDatastore, m.origin[keyDatastore], "Drover passes key %s through: servers store the "+
			"cluster's data there, and not on the machines "+
			"with etcd. Snapshots, restores and health checks support only etcd", keyDatastore)
	}
	return nil
}

func hasDatastore(endpoint any) bool { return endpoint != nil && endpoint != "" }

// Home is where a node keeps the cluster's data according to a delivered plan: the distribution and its data directory.
type Home struct {
	Runtime distro.Runtime
	Dir     string
}

// SameConfig reports whether two plans write the same main configuration, byte for byte, or none. What is read from the
// configuration of one plan then applies to the other.
func SameConfig(a, b plan.NodePlan) bool {
	return slices.EqualFunc(configFiles(a), configFiles(b), func(a, b *plan.File) bool {
		return a.Path == b.Path && a.Content == b.Content
	})
}

// configFiles returns the files of a plan that may be the node's main configuration, in the order in which they are
// written.
func configFiles(p plan.NodePlan) []*plan.File {
	var out []*plan.File
	rke2, k3s := distro.RKE2.ConfigFile(), distro.K3s.ConfigFile()
	for i := range p.Files {
		if file := &p.Files[i]; file.Path == rke2 || file.Path == k3s {
			out = append(out, file)
		}
	}
	return out
}

// valueIn reads the value of a key from a configuration file into value, and leaves value unchanged without the key. It
// returns false for unreadable files and for values of another type. Keys are case-sensitive, as for the distributions
// and unlike in a Go struct decoder.
func valueIn(file *plan.File, key string, value any) bool {
	var config map[string]json.RawMessage
	if json.Unmarshal(decoded(file.Content), &config) != nil {
		return false
	}
	raw, ok := config[key]
	return !ok || json.Unmarshal(raw, value) == nil
}

// KeepsDataElsewhere reports whether a plan makes a server keep the cluster's data in a datastore other than etcd.
// known is false for plans without configuration.
func KeepsDataElsewhere(p plan.NodePlan) (elsewhere, known bool) {
	for _, file := range slices.Backward(configFiles(p)) {
		var endpoint any
		if valueIn(file, keyDatastore, &endpoint) {
			return hasDatastore(endpoint), true
		}
	}
	return false, false
}

// HomeOf reads the Home from a plan; false for plans without configuration. Of several files the last one wins.
func HomeOf(p plan.NodePlan) (Home, bool) {
	files := configFiles(p)
	for _, runtime := range []distro.Runtime{distro.RKE2, distro.K3s} {
		for _, file := range slices.Backward(files) {
			dir := ""
			if file.Path == runtime.ConfigFile() && valueIn(file, keyDataDir, &dir) {
				return Home{runtime, path.Clean(cmp.Or(dir, runtime.DefaultDataDir()))}, true
			}
		}
	}
	return Home{}, false
}

// JoinedServer reads from a delivered plan which server the node joins. It is empty for the init node and for plans
// without configuration.
func JoinedServer(p plan.NodePlan) string {
	for i := range p.Files {
		if file := &p.Files[i]; path.Base(file.Path) == "50-rancher.yaml" {
			server := ""
			valueIn(file, keyServer, &server)
			return server
		}
	}
	return ""
}
