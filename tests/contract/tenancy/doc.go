// Package tenancy shows that a namespace is a tenant: a user with the rights that the chart gives to tenants tries the doors of another
// tenant, and a tenant whose clusters all fail does not hold up another one's.
package tenancy
