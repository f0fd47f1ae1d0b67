// Package scaling serves the API of the management cluster for the autoscalers of clusters. An autoscaler runs in its
// cluster and presents the token of its account, which Drover forwards. Drover adds none of its own permissions.
//
// It forwards only what the unmodified cluster-autoscaler needs, and narrows it to one cluster: each list and watch
// gets the label of the cluster as its selector, because RBAC cannot limit a list to some objects. Of discovery,
// autoscalers see only the group of Cluster API. They would otherwise list machine templates, which can contain
// passwords of clouds. (docs/wire/endpoints.md#autoscalers.)
package scaling
