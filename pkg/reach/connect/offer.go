package connect

import (
	"runtime"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// architectures are the machines for which a server may offer an agent.
var architectures = []string{"amd64", "arm64"}

// OfferedAgent returns a function for the agent that the endpoints with these options offer to machines. It returns nil
// without a ServerURL, and while no agent is readable. The result changes with the files in AssetsDir.
func OfferedAgent(o Options, version string) (func() *render.Agent, error) {
	if err := o.completeAddresses(); err != nil {
		return nil, err
	}
	sums := map[string]func() string{}
	for _, arch := range architectures {
		files := newAssets(o.AssetsDir, o.Binary)
		sums[arch] = func() string { return files.checksumFor(arch) }
	}
	return func() *render.Agent {
		offer := &render.Agent{Version: version, Server: o.ServerURL, CAChecksum: naming.CAChecksum(string(o.CACerts)),
			Sums: map[string]string{}}
		for arch, sum := range sums {
			if sum := sum(); sum != "" {
				offer.Sums[arch] = sum
			}
		}
		if o.ServerURL == "" || len(offer.Sums) == 0 {
			return nil
		}
		return offer
	}, nil
}

// checksumFor is the SHA-256 of the served agent for an architecture, or "" without one.
func (a assets) checksumFor(arch string) string {
	if f := a.open(agentAsset + arch); f != nil {
		defer f.Close()
		return a.known.file(f)
	}
	if arch == runtime.GOARCH && runtime.GOOS == "linux" {
		return a.checksum()
	}
	return ""
}
