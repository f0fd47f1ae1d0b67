// Package distro is the stand-in for RKE2 and K3s on the lab's machines. The real distributions cannot be had where these tests
// run, so this program honours their contract (the configuration files, join rules, certificates' places, ports, health
// endpoints, systemd units and installer image that plans rely on) and runs the real components below it: etcd, kube-apiserver,
// controller manager, scheduler, and a kubelet whose pods are local processes. A plan for a machine with the stand-in is byte for byte the
// plan for a machine with the real thing.
//
// It is never part of the product.
//
// One program serves both, told apart by its name (rke2 or k3s):
//
//	config.go     /etc/rancher/<runtime>/config.yaml and config.yaml.d, merged as the real ones merge them
//	layout.go     which file lies where
//	certs.go      the certificate authorities and certificates of a server
//	components.go what runs on a server: programs and their arguments, as data
//	run.go        runs them; if one ends, all end, and systemd starts the unit again
//	supervisor.go the supervisor port: what servers answer joining nodes
//	join.go       what a joining worker or server asks for
//	member.go     how a server's etcd becomes a member, and voter, of the cluster's etcd
//	bootstrap.go  what all servers have in common, and how etcd keeps it
//	reset.go      "server --cluster-reset": one server begins etcd anew, with a snapshot's data or its own; and how the others join it
//	snapshot.go   a server's folder of snapshots
//	snapshotcommand.go "etcd-snapshot", which asks the server that runs
//	snapshotobjects.go the cluster's list of snapshots, ETCDSnapshotFile objects
//	removal.go    how a member leaves when its node is told to
//	certificate.go "certificate rotate": the certificates of services are moved aside, and issued anew by the next start
//	secretsencrypt.go the keys that Secrets are encrypted with, and the stages of their rotation
//	secretsencrypt_share.go how all servers come to have the same keys
//	secretsencrypt_server.go what a server does in a rotation
//	secretsencrypt_command.go "secrets-encrypt", which asks the server that runs
//	balance.go    local ports that lead to whichever server answers
//	demux.go      K3s' one port for supervisor and API
//	image.go      the installer image: run.sh, killall.sh, the programs and the units, as a docker archive
//
// Snapshots are taken when they are asked for: there is no schedule, and etcd-snapshot-schedule-cron is ignored. They are not compressed, those that
// failed are not listed, those of nodes that are gone stay listed, and none goes to S3: a server with etcd-s3 does not start.
package distro
