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

// installScript serves the script for hosts that users register manually.
func (s *server) installScript(w http.ResponseWriter, r *http.Request) {
	base := s.baseURL(r)
	if strings.ContainsAny(base, "'\"`$\\ \n") {
		http.Error(w, "this host name cannot be used", http.StatusBadRequest)
		return
	}
	text(w, hostScript(base, s.CACerts, s.assets))
}

// hostScript is the script with the address of a server. Token and roles come from the command line.
func hostScript(base string, caCerts []byte, downloads assets) string {
	first, rest, _ := strings.Cut(installScript, "\n")
	var b strings.Builder
	fmt.Fprintln(&b, first)
	fmt.Fprintf(&b, "CATTLE_AGENT_BINARY_BASE_URL=\"%s/assets\"\n", base)
	fmt.Fprintf(&b, "CATTLE_SERVER=\"${CATTLE_SERVER:-%s}\"\n", base)
	if sum := naming.CAChecksum(string(caCerts)); sum != "" {
		fmt.Fprintf(&b, "CATTLE_CA_CHECKSUM=\"${CATTLE_CA_CHECKSUM:-%s}\"\n", sum)
	}
	if sum, arch := downloads.agentChecksum(); sum != "" {
		fmt.Fprintf(&b, "CATTLE_AGENT_BINARY_CHECKSUM_%s=%q\n", arch, sum)
	}
	fmt.Fprintln(&b)
	b.WriteString(rest)
	return b.String()
}

// InstallScriptSHA256 returns a function for the SHA-256 of the script that the endpoints with these options serve to
// hosts. It returns "" without a ServerURL, because the script then depends on the request. The digest changes with
// the agent in AssetsDir.
func InstallScriptSHA256(o Options) (func() string, error) {
	if err := o.completeAddresses(); err != nil {
		return nil, err
	}
	downloads := newAssets(o.AssetsDir, o.Binary)
	return func() string {
		if o.ServerURL == "" {
			return ""
		}
		return naming.SHA256(hostScript(o.ServerURL, o.CACerts, downloads))
	}, nil
}
