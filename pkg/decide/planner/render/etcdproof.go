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
)

// EtcdProofInstruction is the name of the instruction that a plan begins with which restarts a member of etcd. It fails unless enough other
// members are well, and the plan ends there: the server's view may be old, the node's is not.
const EtcdProofInstruction = "etcd-healthy"

// etcdProofDone is the name of the instruction at the end of such a plan. With it the node knows what needs no proof any more.
const etcdProofDone = "etcd-healthy-done"

// etcdProofTries is how often the node looks, five seconds apart, before the plan fails.
const etcdProofTries = 12

//go:embed scripts/etcd_healthy.sh
var etcdHealthyShell string

// EtcdProof is what a node has to prove before it is restarted.
type EtcdProof struct {
	// Others is how many other members of etcd there are at least.
	Others int
	// Before are the plans that the node may have now: its etcd tells its health where they say.
	Before []plan.NodePlan
	// Delivery tells this delivery of a plan from all others to the same node.
	Delivery string
}

// WithEtcdProof is a plan that is carried out only if the node proves that etcd can do without it. The proof belongs to a delivery and not
// to what a machine should have: plans are compared without it, see [WithoutEtcdProof].
func (n Node) WithEtcdProof(p plan.NodePlan, proof EtcdProof) plan.NodePlan {
	done, delivery := n.Dirs.Provisioning+"/etcd-healthy", sha256Hex(proof.Delivery)
	prove := plan.OneTimeInstruction{SaveOutput: true, CommonInstruction: plan.CommonInstruction{
		Name: EtcdProofInstruction, Command: "/bin/sh", Args: []string{
			"-c", etcdHealthyShell, EtcdProofInstruction,
			strings.Join(n.etcdMetrics(append(slices.Clone(proof.Before), p)), " "), fmt.Sprintf("https://%s:%d", n.Loopback, distro.EtcdClientPort),
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

// etcdMetrics are the addresses at which etcd may tell its health and its metrics with these plans, each once, and the one it has by itself.
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

// metricsAt is where the node reaches what listens at a URL, empty for what is none.
func metricsAt(listen, loopback string) string {
	at, err := url.Parse(strings.TrimSpace(listen))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Port() == "" || !hostName.MatchString(at.Hostname()) {
		return ""
	}
	return fmt.Sprintf("%s://%s:%s", at.Scheme, reachedAt(at.Hostname(), loopback), at.Port())
}

// hostName is what may stand as a host in a list with blanks between its items.
var hostName = regexp.MustCompile(`^[0-9A-Za-z.:_-]+$`)

// HasEtcdProof reports that a plan begins with the proof.
func HasEtcdProof(p plan.NodePlan) bool { return slices.ContainsFunc(p.Instructions, isEtcdProof) }

// argOthers is where the arguments of the proof say how many other members there are.
const argOthers = 7

// EtcdProofOf is the part of a plan's proof that its machines can be compared with: Others. It is empty for a plan without one.
func EtcdProofOf(p plan.NodePlan) EtcdProof {
	for _, i := range p.Instructions {
		if i.Name == EtcdProofInstruction && len(i.Args) > argOthers {
			others, _ := strconv.Atoi(i.Args[argOthers])
			return EtcdProof{Others: others}
		}
	}
	return EtcdProof{}
}

// Needs is how many other members the node has to be connected to at least, as the script of the proof has it: more than half of them all are left
// without this one, and all others where they are two at most.
func (p EtcdProof) Needs() int { return min((p.Others+1)/2+1, p.Others) }

// WithoutEtcdProof is the plan that the proof was added to.
func WithoutEtcdProof(p plan.NodePlan) plan.NodePlan {
	if HasEtcdProof(p) {
		p.Instructions = slices.DeleteFunc(slices.Clone(p.Instructions), isEtcdProof)
	}
	return p
}

func isEtcdProof(i plan.OneTimeInstruction) bool {
	return i.Name == EtcdProofInstruction || i.Name == etcdProofDone
}
