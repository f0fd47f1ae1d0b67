// Package dynamicschema makes kinds from the schemas of node drivers: for the DynamicSchema "amazonec2config" it installs
// the definitions of Amazonec2Config, Amazonec2Machine and Amazonec2MachineTemplate.
//
// Which schemas have kinds is said by the schema "nodetemplateconfig", which lists the active drivers. A driver that is no
// longer there, or no longer active, loses its definitions only when no object of its kinds is left: with a definition the
// API server deletes every object of the kind, and with the machines the knowledge of what runs in the cloud.
//
// # Wake-ups
//
// Object: DynamicSchema. Woken by: DynamicSchema (the list of drivers), CustomResourceDefinition.
package dynamicschema
