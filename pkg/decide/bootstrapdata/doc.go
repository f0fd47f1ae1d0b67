// Package bootstrapdata renders what a new machine runs first: a script that installs the node agent and lets it
// introduce itself, with everything the machine has to know in front of it (docs/wire/machines.md#bootstrap-script).
//
// A machine of one of Drover's own node drivers gets the plain script: rancher-machine wraps it into cloud-init or runs it
// over SSH. A machine of another Cluster API infrastructure provider gets it inside a cloud-config, merged with the user's
// own (CloudConfig). Windows machines get PowerShell.
//
// The token in the script is a digest of a service account's token, worth nothing but the right to introduce this one
// machine; the account's token never leaves the management cluster. The machine's roles are not in the script, because the
// server knows them.
package bootstrapdata
