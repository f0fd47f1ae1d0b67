package machinejob

import (
	"maps"
	"strings"
)

// credentialNamespace holds the credentials that several namespaces share.
const credentialNamespace = "cattle-global-data"

// variablePrefixes lists the drivers whose environment variables do not begin with the driver's name.
var variablePrefixes = map[string]string{
	"amazonec2":       "AWS",
	"rackspace":       "OS",
	"openstack":       "OS",
	"vmwarevsphere":   "VSPHERE",
	"vmwarefusion":    "FUSION",
	"vmwarevcloudair": "VCLOUDAIR",
}

// CredentialRef returns the namespace and name of the Secret that a machine's spec.common.cloudCredentialSecretName
// refers to. Both are empty without a reference.
func CredentialRef(reference, machineNamespace string) (namespace, name string) {
	if reference == "" {
		return "", ""
	}
	if shared, ok := strings.CutPrefix(reference, credentialNamespace+":"); ok {
		return credentialNamespace, shared
	}
	return machineNamespace, reference
}

// Environment is the data of the Secret with the container's environment: the proxy variables and the credential. The
// credential's keys end in "-FIELD" and become PREFIX_FIELD.
func Environment(driver string, proxy map[string]string, credential map[string][]byte) map[string][]byte {
	out := make(map[string][]byte, len(proxy)+len(credential))
	for name, value := range proxy {
		out[name] = []byte(value)
	}
	prefix, ok := variablePrefixes[driver]
	if !ok {
		prefix = driver
	}
	variables := make(map[string][]byte, len(credential))
	for key, value := range credential {
		field := key[strings.LastIndex(key, "-")+1:]
		if field != "" {
			variables[strings.ToUpper(prefix+"_"+separated(field, '_'))] = value
		}
	}
	maps.Copy(out, variables)
	return out
}
