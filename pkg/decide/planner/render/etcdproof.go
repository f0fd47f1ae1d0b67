package render

import (
	_ "embed" // the script that nodes run
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// EtcdProofInstruction is the name of the first instruction of a plan that restarts an etcd member. If too few other
// members are healthy, it fails and the plan ends. The server's view may be outdated; the node's is not.
const EtcdProofInstruction = "etcd-healthy"

// etcdProofDone is the name of the last instruction of such a plan. It records on the node that this delivery needs no
// further proof.
const etcdProofDone = "etcd-healthy-done"

// etcdProofTries is how often the node checks, every five seconds, before the plan fails.
const etcdProofTries = 12

//go:embed scripts/etcd_healthy.sh
var etcdHealthyShell string

// EtcdProof is what a node has to prove before it restarts.
type EtcdProof struct {
	// Others is the minimum number of other etcd members.
	Others int
	// Before are the plans that the node may have now. They say where its etcd reports its health.
	Before []plan.NodePlan
	// Delivery identifies this delivery of a plan to the node.
	Delivery string
}

// WithEtcdProof returns a plan that runs only if the node proves that etcd can do without it. The proof belongs to a
// delivery and not to the machine's desired plan. Plans are compared without it, see [WithoutEtcdProof].
func (n Node) WithEtcdProof(p plan.NodePlan, proof EtcdProof) plan.NodePlan {
	done, delivery := n.Dirs.Provisioning+"/etcd-healthy", naming.SHA256(proof.Delivery)
	prove := plan.OneTimeInstruction{SaveOutput: true, CommonInstruction: plan.CommonInstruction{
		Name: EtcdProofInstruction, Command: "/bin/sh", Args: []string{
			"-c", etcdHealthyShell, EtcdProofInstruction,
			strings.Join(n.etcdMetrics(append(slices.Clone(proof.Before), p)), " "),
			fmt.Sprintf("https://%s:%d", n.Loopback, distro.EtcdClientPort),
			done, delivery, strconv.Itoa(proof.Others),
			n.Dirs.ServerTLS("etcd/client.crt"), n.Dirs.ServerTLS("etcd/client.key"), strconv.Itoa(etcdProofTries),
		},
	}}
	record := plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name: etcdProofDone, Command: "/bin/sh", Args: []string{
			"-c", `umask 077; mkdir -p "$(dirname "$1")" && printf '%s' "$2" >"$1"`, etcdProofDone, done, delivery,
		},
	}}
	p.Instructions = slices.Concat([]plan.OneTimeInstruction{prove}, p.Instructions, []plan.OneTimeInstruction{record})
	return p
}

// etcdMetrics returns the distinct addresses at which etcd may report its health and metrics with these plans, and the
// default address.
func (n Node) etcdMetrics(plans []plan.NodePlan) []string {
	var out []string
	for _, p := range plans {
		for listen := range strings.SplitSeq(argValue(listOf(n.configOf(p)["etcd-arg"]), "listen-metrics-urls"), ",") {
			if at := metricsAt(listen, n.Loopback); at != "" {
				out = append(out, at)
			}
		}
	}
	out = append(out, fmt.Sprintf("http://%s:%d", n.Loopback, distro.EtcdHealthPort))
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(at string) bool {
		again := seen[at]
		seen[at] = true
		return again
	})
}

// metricsAt is the address at which the node reaches a listener, empty for an invalid URL.
func metricsAt(listen, loopback string) string {
	at, err := url.Parse(strings.TrimSpace(listen))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Port() == "" ||
		!hostName.MatchString(at.Hostname()) {
		return ""
	}
	return fmt.Sprintf("%s://%s:%s", at.Scheme, reachedAt(at.Hostname(), loopback), at.Port())
}

// hostName matches hosts that are safe in a blank-separated list.
var hostName = regexp.MustCompile(`^[0-9A-Za-z.:_-]+$`)

// HasEtcdProof reports whether a plan begins with the proof.
func HasEtcdProof(p plan.NodePlan) bool { return slices.ContainsFunc(p.Instructions, isEtcdProof) }

// argOthers is the index of the number of other members in the proof's arguments.
const argOthers = 7

// EtcdProofOf returns the comparable part of a plan's proof: Others. It is empty for a plan without a proof.
func EtcdProofOf(p plan.NodePlan) EtcdProof {
	for _, i := range p.Instructions {
		if i.Name == EtcdProofInstruction && len(i.Args) > argOthers {
			others, _ := strconv.Atoi(i.Args[argOthers])
			return EtcdProof{Others: others}
		}
	}
	return EtcdProof{}
}

// Needs is the minimum number of other members that the node must be connected to, as in the proof's script. A majority
// must remain without this member. With at most two other members, all of them are needed.
func (p EtcdProof) Needs() int { return min((p.Others+1)/2+1, p.Others) }

// WithoutEtcdProof returns the plan without the proof.
func WithoutEtcdProof(p plan.NodePlan) plan.NodePlan {
	if HasEtcdProof(p) {
		p.Instructions = slices.DeleteFunc(slices.Clone(p.Instructions), isEtcdProof)
	}
	return p
}

func isEtcdProof(i plan.OneTimeInstruction) bool {
	return i.Name == EtcdProofInstruction || i.Name == etcdProofDone
}
