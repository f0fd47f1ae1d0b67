// Package bootstrapdata renders the first script that a new machine runs. The script installs the node agent and
// registers the machine. Variables at its beginning hold everything that the machine needs
// (docs/wire/machines.md#bootstrap-script).
//
// A machine of one of Drover's node drivers gets the plain script: rancher-machine wraps it into cloud-init or runs it
// over SSH. A machine of another Cluster API infrastructure provider gets it inside a cloud-config, merged with the
// user's own (CloudConfig).
//
// The token in the script is a digest of a service account's token. It permits only the registration of this machine.
// The account's token never leaves the management cluster. The script does not contain the machine's roles, because the
// server knows them.
package bootstrapdata
