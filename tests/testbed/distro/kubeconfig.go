package distro

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// writeKubeconfig writes a kubeconfig in the distributions' format: one cluster, user and context called "default".
// With embed it contains the certificate data, for the admin's file, which users copy. Otherwise it contains file
// names.
func writeKubeconfig(path, server, caFile, certBase string, embed bool) error {
	cluster, user := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server, cluster.CertificateAuthority = server, caFile
	user.ClientCertificate, user.ClientKey = certBase+".crt", certBase+".key"
	config := clientcmdapi.NewConfig()
	config.Clusters["default"], config.AuthInfos["default"] = cluster, user
	kubeContext := clientcmdapi.NewContext()
	kubeContext.Cluster, kubeContext.AuthInfo = "default", "default"
	config.Contexts["default"], config.CurrentContext = kubeContext, "default"
	if embed {
		if err := clientcmdapi.FlattenConfig(config); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return localfile.Write(path, data)
}

// writeServerKubeconfigs writes the admin's kubeconfig and those of a server's own components.
func writeServerKubeconfigs(l Layout) error {
	// The admin's file has the port that users know. The components connect to the API server directly.
	if err := writeKubeconfig(l.adminKubeconfig(), fmt.Sprintf("https://127.0.0.1:%d", apiPort), l.tls("server-ca.crt"),
		l.tls("client-admin"), true); err != nil {
		return err
	}
	inner := fmt.Sprintf("https://127.0.0.1:%d", l.serverAPIPort())
	for file, cert := range map[string]string{
		"admin": "client-admin", "controller": "client-controller", "scheduler": "client-scheduler",
		"supervisor": "client-supervisor",
	} {
		if err := writeKubeconfig(l.cred(file+".kubeconfig"), inner, l.tls("server-ca.crt"), l.tls(cert),
			false); err != nil {
			return err
		}
	}
	return nil
}
