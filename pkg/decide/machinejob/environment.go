package machinejob

import (
	"maps"
	"strings"

	"github.com/drover-io/drover/pkg/decide/cloudcredential"
)

// variablePrefixes lists the drivers whose environment variables do not begin with the driver's name.
var variablePrefixes = map[string]string{
	"amazonec2":       "AWS",
	"rackspace":       "OS",
	"openstack":       "OS",
	"vmwarevsphere":   "VSPHERE",
	"vmwarefusion":    "FUSION",
	"vmwarevcloudair": "VCLOUDAIR",
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
		field := cloudcredential.FieldOf(key)
		if field != "" {
			variables[strings.ToUpper(prefix+"_"+separated(field, '_'))] = value
		}
	}
	maps.Copy(out, variables)
	return out
}
