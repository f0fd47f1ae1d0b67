// Package backup tells how clusters come from one management cluster to another: by drover backup and drover restore when the first one is
// lost, and by clusterctl move while both live.
package backup
