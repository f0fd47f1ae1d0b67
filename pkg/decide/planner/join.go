package planner

import (
	"cmp"
	"encoding/json"
	"hash/crc32"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// joinURL is where others can join a server, empty while that is not known. port is the supervisor port.
func (m *machine) joinURL(port int) string {
	host := m.address()
	if m.marks.InitNode && m.roles.OnlyETCD() {
		host = m.etcdAddress()
	}
	if host == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// address is the machine's last internal address, or its first external one. Without them it is an address from its
// registration, or from its driver.
func (m *machine) address() string {
	internal, external := "", ""
	for _, a := range m.Addresses {
		switch {
		case a.Type == "InternalIP":
			internal = a.Address
		case a.Type == "ExternalIP" && external == "":
			external = a.Address
		}
	}
	recorded, recordedExternal := "", ""
	if m.Driver != nil {
		recorded, recordedExternal = m.Driver.PrivateIPAddress, m.Driver.IPAddress
	}
	return cmp.Or(internal, external, firstIP(m.Annotations[rkev1.InternalAddressAnnotation]),
		firstIP(m.Annotations[rkev1.AddressAnnotation]),
		recorded, recordedExternal)
}

// firstIP is the first IP address in a comma-separated list. Other entries may be names of interfaces.
func firstIP(list string) string {
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); net.ParseIP(entry) != nil {
			return entry
		}
	}
	return ""
}

// etcdAddress is the host in the client URL of the machine's own etcd member, as the node reports it.
func (m *machine) etcdAddress() string {
	name := strings.TrimSpace(m.output(render.EtcdName))
	if name == "" {
		return ""
	}
	for line := range strings.Lines(m.output(render.CaptureAddress)) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var info struct {
			Members []struct {
				Name       string   `json:"name"`
				ClientURLs []string `json:"clientURLs"`
			} `json:"members"`
		}
		if json.Unmarshal([]byte(line), &info) != nil {
			return ""
		}
		for _, member := range info.Members {
			if member.Name == name && len(member.ClientURLs) > 0 {
				return hostOf(member.ClientURLs[0])
			}
		}
		return ""
	}
	return ""
}

// hostOf is the IP address in a URL that a node reported. Anything else is rejected.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || net.ParseIP(u.Hostname()) == nil {
		return ""
	}
	return u.Hostname()
}

// output is what a periodic instruction printed in its last successful run.
func (m *machine) output(name string) string {
	out, ok := m.Plan.State.PeriodicOutput[name]
	if !ok || out.ExitCode != 0 || out.LastSuccessfulRunTime == "" {
		return ""
	}
	return string(out.Stdout)
}

// isRunning reports that the server on the machine can be joined: Cluster API has seen its node, or its plan was
// applied and all probes pass.
func (m *machine) isRunning() bool {
	return m.HasNode || m.Plan.State.InSync && len(m.unhealthyProbes()) == 0
}

// chooseServer is the server that a worker joins. A worker keeps its server while that can be joined, so other servers
// can come and go without effect on it. Otherwise the choice spreads workers by their UID.
func (c *cluster) chooseServer(m *machine) string {
	servers := slices.DeleteFunc(c.servers(), func(o *machine) bool { return o.UID == m.UID })
	if joined := m.Marks.JoinedTo; joined != "" && slices.ContainsFunc(servers, func(o *machine) bool {
		return o.marks.JoinURL == joined
	}) {
		return joined
	}
	servers = slices.DeleteFunc(servers, func(o *machine) bool { return !o.roles.ControlPlane })
	if len(servers) == 0 {
		return ""
	}
	return servers[spread(string(m.UID), len(servers))].marks.JoinURL
}

// servers are the servers that workers may stay with. Their join URLs are known when the first machine of a tier asks.
func (c *cluster) servers() []*machine {
	if c.joinable == nil {
		c.joinable = c.collect((*machine).canBeJoined)
	}
	return slices.Clone(c.joinable)
}

// canBeJoined reports that workers may stay with a server.
func (m *machine) canBeJoined() bool {
	return isLive(m) && m.marks.JoinURL != "" && (m.roles.ControlPlane || m.marks.InitNode)
}

// spread maps a key to 0..n-1. Existing clusters were built with this formula.
func spread(key string, n int) int {
	sum := uint64(crc32.ChecksumIEEE([]byte(key)))
	if sum == math.MaxUint32 {
		sum--
	}
	return int(sum * uint64(n) / math.MaxUint32)
}
