// Package fairness checks that a tenant with failing clusters does not delay another tenant's clusters. It has its own
// management plane, because the removal of hundreds of failing clusters takes long.
package fairness
