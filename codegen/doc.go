// Command codegen writes the code and the schemas that Drover derives from its types. scripts/generate calls it, and no
// package imports it. It is a separate module, so that generators are no dependency of the product.
//
//	codegen clients                    deep copies, list types and scheme registration next to the types, and the
//	                                   typed clients, caches and handlers in pkg/generated
//	codegen capi-crds SOURCE TARGET    Cluster API's CRDs from its module at SOURCE, reduced to contract v1beta2
//	codegen chart-crds SOURCE TARGET ORIGIN CONDITION
//	                                   the CRDs at SOURCE as templates of the chart drover-crd
//	codegen crd-reference SOURCE TARGET
//	                                   a page of documentation for each CRD at SOURCE
//	codegen api RECORD CHANGES         the record of the public API: Go packages, fields of kinds, commands and flags.
//	                                   Fails if a part of it is gone (docs/stability.md)
//
// All commands run in the root of the repository and write the same bytes for the same input.
package main
