// Package backup tests how clusters move to another management cluster: with drover backup and drover restore after the
// loss of the first one, and with clusterctl move while both exist.
package backup
