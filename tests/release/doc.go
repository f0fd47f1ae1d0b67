// Command release writes the files of a release with which clusterctl installs Drover. scripts/release runs it.
//
// Cluster API knows three kinds of providers that Drover implements: bootstrap, control plane and infrastructure. Each
// has a file with its objects, its components. Drover is one program for all three, so the infrastructure provider has
// the server. The other two have their definitions in namespaces of their own: clusterctl labels each object with one
// provider, so no object may belong to two.
//
// The objects are those of the charts, for a Cluster API core that clusterctl installs. clusterctl replaces variables
// in their text:
//
//	DROVER_SERVER_URL      the https address at which machines reach Drover; required
//	DROVER_SERVICE_TYPE    type of the Service for machines, ClusterIP by default
//	DROVER_LOG_LEVEL       log level of the server, info by default
//
// The output directory has these parts:
//
//	assets/             the files of a release on GitHub
//	repository/         the same files as a local repository of clusterctl
//	clusterctl.yaml     a configuration of clusterctl that uses the local repository
package main
