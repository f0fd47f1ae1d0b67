// Command codegen writes the code and the schemas that Drover derives from its types. scripts/generate calls it; nothing
// imports it. It is a module of its own so that generators never enter the dependencies of the product.
//
//	codegen clients                    deep copies, list types and scheme registration beside the types, and the typed
//	                                   clients, caches and handlers in pkg/generated
//	codegen capi-crds SOURCE TARGET    Cluster API's CRDs from its module at SOURCE, reduced to contract v1beta2
//	codegen chart-crds SOURCE TARGET ORIGIN CONDITION
//	                                   the CRDs at SOURCE as templates of the chart drover-crd
//	codegen crd-reference SOURCE TARGET
//	                                   a page of documentation for each CRD at SOURCE
//	codegen api RECORD CHANGES         the record of what others may rely on: Go packages, fields of kinds, commands and flags. Fails
//	                                   when something of it is gone (docs/stability.md)
//
// All run in the root of the repository and write the same bytes for the same input.
package main
