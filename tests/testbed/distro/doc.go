// Package distro is the stand-in for RKE2 and K3s on the lab's machines. The real distributions are not available where
// these tests run. This program honors their contract: configuration files, join rules, paths of certificates, ports,
// health endpoints, systemd units and the installer image. Below that, it runs the real components: etcd,
// kube-apiserver, controller manager, scheduler, and a kubelet whose pods are local processes. The plan for a machine
// with the stand-in is byte for byte the plan for a machine with the real distribution.
//
// It is never part of the product.
//
// One program serves as both distributions. Its name (rke2 or k3s) selects one:
//
//	config.go     /etc/rancher/<runtime>/config.yaml and config.yaml.d, merged as the real ones merge them
//	layout.go     which file is where
//	certs.go      the certificate authorities and certificates of a server
//	components.go what runs on a server: programs and their arguments, as data
//	run.go        runs them; if one ends, all end, and systemd restarts the unit
//	supervisor.go the supervisor port: what servers answer joining nodes
//	join.go       what a joining worker or server asks for
//	member.go     how a server's etcd becomes a member, and voter, of the cluster's etcd
//	bootstrap.go  what all servers have in common, and how etcd stores it
//	reset.go      "server --cluster-reset": one server starts a new etcd, with a snapshot's data or its own data,
//	              and the other servers join it
//	snapshot.go   a server's folder of snapshots
//	s3.go a bucket with snapshots; s3snapshots.go what a server does with it
//	snapshotcommand.go "etcd-snapshot", which calls the running server
//	snapshotobjects.go the cluster's list of snapshots, ETCDSnapshotFile objects
//	removal.go    how a member leaves etcd when its node requests it
//	certificate.go "certificate rotate": moves the certificates of services aside; the next start issues new ones
//	secretsencrypt.go the keys that encrypt Secrets, and the stages of their rotation
//	secretsencrypt_share.go how all servers get the same keys
//	secretsencrypt_server.go what a server does in a rotation
//	secretsencrypt_command.go "secrets-encrypt", which calls the running server
//	balance.go    local ports that lead to any server that answers
//	demux.go      K3s' one port for supervisor and API
//	image.go      the installer image: run.sh, killall.sh, the programs and the units, as a docker archive
//	release.go    the same as K3s is published: one program with its components, an install script, an archive of images
//
// Snapshots are taken only on request. There is no schedule, and etcd-snapshot-schedule-cron is ignored. Snapshots are
// not compressed. The list omits snapshots that failed on a server, and keeps snapshots of deleted nodes. As in the real
// distributions, a snapshot that cannot be uploaded to S3 stays on the server, the command succeeds, and the cluster's
// list has the reason. The settings of S3 come from the configuration and the command line, not from a Secret.
package distro
