package registration_test

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/testkit/allocations"
)

// Bounds of what a host's headers may cost: bytes for each byte of input, and bytes for any input.
const (
	allocationPerByte = 128
	allocationAlways  = 256 << 10
	longestMessage    = 4096
)

// FuzzParseHost reads headers of strangers. The cost of a request must follow from its size, and no message may be
// long, because Drover stores messages in annotations.
func FuzzParseHost(f *testing.F) {
	f.Add("0123456789abcdef", "edge-1", "203.0.113.7,2001:db8::1", "cattle.io/os=linux,site=north",
		"a=b:NoExecute,c:NoSchedule")
	f.Add("", "Edge_1", "eth0", "a", "a:b")
	f.Add("x", strings.Repeat("a", 1<<12), strings.Repeat("1,", 1<<12), strings.Repeat("a=b,", 1<<12),
		"a:NoSchedule,a:NoSchedule")
	f.Add("x", "\xff", "1%eth0", strings.Repeat("\xff", 300), "node-role.kubernetes.io/etcd:NoSchedule")
	f.Fuzz(func(t *testing.T, id, node, address, labels, taints string) {
		headers := map[string][]string{"X-Cattle-Id": {id}, "X-Cattle-Role-Worker": {"true"},
			"x-cattle-node-name": {node}, "X-Cattle-Address": {address}, "X-Cattle-Labels": {labels},
			"X-Cattle-Taints": {taints}, "Authorization": {id}}
		size := len(id) + len(node) + len(address) + len(labels) + len(taints)
		var host registration.Host
		var err error
		allocations.AtMost(t, uint64(allocationAlways+allocationPerByte*size), func() {
			host, err = registration.ParseHost(registration.HostHeaders(headers))
		})
		if err != nil {
			if len(err.Error()) > longestMessage {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			return
		}
		machine, err := host.Machine("fleet-default", "demo")
		if err != nil || machine.Machine.Labels["rke.cattle.io/machine-id"] != host.ID ||
			machine.Machine.Labels["cluster.x-k8s.io/cluster-name"] != "demo" {
			t.Errorf("%v, labels %v", err, machine.Machine)
		}
	})
}

// TestParseHost_CostFollowsFromTheSize checks the largest request with many different taints, labels and addresses.
func TestParseHost_CostFollowsFromTheSize(t *testing.T) {
	many := func(prefix, suffix string) string {
		var b strings.Builder
		for i := 0; b.Len() < 20<<10; i++ {
			b.WriteString(prefix)
			b.WriteByte(byte('a' + i%26))
			b.WriteByte(byte('a' + i/26%26))
			b.WriteByte(byte('a' + i/26/26%26))
			b.WriteString(suffix)
		}
		return b.String()
	}
	headers := map[string][]string{"X-Cattle-Id": {"a"}, "X-Cattle-Role-Worker": {"true"},
		"X-Cattle-Address": {strings.Repeat("::,", 20<<10/3)},
		"X-Cattle-Labels":  {many("", "=,")}, "X-Cattle-Taints": {many("", ":NoExecute,")}}
	allocations.AtMost(t, 60<<10*allocationPerByte, func() {
		if _, err := registration.ParseHost(registration.HostHeaders(headers)); err != nil {
			t.Error(err)
		}
	})
}
