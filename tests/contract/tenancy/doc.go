// Package tenancy checks that a namespace is a tenant. A user with the chart's tenant rights tries to get at another
// tenant's objects, and a tenant with failing clusters does not delay another one.
package tenancy
