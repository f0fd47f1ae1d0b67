package machinejob

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/decide/cloudcredential"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// Paths inside the container that command lines and mounts share (docs/wire/machines.md#the-job: the machine image
// knows them).
const (
	bootstrapMount = "/run/secrets/machine"
	bootstrapFile  = bootstrapMount + "/value"
	filesMount     = "/path/to/machine/files"
	certsMount     = "/etc/rancher/ssl"
)

// Keys of a machine's spec that are not driver flags.
const (
	providerIDKey = "providerID"
	commonKey     = "common"
)

const (
	amazon    = "amazonec2"
	harvester = "harvester"

	// amazonClusterTag marks all resources of one cluster in the cloud account.
	amazonClusterTag = "kubernetes.io/cluster/"
	// amazonOwnGroup is the security group that the driver manages. The driver leaves other groups unchanged.
	amazonOwnGroup = "rancher-nodes"
)

// sshKeyFields are fields whose content becomes a private key, in a file with the name that ssh expects.
var sshKeyFields = []string{"sshKeyContents", "sshKey", "privateKeyFile"}

const privateKeyFile = "id_rsa"

// Driver is the node driver of a machine.
type Driver struct {
	// Name is in lower case, as in "--driver".
	Name string
	// URL is where the pod downloads the driver. Empty for a driver that is compiled into rancher-machine.
	URL string
	// SHA256 is the hash of the download in hexadecimal. Empty when it is unknown.
	SHA256 string
	// Aliases maps a field with the content of a file to the field whose flag takes the file's path.
	Aliases map[string]string
}

// Files returns the spec with paths in place of file contents, and the contents by file name. It does not modify the
// given spec.
func Files(spec map[string]any, aliases map[string]string) (map[string]any, map[string]string) {
	fields := make(map[string]any, len(spec)+1)
	maps.Copy(fields, spec)
	files := map[string]string{}
	for _, schemaField := range slices.Sorted(maps.Keys(aliases)) {
		content, ok := fields[schemaField].(string)
		if !ok {
			continue
		}
		delete(fields, schemaField)
		if content == "" {
			continue
		}
		driverField := aliases[schemaField]
		name := driverField
		if slices.Contains(sshKeyFields, schemaField) {
			name = privateKeyFile
		}
		if !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		files[name] = content
		fields[driverField] = filesMount + "/" + name
	}
	return fields, files
}

// DriverFlags returns the sorted flags of a driver for the fields of a machine's spec. Fields without a value have no
// flag.
func DriverFlags(driver string, fields map[string]any) []string {
	var flags []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key != providerIDKey && key != commonKey {
			flags = append(flags, flagsOf("--"+driver+"-"+kebab(key), fields[key])...)
		}
	}
	slices.Sort(flags)
	return flags
}

func flagsOf(flag string, value any) []string {
	switch v := value.(type) {
	case string:
		if v != "" {
			return []string{flag + "=" + v}
		}
	case int64:
		return []string{flag + "=" + strconv.FormatInt(v, 10)}
	case float64:
		return []string{flag + "=" + strconv.FormatFloat(v, 'f', -1, 64)}
	case bool:
		if v {
			return []string{flag}
		}
	case []any:
		var flags []string
		for _, item := range v {
			if text, ok := item.(string); ok {
				flags = append(flags, flag+"="+text)
			}
		}
		return flags
	}
	return nil
}

// kebab inserts a dash between a lower-case letter or digit and an upper-case letter, and returns lower case.
func kebab(field string) string { return strings.ToLower(separated(field, '-')) }

func separated(field string, separator rune) string {
	var out strings.Builder
	previousLow := false
	for _, r := range field {
		if previousLow && r >= 'A' && r <= 'Z' {
			out.WriteRune(separator)
		}
		out.WriteRune(r)
		previousLow = r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
	}
	return out.String()
}

// special applies the rules of one cloud. It returns a changed copy of the fields, or the fields themselves.
func special(driver string, fields map[string]any, cluster Cluster) map[string]any {
	switch driver {
	case amazon:
		return amazonFields(fields, cluster.ManagementName)
	case harvester:
		out := maps.Clone(fields)
		out["clusterName"] = cluster.ProvisioningName
		return out
	default:
		return fields
	}
}

func amazonFields(fields map[string]any, managementCluster string) map[string]any {
	out := maps.Clone(fields)
	tags, _ := fields["tags"].(string)
	if !strings.Contains(tags, amazonClusterTag) && managementCluster != "" {
		own := amazonClusterTag + managementCluster + ",owned"
		if tags != "" {
			own = tags + "," + own
		}
		out["tags"] = own
	}
	groups, _ := fields["securityGroup"].([]any)
	if _, set := fields["securityGroupReadonly"]; !set && len(groups) > 0 && groups[0] != any(amazonOwnGroup) {
		out["securityGroupReadonly"] = true
	}
	return out
}

// createArguments is the command line of the container that creates the machine, and the files that it refers to
// (docs/wire/machines.md#command-line: the order is the contract of the image's entrypoint).
func createArguments(in Input) ([]string, map[string]string) {
	fields, files := Files(in.Machine.Spec, in.Driver.Aliases)
	fields = special(in.Driver.Name, withoutCredential(fields, in.Credential), in.Cluster)
	instance := naming.Instance(in.Machine.Name)
	args := append(storeArguments(in), "create", "--driver="+in.Driver.Name, "--custom-install-script="+bootstrapFile)
	if hostname := naming.Hostname(in.Machine.HostnameLimit, in.Machine.Name); hostname != instance {
		args = append(args, "--hostname-override="+hostname)
	}
	args = append(args, literal(DriverFlags(in.Driver.Name, fields))...)
	return append(args, instance), files
}

// withoutCredential returns the fields that the credential does not have. A flag would override the environment, and
// the kind of a machine config may have defaults for fields of the credential, such as the port of a vCenter.
func withoutCredential(fields map[string]any, credential map[string][]byte) map[string]any {
	out := maps.Clone(fields)
	for key, value := range credential {
		if len(value) > 0 {
			delete(out, cloudcredential.FieldOf(key))
		}
	}
	return out
}

// literal keeps Kubernetes from expanding $(NAME) in a user's text. The container's environment contains a credential.
// Expansion would show it to every user with read access to the machine in the cloud.
func literal(args []string) []string {
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$", "$$")
	}
	return args
}

// removeArguments is the command line that removes the machine. The driver's state has everything except the
// credentials, which come from the environment.
func removeArguments(in Input) []string {
	return append(storeArguments(in), "rm", "-y", "--update-config", naming.Instance(in.Machine.Name))
}

func storeArguments(in Input) []string {
	return []string{
		"--driver-download-url=" + in.Driver.URL,
		"--driver-hash=" + in.Driver.SHA256,
		"--secret-namespace=" + in.Machine.Namespace,
		"--secret-name=" + naming.MachineState(in.Machine.Name),
	}
}
