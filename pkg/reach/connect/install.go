package connect

import (
	_ "embed" // the scripts are files, so that linters can check them
	"fmt"
	"net/http"
	"strings"

	"github.com/drover-io/drover/pkg/decide/naming"
)

const installPath = "/system-agent-install.sh"

//go:embed install.sh
var installScript string

//go:embed uninstall.sh
var uninstallScript string

// InstallScript is the script that installs the node agent on Linux, according to docs/wire/machines.md#install-script.
// Environment variables choose server, token, authority and roles.
func InstallScript() string { return installScript }

// installScript serves the script for hosts that users register manually. The served script contains this server's
// address. Token and roles come from the command line.
func (s *server) installScript(w http.ResponseWriter, r *http.Request) {
	base := s.baseURL(r)
	first, rest, _ := strings.Cut(installScript, "\n")
	var b strings.Builder
	fmt.Fprintln(&b, first)
	if strings.ContainsAny(base, "'\"`$\\ \n") {
		http.Error(w, "this host name cannot be used", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(&b, "CATTLE_AGENT_BINARY_BASE_URL=\"%s/assets\"\n", base)
	fmt.Fprintf(&b, "CATTLE_SERVER=\"${CATTLE_SERVER:-%s}\"\n", base)
	if sum := naming.CAChecksum(string(s.CACerts)); sum != "" {
		fmt.Fprintf(&b, "CATTLE_CA_CHECKSUM=\"${CATTLE_CA_CHECKSUM:-%s}\"\n", sum)
	}
	if sum, arch := s.assets.agentChecksum(); sum != "" {
		fmt.Fprintf(&b, "CATTLE_AGENT_BINARY_CHECKSUM_%s=%q\n", arch, sum)
	}
	fmt.Fprintln(&b)
	b.WriteString(rest)
	text(w, b.String())
}
