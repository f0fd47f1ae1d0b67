// Command codegen writes the code and the schemas that Drover derives from its types. scripts/generate calls it; nothing
// imports it. It is a module of its own so that generators never enter the dependencies of the product.
//
//	codegen clients                    deep copies, list types and scheme registration beside the types, and the typed
//	                                   clients, caches and handlers in pkg/generated
//	codegen capi-crds SOURCE TARGET    Cluster API's CRDs from its module at SOURCE, reduced to contract v1beta2
//
// Both run in the root of the repository and write the same bytes for the same input.
package main
