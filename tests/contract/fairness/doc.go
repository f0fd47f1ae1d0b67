// Package fairness shows that a tenant whose clusters all fail does not hold up another one's. It has a management plane of its own, because hundreds
// of clusters that fail take long to be removed.
package fairness
